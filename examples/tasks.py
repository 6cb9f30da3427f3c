"""Tasks to copy from: each function shows one thing that a task queue is for.

A handler is an ordinary function. What makes it a good one: it may be called again after a crash, so
doing its work twice must be harmless; it takes and returns plain JSON; it says how long it may run.

    dtq dev examples.tasks:app
    dtq submit files.count_words path=README.md --wait --app examples.tasks:app
"""

import asyncio
import gzip
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

from dtq_engine import Dtq, PermanentError, Snooze, TaskContext, TaskStatus

app = Dtq()


# Work on files. A file that is not there will not be there at the next attempt either: no retries.


@app.task("files.count_words", queue="demo", permanent=(FileNotFoundError,))
def count_words(path: str) -> dict[str, int]:
    """How many lines, words and bytes a text file has."""
    content = Path(path).read_bytes()
    return {"lines": content.count(b"\n"), "words": len(content.split()), "bytes": len(content)}


@app.task("files.hash", queue="demo", permanent=(FileNotFoundError,))
def hash_file(path: str) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@app.task("files.compress", queue="demo", permanent=(FileNotFoundError,))
def compress(ctx: TaskContext, path: str, folder: str) -> dict[str, int | str]:
    """Compress a file into a folder: written beside its place, then moved there, so that no half file is ever seen."""
    content = Path(path).read_bytes()
    target = Path(folder) / (path.replace("/", "__") + ".gz")
    write_whole(target, gzip.compress(content, mtime=0), unique=ctx.task_id)
    return {"path": str(target), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_whole(target: Path, content: bytes, *, unique: str) -> None:
    """Write a file so that others see either the old one or all of the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{unique}")
    draft.write_bytes(content)
    draft.replace(target)


# A task that stands on the results of others: until they are there it asks to be called later, which does
# not count as an attempt and keeps no worker waiting.


@app.task("reports.build", queue="demo-reports", timeout=30)
def build_report(ctx: TaskContext, counts: dict[str, str], hashes: dict[str, str], target: str) -> dict[str, int | str]:
    """Write a report on files as Markdown; `counts` and `hashes` map a path to the id of the task about it."""
    handles = {task_id: app.handle(task_id, queue="demo") for task_id in [*counts.values(), *hashes.values()]}
    statuses = {task_id: handle.status() for task_id, handle in handles.items()}
    if not all(status.is_final for status in statuses.values()):
        raise Snooze(0.25)
    if lost := [task_id for task_id, status in statuses.items() if status is not TaskStatus.SUCCEEDED]:
        raise PermanentError(f"{len(lost)} of the tasks did not succeed, {lost[0]} for one")
    words = {path: handles[task_id].result(timeout=5) for path, task_id in counts.items()}
    digests = {path: handles[task_id].result(timeout=5) for path, task_id in hashes.items()}
    write_whole(Path(target), report(ctx.task_id, words, digests).encode(), unique=ctx.task_id)
    return {"path": target, "files": len(words), "words": sum(count["words"] for count in words.values())}


def report(task_id: str, words: dict[str, dict[str, int]], digests: dict[str, str]) -> str:
    """The report's text: totals, the longest files, and files that are the same."""
    longest = sorted(words, key=lambda path: -words[path]["words"])[:10]
    same = len(digests) - len(set(digests.values()))
    totals = {unit: sum(count[unit] for count in words.values()) for unit in ("lines", "words")}
    lines = [
        "# Text files of this repository",
        "",
        f"Put together by task {task_id}.",
        "",
        f"{len(words)} files, {totals['lines']:,} lines, {totals['words']:,} words; {same} are copies of another.",
        "",
        "| file | lines | words | sha256 |",
        "| --- | ---: | ---: | --- |",
    ]
    for path in longest:
        count = words[path]
        lines.append(f"| {path} | {count['lines']:,} | {count['words']:,} | {digests[path][:12]} |")
    return "\n".join(lines) + "\n"


# Things that go wrong.


@app.task("demo.flaky", queue="demo", max_attempts=5, retry_base_delay=0.2, retry_jitter=0.0)
def flaky(ctx: TaskContext) -> str:
    """Fail twice, as a network does, and succeed on the third attempt."""
    if ctx.attempt < 3:
        raise ConnectionError(f"the other side hung up on attempt {ctx.attempt}")
    return f"succeeded on attempt {ctx.attempt}"


@app.task("demo.always_fails", queue="demo", max_attempts=3, retry_base_delay=0.1)
def always_fails(amount: str) -> int:
    """Fail at every attempt; after the last one the task is dead-lettered, where `dtq dlq list` shows it."""
    return int(amount)


@app.task("demo.overruns", queue="demo", timeout=1, max_attempts=1)
async def overruns(path: str) -> str:
    """Wait for a file that never comes, and be stopped at the timeout."""
    while not Path(path).exists():
        await asyncio.sleep(0.05)
    return path


# Things about time.


@app.task("demo.delayed", queue="demo")
def delayed() -> str:
    """When this ran; submit it with `delayed.options(delay=60).submit()`."""
    return datetime.now(UTC).isoformat()


@app.task("demo.urgent", queue="demo", priority=9)
def urgent(subject: str) -> str:
    """Overtake all that waits with a lower priority; 9 is the most urgent, 5 the default."""
    return f"{subject} was dealt with at once"


@app.task("demo.watch", queue="demo", timeout=120)
async def watch(ctx: TaskContext, folder: str, seconds: float) -> int:
    """Count the changes in a folder for some time; a cancel stops it in the middle of an `await`."""
    before, changes = snapshot(folder), 0
    for _ in range(int(seconds / 0.1)):
        await asyncio.sleep(0.1)
        now = snapshot(folder)
        before, changes = now, changes + len(before ^ now)
        if ctx.stopping:
            raise Snooze(0)
    return changes


def snapshot(folder: str) -> frozenset[tuple[str, int]]:
    """The files of a folder with the times of their last change."""
    with os.scandir(folder) as entries:
        return frozenset((entry.name, entry.stat().st_mtime_ns) for entry in entries if entry.is_file())


# Heavy computing. A thread cannot be interrupted, so it looks now and then whether it is still wanted.


@app.task("demo.count_primes", queue="demo", timeout=60)
def count_primes(ctx: TaskContext, below: int) -> int:
    """How many primes there are below a number, by trial division."""
    primes = [2]
    for candidate in range(3, below, 2):
        if candidate % 1_001 == 0 and ctx.cancelled:
            raise PermanentError("cancelled half-way")
        if is_prime(candidate, primes):
            primes.append(candidate)
    return len(primes) if below > 2 else 0


def is_prime(candidate: int, primes: list[int]) -> bool:
    """Whether none of the smaller primes divides an odd number."""
    for prime in primes:
        if prime * prime > candidate:
            return True
        if candidate % prime == 0:
            return False
    return True

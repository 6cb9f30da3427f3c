"""What the demonstration submits: tasks about the text files of this repository, and one of each kind."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dtq_engine import DtqError, Handle, NewTask
from examples import tasks

ROOT = Path(__file__).resolve().parent.parent
TEXT = frozenset(
    {".cfg", ".css", ".html", ".ini", ".js", ".lua", ".md", ".py", ".rst", ".toml", ".txt", ".yaml", ".yml"}
)
MOST_FILES = 1_000
MOST_COMPRESSED = 25
DELAY_S = 2.0
PRIMES_BELOW = 300_000
PRIMES = 25_997


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The ids of one run's tasks, by what they are there to show."""

    words: Mapping[str, str]
    hashes: Mapping[str, str]
    compressions: Mapping[str, str]
    report: str
    report_path: str
    flaky: str
    always_fails: str
    overruns: str
    delayed: str
    urgent: str
    watch: str
    primes: str
    twice: tuple[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """The tasks about files; the urgent one was submitted after them."""
        return (*self.words.values(), *self.hashes.values(), *self.compressions.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """All of them."""
        singles = (self.report, self.flaky, self.always_fails, self.overruns, self.delayed, self.urgent, self.watch)
        return tuple(dict.fromkeys((*self.files, *singles, self.primes, *self.twice)))


def text_files(root: Path = ROOT) -> list[str]:
    """The text files of the repository, as paths from its root; hidden folders and installed packages left out."""
    return sorted(_walk(root))[:MOST_FILES]


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [
            each for each in folders if not each.startswith((".", "__")) and each not in {"venv", "node_modules"}
        ]
        yield from (str((Path(folder) / name).relative_to(root)) for name in names if Path(name).suffix in TEXT)


def submit(run: str, paths: list[str], output: Path) -> Workload:
    """Submit everything. `run` tells this run from others on the same server; files are written to `output`."""
    slow = {
        "watch": tasks.watch.submit(".", seconds=60.0).id,
        "overruns": tasks.overruns.submit(str(output / "never.txt")).id,
        "delayed": tasks.delayed.options(delay=DELAY_S).submit().id,
        "flaky": tasks.flaky.submit().id,
        "always_fails": tasks.always_fails.submit("twelve").id,
        "primes": tasks.count_primes.submit(PRIMES_BELOW).id,
    }
    words, hashes, compressions, urgent = _submit_files(paths, output)
    once = tasks.hash_file.options(idempotency_key=f"demo-{run}")
    target = str(output / "report.md")
    return Workload(
        words=words,
        hashes=hashes,
        compressions=compressions,
        urgent=urgent,
        twice=(once.submit(paths[0]).id, once.submit(paths[0]).id),
        report=tasks.build_report.submit(counts=words, hashes=hashes, target=target).id,
        report_path=target,
        **slow,
    )


def _submit_files(paths: list[str], output: Path) -> tuple[dict[str, str], dict[str, str], dict[str, str], str]:
    """All the tasks about files in one call, and the urgent one at its end."""
    large = sorted(paths, key=lambda path: -(ROOT / path).stat().st_size)[:MOST_COMPRESSED]
    words = {path: tasks.count_words.prepare(path) for path in paths}
    hashes = {path: tasks.hash_file.prepare(path) for path in paths}
    compressions = {path: tasks.compress.prepare(path, str(output)) for path in large}
    urgent = tasks.urgent.prepare("A customer's call")
    _accepted(tasks.app.submit_many([*words.values(), *hashes.values(), *compressions.values(), urgent]))
    return _ids(words), _ids(hashes), _ids(compressions), urgent.id


def _ids(prepared: Mapping[str, NewTask]) -> dict[str, str]:
    return {path: task.id for path, task in prepared.items()}


def _accepted(answers: "list[Handle[object] | DtqError]") -> None:
    for answer in answers:
        if isinstance(answer, DtqError):
            raise answer

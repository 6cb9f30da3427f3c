"""What must have become of the demonstration's tasks, and what did."""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from dtq_engine import Task, TaskStatus
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, status_cell
from dtq_engine.words import span
from examples.workload import DELAY_S, PRIMES, ROOT, Workload

HEADERS = (
    Column("TYPE", least=12),
    Column("TASKS"),
    Column("OUTCOME"),
    Column("ATTEMPTS", spare=3),
    Column("WAIT P50", spare=2),
    Column("WAIT MAX", spare=4),
    Column("RUN P50", spare=1),
    Column("RUN MAX", spare=5),
)

Tasks = Mapping[str, Task]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One expectation, whether it was met, and what was seen."""

    expectation: str
    met: bool
    seen: str = ""


def verdicts(work: Workload, tasks: Tasks) -> Iterator[Verdict]:
    """All expectations; a task that never ended meets none."""
    yield from _about_files(work, tasks)
    yield _flaky(tasks[work.flaky])
    yield _dead("the failing task was dead-lettered after its last attempt", tasks[work.always_fails], "max_attempts")
    yield _overran(tasks[work.overruns])
    yield _delayed(tasks[work.delayed])
    yield _urgent(work, tasks)
    yield _cancelled(tasks[work.watch])
    yield Verdict(
        "the primes were counted right", result(tasks[work.primes]) == PRIMES, str(result(tasks[work.primes]))
    )
    yield Verdict("the task submitted twice under one key is one task", len(set(work.twice)) == 1, work.twice[0])


def result(task: Task) -> Any:
    """What a task that succeeded returned; None for others."""
    succeeded = task.status is TaskStatus.SUCCEEDED and task.result is not None
    return msgspec.json.decode(task.result or b"null") if succeeded else None


def _about_files(work: Workload, tasks: Tasks) -> Iterator[Verdict]:
    done = sum(tasks[each].status is TaskStatus.SUCCEEDED for each in work.files)
    yield Verdict("every file was dealt with", done == len(work.files), f"{done} of {len(work.files)} tasks succeeded")
    same = sum(_is_intact(result(tasks[each])) for each in work.compressions.values())
    yield Verdict("what was compressed reads as before", same == len(work.compressions), f"{same} files")
    words = sum((result(tasks[each]) or {"words": 0})["words"] for each in work.words.values())
    report = result(tasks[work.report]) or {"words": None}
    written = ROOT / work.report_path
    met = report["words"] == words and work.report in written.read_text()
    yield Verdict("the report adds up", met, f"{words:,} words in {len(work.words)} files: {work.report_path}")


def _is_intact(compressed: Any) -> bool:
    if not compressed:
        return False
    content = gzip.decompress((ROOT / compressed["path"]).read_bytes())
    return str(compressed["sha256"]) == hashlib.sha256(content).hexdigest()


def _flaky(task: Task) -> Verdict:
    met = task.status is TaskStatus.SUCCEEDED and task.attempt == 3
    return Verdict("the flaky task succeeded on its third attempt", met, f"{task.status} on attempt {task.attempt}")


def _dead(expectation: str, task: Task, reason: str) -> Verdict:
    met = task.status is TaskStatus.DEAD_LETTERED and task.attempt == task.retry.max_attempts and task.reason == reason
    return Verdict(expectation, met, f"{_last_error(task)}, {task.attempt} attempts")


def _overran(task: Task) -> Verdict:
    stopped = task.run_ms is not None and task.timeout_ms <= task.run_ms < task.timeout_ms + 5_000
    met = task.status is TaskStatus.DEAD_LETTERED and stopped
    return Verdict(
        "the task that overran was stopped at its timeout", met, f"{_last_error(task)} after {span(task.run_ms)}"
    )


def _delayed(task: Task) -> Verdict:
    late = None if task.started_ms is None else task.started_ms - task.created_ms - DELAY_S * 1000
    met = task.status is TaskStatus.SUCCEEDED and late is not None and late >= 0
    return Verdict("the delayed task did not start before its time", met, f"started {span(late)} after it was due")


def _urgent(work: Workload, tasks: Tasks) -> Verdict:
    """Between its arrival and its start, nothing else of its queue may have started."""
    urgent = tasks[work.urgent]
    starts = [start for each in work.files if (start := tasks[each].started_ms) is not None]
    arrived, started = urgent.created_ms, urgent.started_ms or urgent.created_ms
    between = sum(arrived < start < started for start in starts)
    overtaken = sum(start >= started for start in starts)
    met = urgent.started_ms is not None and overtaken > 0 and between == 0
    return Verdict("the urgent task overtook all that waited before it", met, f"{overtaken} tasks")


def _cancelled(task: Task) -> Verdict:
    met = task.status is TaskStatus.CANCELLED and task.started_ms is not None
    return Verdict("the task that was cancelled stopped while it ran", met, f"{task.status} after {span(task.run_ms)}")


def _last_error(task: Task) -> str:
    return task.errors[-1].type if task.errors else str(task.status)


def rows(tasks: Tasks) -> Iterator[list[Cell]]:
    """A table of outcomes, one row for each task type and status."""
    groups: dict[tuple[str, TaskStatus], list[Task]] = {}
    for task in tasks.values():
        groups.setdefault((task.type, task.status), []).append(task)
    for (name, status), group in sorted(groups.items()):
        yield [Cell(name), Cell(str(len(group)), right=True), status_cell(status), *_numbers(group)]


def _numbers(group: list[Task]) -> Iterator[Cell]:
    attempts = sorted({task.attempt for task in group})
    yield Cell("-".join(str(each) for each in dict.fromkeys((attempts[0], attempts[-1]))), right=True)
    for lengths in ([task.wait_ms for task in group], [task.run_ms for task in group]):
        known = [length for length in lengths if length is not None]
        yield Cell(span(median(known)) if known else "-", right=True)
        yield Cell(span(max(known)) if known else "-", right=True)

"""A task's story: what became of it from its submission to its end, step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtq_engine import AttemptError, Task, TaskStatus
from webapp.pages.text import blocked

ENDS = {
    TaskStatus.SUCCEEDED: "Succeeded",
    TaskStatus.FAILED: "Failed",
    TaskStatus.DEAD_LETTERED: "Became a dead letter",
    TaskStatus.CANCELLED: "Cancelled",
    TaskStatus.EXPIRED: "Expired before its first start",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `tone` is a status whose colour it has; `gap_ms` is the time that passed since the step before."""

    title: str
    tone: str
    at_ms: int | None = None
    gap_ms: int | None = None
    gap: str = ""
    worker: str | None = None
    ran_ms: int | None = None
    error: AttemptError | None = None
    note: str = ""


def in_line(task: Task) -> bool:
    """Whether it waits for others to end or to make room, so that nobody knows when it runs."""
    kind = (task.reason or "").partition(":")[0]
    return task.status is TaskStatus.BLOCKED and kind in {"limit", "waits_for_parents"}


def story(task: Task) -> Sequence[Step]:
    """The steps, oldest first."""
    return list(_steps(task))


def _steps(task: Task) -> Iterator[Step]:
    yield Step("Submitted", "queued", task.created_ms or None)
    if task.previous_attempts:
        many = "1 attempt" if task.previous_attempts == 1 else f"{task.previous_attempts} attempts"
        note = f"{many} before it was requeued, of which the latest errors are kept"
        yield Step("Had an earlier life", "cancelled", note=note)
    last_ms, gap, earlier = task.created_ms, "waited", _earlier(task)
    for at, error in enumerate(task.errors):
        yield _failed(error, last_ms, gap, ", earlier life" if at < earlier else "")
        last_ms, gap = error.ended_ms or last_ms, "next start after"
    yield from _present(task, last_ms, gap)


def _earlier(task: Task) -> int:
    """How many of the errors are from before the task was requeued, when its attempts were counted anew."""
    if not task.previous_attempts:
        return 0
    at, most = len(task.errors), task.attempt - (task.status in {TaskStatus.RUNNING, TaskStatus.SUCCEEDED})
    while at and most > 0 and task.errors[at - 1].attempt <= most:
        at -= 1
        most = (task.errors[at].attempt or most) - 1
    return at


def _failed(error: AttemptError, last_ms: int, gap: str, life: str) -> Step:
    started, ended = error.started_ms or None, error.ended_ms or None
    return Step(
        f"Attempt {error.attempt}{life}" if error.attempt else f"An attempt{life}",
        "retrying",
        started or ended,
        gap_ms=started - last_ms if started and last_ms else None,
        gap=gap,
        worker=error.worker or None,
        ran_ms=ended - started if started and ended else None,
        error=error,
    )


def _present(task: Task, last_ms: int, gap: str) -> Iterator[Step]:
    """The attempt that runs or ran last without an error, and how the task is now."""
    failed = bool(task.errors) and task.errors[-1].started_ms == task.started_ms
    ran = task.started_ms is not None and not failed and task.status in {TaskStatus.RUNNING, TaskStatus.SUCCEEDED}
    if ran and task.started_ms is not None:
        yield Step(
            f"Attempt {task.attempt}",
            str(task.status),
            task.started_ms,
            gap_ms=task.started_ms - last_ms if last_ms else None,
            gap=gap,
            worker=task.worker,
            ran_ms=task.run_ms,
            note="runs now" if task.status is TaskStatus.RUNNING else "",
        )
    match task.status:
        case TaskStatus.QUEUED:
            yield Step("Waits for a free worker", "queued")
        case TaskStatus.PENDING:
            yield Step("Waits for its time", "pending", task.due_ms)
        case TaskStatus.RETRYING:
            yield Step(f"Waits for attempt {task.attempt + 1}", "retrying", task.due_ms)
        case TaskStatus.BLOCKED:
            due_ms = None if in_line(task) else task.due_ms
            yield Step(blocked(task.reason), "blocked", due_ms, note="next look" if due_ms else "")
        case TaskStatus.RUNNING:
            pass
        case _:
            yield Step(ENDS[task.status], str(task.status), task.finished_ms, note=task.reason or "")

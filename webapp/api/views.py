"""Tasks as answers."""

from typing import Any

import msgspec

from dtq_engine import Task, TaskStatus
from dtq_engine.instants import at
from dtq_engine.shapes import task_shape
from webapp.api.responses import ResultAnswer, TaskDetail, TaskRow
from webapp.readers import as_seen, sees_payloads

_SAME = ("id", "type", "queue", "status", "priority", "attempt", "run_ms", "worker", "reason")


def detail_of(task: Task) -> TaskDetail:
    """All that the reader may see of a task."""
    shape = task_shape(as_seen(task))
    return TaskDetail(**msgspec.structs.asdict(shape), hidden=not sees_payloads())


def row_of(task: Task) -> TaskRow:
    """A task in a list."""
    seen = as_seen(task)
    same: dict[str, Any] = {name: getattr(seen, name) for name in _SAME}
    instants: dict[str, Any] = {
        f"{name}_at": at(getattr(seen, f"{name}_ms")) for name in ("created", "due", "started", "finished")
    }
    return TaskRow(**same, **instants, max_attempts=seen.retry.max_attempts, error=_last_error(seen))


def result_of(task: Task) -> ResultAnswer:
    """How a task ended."""
    shape = task_shape(as_seen(task))
    return ResultAnswer(
        id=shape.id,
        status=shape.status,
        result=shape.result,
        result_size=shape.result_size,
        result_preview=shape.result_preview,
        reason=shape.reason,
        error=_last_error(as_seen(task)),
        hidden=not sees_payloads(),
    )


def _last_error(task: Task) -> str | None:
    if not task.errors or task.status is TaskStatus.SUCCEEDED:
        return None
    return f"{task.errors[-1].type}: {task.errors[-1].message}".removesuffix(": ")

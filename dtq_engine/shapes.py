"""The JSON that `--json` prints and the HTTP API answers. The classes are its documentation; fields are only added.

Instants are ISO 8601 in UTC (`2026-10-31T08:00:00.000Z`), lengths of time are milliseconds, `null` means
"not yet" or "none". `payload` and `result` are the JSON values themselves. A command that fails prints
`{"error": …}` instead and says the same on stderr; the HTTP API answers with problem details (RFC 9457).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from dtq_engine.errors import ConfigurationError, DtqError
from dtq_engine.instants import at
from dtq_engine.model import (
    AttemptError,
    CancelOutcome,
    DeadLetterEntry,
    QueueStats,
    Receipt,
    SubmitOutcome,
    Task,
    TaskStatus,
    Unique,
)
from dtq_engine.report_shapes import ProgressShape, progress_shape


class ErrorShape(msgspec.Struct):
    """Why a command failed: `code` is the name of the error's class, such as `RedisUnavailable`."""

    code: str
    message: str


class FailureShape(msgspec.Struct):
    """What any command prints when it fails as a whole."""

    error: ErrorShape


class AttemptShape(msgspec.Struct):
    """One attempt that ended without a result."""

    attempt: int
    type: str
    message: str
    traceback: str
    worker: str
    started_at: str | None
    ended_at: str | None


class TaskShape(msgspec.Struct, kw_only=True):
    """A task, as `status`, `list` and `result` print it.

    Of a result too large to keep, `result` is null, `result_preview` its beginning and `result_size`
    its true length in bytes.
    """

    id: str
    type: str
    queue: str
    status: TaskStatus
    priority: int
    attempt: int
    max_attempts: int
    timeout_ms: int
    payload: msgspec.Raw
    result: msgspec.Raw
    result_size: int | None
    result_preview: str | None
    created_at: str | None
    due_at: str | None
    started_at: str | None
    finished_at: str | None
    deadline_at: str | None
    expires_at: str | None
    wait_ms: int | None
    run_ms: int | None
    worker: str | None
    cancel_requested: bool
    reason: str | None
    idempotency_key: str | None
    headers: dict[str, str]
    errors: list[AttemptShape]
    unique: Unique | None = None
    debounced: bool = False
    progress: ProgressShape | None = None


class TasksShape(msgspec.Struct):
    """`dtq list`: a page; `cursor` continues it. `dtq status`: the tasks found, and the ids that are not.

    `complete` is false as long as there may be more, even if this page has nothing.
    """

    tasks: list[TaskShape]
    cursor: str | None = None
    missing: list[str] = []
    complete: bool = True


class SubmittedShape(msgspec.Struct, kw_only=True):
    """`dtq submit`: one per task. `line` is set for a file's tasks; one with an `error` was refused.

    `warnings` say that no handler's options were applied.
    """

    line: int | None = None
    id: str | None = None
    queue: str | None = None
    outcome: SubmitOutcome | None = None
    status: TaskStatus | None = None
    error: ErrorShape | None = None
    warnings: list[str] = []


class VerbShape(msgspec.Struct):
    """What a verb (`cancel`, `dlq requeue`, `dlq discard`) did to one task, or why it did nothing."""

    id: str
    outcome: str | None = None
    error: ErrorShape | None = None


class VerbsShape(msgspec.Struct):
    """What a verb did, task by task."""

    results: list[VerbShape]


class QueueShape(msgspec.Struct, kw_only=True):
    """A queue; `waiting_by_priority` has a member for each priority in use, `workers` counts the live ones."""

    queue: str
    depth: int
    waiting: int
    running: int
    delayed: int
    retrying: int
    blocked: int
    succeeded: int
    failed: int
    dead_lettered: int
    cancelled: int
    expired: int
    paused: bool
    pause_reason: str | None
    oldest_waiting_at: str | None
    waiting_by_priority: dict[str, int]
    workers: int


class QueuesShape(msgspec.Struct):
    """`dtq queues`."""

    queues: list[QueueShape]


class PauseShape(msgspec.Struct):
    """`dtq pause` and `dtq resume`: how the queue is now."""

    queue: str
    paused: bool


class DeadLetterShape(msgspec.Struct, kw_only=True):
    """A dead letter: `id` is the task's, `entry` its place among the queue's dead letters."""

    id: str
    entry: str
    queue: str
    type: str
    reason: str
    error: str
    attempts: int
    worker: str
    died_at: str | None


class DeadLettersShape(msgspec.Struct):
    """`dtq dlq list`: a page, newest first; `cursor` continues it."""

    dead_letters: list[DeadLetterShape]
    cursor: str | None


def raw(value: bytes | None) -> msgspec.Raw:
    """Stored JSON as it is, on one line; what is not JSON becomes a string."""
    if value is None:
        return msgspec.Raw(b"null")
    try:
        return msgspec.Raw(msgspec.json.format(value, indent=-1))
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(value.decode(errors="replace")))


def error_shape(error: Exception) -> ErrorShape:
    """An error's class and sentence."""
    return ErrorShape(code=type(error).__name__, message=sentence(error))


def sentence(error: Exception) -> str:
    """What an error says; each problem of a configuration on a line of its own."""
    if isinstance(error, ConfigurationError) and error.problems:
        return "\n".join(error.problems)
    if isinstance(error, DtqError):
        return str(error) or f"{type(error).__name__}."
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def task_shape(task: Task) -> TaskShape:
    """A task for `--json`."""
    named: dict[str, Any] = {name: getattr(task, name) for name in TaskShape.__struct_fields__ if hasattr(task, name)}
    named |= _result_fields(task) | dict(_instants(task))
    named |= {"max_attempts": task.retry.max_attempts, "payload": raw(task.payload), "headers": dict(task.headers)}
    named["progress"] = None if task.progress is None else progress_shape(task.progress)
    named["errors"] = [_attempt_shape(error) for error in task.errors]
    return TaskShape(**named)


def _instants(task: Task) -> Iterator[tuple[str, Any]]:
    for name in ("created", "due", "started", "finished", "deadline", "expires"):
        yield f"{name}_at", at(getattr(task, f"{name}_ms"))


def _result_fields(task: Task) -> dict[str, Any]:
    cut = task.result_truncated
    preview = task.result.decode(errors="replace") if cut and task.result is not None else None
    return {
        "result": raw(None if cut else task.result),
        "result_size": task.result_size,
        "result_preview": preview,
    }


def _attempt_shape(error: AttemptError) -> AttemptShape:
    return AttemptShape(
        attempt=error.attempt,
        type=error.type,
        message=error.message,
        traceback=error.traceback,
        worker=error.worker,
        started_at=at(error.started_ms),
        ended_at=at(error.ended_ms),
    )


def submitted_shape(receipt: Receipt, line: int | None = None, *, warning: str | None = None) -> SubmittedShape:
    """An accepted task for `--json`."""
    warnings = [warning] if warning else []
    named = {name: getattr(receipt, name) for name in ("id", "queue", "outcome", "status")}
    return SubmittedShape(line=line, warnings=warnings, **named)


def cancel_shape(task_id: str, outcome: CancelOutcome) -> VerbShape:
    """What `dtq cancel` did to a task."""
    return VerbShape(id=task_id, outcome=str(outcome))


def queue_shape(stats: QueueStats, workers: int) -> QueueShape:
    """A queue for `--json`."""
    named = {name: getattr(stats, name) for name in QueueShape.__struct_fields__ if hasattr(stats, name)}
    bands = {str(priority): count for priority, count in sorted(stats.waiting_by_priority.items(), reverse=True)}
    named |= {"waiting_by_priority": bands, "oldest_waiting_at": at(stats.oldest_waiting_ms), "workers": workers}
    return QueueShape(**named)


def dead_letter_shape(entry: DeadLetterEntry) -> DeadLetterShape:
    """A dead letter for `--json`."""
    return DeadLetterShape(
        id=entry.task_id,
        entry=entry.entry,
        queue=entry.queue,
        type=entry.type,
        reason=entry.reason,
        error=entry.error,
        attempts=entry.attempts,
        worker=entry.worker,
        died_at=at(entry.died_ms),
    )

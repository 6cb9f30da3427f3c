"""Every error dtq raises, as one tree under `DtqError`.

A message is one sentence that says what is wrong and what to do about it; it is safe to show to a
user. The web layer and the command line translate these classes once; nothing else may leak out.
"""

from collections.abc import Sequence


class DtqError(Exception):
    """The root of everything dtq raises on purpose."""


class ConfigurationError(DtqError):
    """Raised when settings are wrong; carries all the problems found, not only the first."""

    def __init__(self, problems: Sequence[str]) -> None:
        # A sentence each, on a line of its own, whatever the error that it tells of holds.
        self.problems = tuple(" ".join(each.splitlines()) for each in problems)
        super().__init__("; ".join(self.problems))


class InvalidTask(DtqError):
    """Raised when a task cannot be accepted as given; `field` names the culprit."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


class PayloadTooLarge(InvalidTask):
    """Raised when a payload or its headers exceed the limit in bytes."""


class NotJson(DtqError):
    """Raised when a value cannot be written as JSON and read back as the same value; `path` says where."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(message)


class InvalidHandler(DtqError):
    """Raised at registration when a function cannot serve as a task handler."""


class InvalidLimit(DtqError):
    """Raised when a limit cannot be as given, or a task type cannot have it."""


class HookFailed(DtqError):
    """Raised when a hook of the app fails where it is in the way: at a worker's start, or around tasks it changed."""


class UnknownTaskType(DtqError):
    """Raised when a task type is not registered with this app."""


class QueueFull(DtqError):
    """Raised when a queue holds `MAX_QUEUE_DEPTH` tasks; submit again later."""


class MemoryFull(DtqError):
    """Raised when Redis is so full that new tasks are refused; running ones go on."""


class IdempotencyMismatch(DtqError):
    """Raised when an idempotency key was used before with another type or payload."""


class IdempotencyConflict(DtqError):
    """Raised when an idempotency key is taken and `IDEM_CONFLICT` is `reject`."""


class UniqueConflict(IdempotencyConflict):
    """Raised when a task cannot be requeued because another one holds its unique key by now."""


class TaskNotFound(DtqError):
    """Raised when no record exists under an id: never accepted, trimmed, or discarded."""


class PeriodicNotFound(DtqError):
    """Raised when there is no periodic task of a name: never announced by a worker, or removed a day ago."""


class LimitNotFound(DtqError):
    """Raised when a queue has no limit of a name: no living worker declares it, and nobody has set it."""


class InvalidTransition(DtqError):
    """Raised when a task's state does not allow the request, such as requeueing a running task."""


class NewerRecord(DtqError):
    """Raised when a record was written by a newer release and must be left to it."""


class InvalidCursor(DtqError):
    """Raised when a listing is continued with something that is no cursor."""


class ClaimLost(DtqError):
    """Raised when an execution no longer owns its task; its result was not recorded."""


class RedisUnavailable(DtqError):
    """Raised when Redis cannot be reached or cannot serve; try again later.

    `may_have_run` says whether the call can have been executed although its reply was lost.
    """

    def __init__(self, message: str, may_have_run: bool = False) -> None:
        self.may_have_run = may_have_run
        super().__init__(message)


class RedisDamaged(DtqError):
    """Raised when a key of dtq holds another type than it should; nothing was written."""


class RedisRefused(DtqError):
    """Raised when Redis answers with an error that dtq does not know; nothing can be said about what was written."""


class SubmitUncertain(DtqError):
    """Raised when Redis went away with a submit under way: the task may or may not exist.

    Submit again with the same id (or idempotency key): if it was accepted, it is not doubled.
    """

    def __init__(self, task_id: str, others: Sequence[str] = ()) -> None:
        self.task_id = task_id
        self.task_ids = (task_id, *others)
        many = f" and {len(others)} more" if others else ""
        super().__init__(
            f"Redis went away while task {task_id}{many} was being submitted, and whether it was accepted is unknown: "
            f"look it up, or submit it again with the same id."
        )


class ResultNotReady(DtqError):
    """Raised when a task has not ended within the time the caller was willing to wait."""


class ResultTruncated(DtqError):
    """Raised when a result was larger than `RESULT_MAX_BYTES`, so that only a preview was kept."""


class ResultMismatch(DtqError):
    """Raised by `result()` when what was stored is not of the type that the handler promises here."""


class TaskFailed(DtqError):
    """Raised by `result()` when a task ended without a result; `status` says how it ended."""

    def __init__(self, task_id: str, status: str, message: str) -> None:
        self.task_id = task_id
        self.status = status
        super().__init__(message)


class ProcessDied(DtqError):
    """Raised for a handler with a process of its own when that process dies: it crashed, or was killed.

    `exit_code` is how it ended, or `signal` the name of the signal that killed it; the other one is None.
    `peak_rss_kib` is the most memory that it used.
    """

    def __init__(self, message: str, *, exit_code: int | None, signal: str | None, peak_rss_kib: int) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.peak_rss_kib = peak_rss_kib
        super().__init__(message)


class PermanentError(Exception):
    """Raise it in a handler when another attempt cannot help: the task is dead-lettered at once."""


class InvalidStep(DtqError, PermanentError):
    """Raised when a step, a checkpoint or a mark cannot be kept as asked, which no further attempt would change."""


class InvalidReport(DtqError):
    """Raised when progress or a log line is not what it must be, such as a progress of NaN."""


class Retry(Exception):
    """Raise it in a handler to try again after `delay` seconds; the attempt counts."""

    def __init__(self, delay: float, reason: str = "") -> None:
        self.delay = delay
        self.reason = reason
        super().__init__(reason or f"the handler asked to be tried again in {delay} s")


class Handover(Exception):
    """Raise it in a handler to give the task back as it is: it is at once available to others, and no attempt counts.

    For a handler that finds `ctx.stopping` set and has saved how far it came.
    """


class Snooze(Exception):
    """Raise it in a handler to be called again after `delay` seconds; the attempt does not count."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        super().__init__(f"snoozed for {delay} s")

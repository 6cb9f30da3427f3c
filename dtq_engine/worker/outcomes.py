"""What became of an execution, as an outcome that the policy can judge. No I/O."""

import asyncio
from dataclasses import replace

from dtq_engine.codec import describe_error
from dtq_engine.errors import Handover, PermanentError, Retry, Snooze
from dtq_engine.model import (
    AskedRetry,
    AskedSnooze,
    AttemptError,
    Claim,
    HandedOver,
    LeaseExpired,
    Misfit,
    Outcome,
    Raised,
    Returned,
    ShutDown,
    TimedOut,
    WasCancelled,
)
from dtq_engine.worker.execution import Cause, Execution

MAX_DELAY_S = 10 * 365 * 86_400
PREVIEW_BYTES = 1024
NOTHING = Returned(None)
OF_EXCEPTIONS = (Raised, AskedRetry, Misfit)
"""The outcomes that fail an attempt because the handler, or what came before it, raised."""


class BadPayload(PermanentError):
    """Raised when a payload does not fit the parameters of its handler."""


def returned(claim: Claim, value: bytes | None, max_bytes: int) -> Returned:
    """The handler returned this JSON; of more than `max_bytes` only a preview is kept."""
    if value is None or not claim.keep_result:
        return NOTHING
    if len(value) > max_bytes:
        return Returned(value[: min(PREVIEW_BYTES, max_bytes)], size=len(value))
    return Returned(value)


def raised(execution: Execution, error: BaseException) -> Outcome:
    """The handler raised; a CancelledError means what the execution was interrupted for."""
    try:
        return _raised(execution, error)
    except Exception as worse:
        # An exception of the handler's own making may raise when it is looked at; each execution has to end.
        return Raised(attempt_error(execution, worse))


def _raised(execution: Execution, error: BaseException) -> Outcome:
    match error:
        case Retry() if (delay_ms := _milliseconds(error.delay)) is not None:
            return AskedRetry(attempt_error(execution, error), delay_ms)
        case Snooze() if (delay_ms := _milliseconds(error.delay)) is not None:
            return AskedSnooze(delay_ms)
        case Handover():
            return HandedOver(attempt_error(execution, error), execution.saved)
        case asyncio.CancelledError() if execution.cause is not None:
            return gave_way(execution, execution.cause)
        case BadPayload():
            return Misfit(attempt_error(execution, error))
        case _:
            permanent = isinstance(error, (PermanentError, *execution.handler.permanent))
            return Raised(attempt_error(execution, error), permanent=permanent)


def verdict(execution: Execution, outcome: Outcome) -> Outcome:
    """What counts of an outcome.

    An overdue execution has timed out, whatever it brings. One whose lease is lost, or whose worker leaves,
    may still succeed; its failures come of that, and count as that.
    """
    cause = execution.cause
    if cause is None:
        return outcome
    if execution.overdue_since is not None:
        return timed_out(execution)
    if cause is Cause.SHUTDOWN and isinstance(outcome, HandedOver):
        return outcome
    if cause in {Cause.LOST, Cause.SHUTDOWN} and not isinstance(outcome, Returned):
        return gave_way(execution, cause)
    return outcome


def gave_way(execution: Execution, cause: Cause) -> Outcome:
    """The execution was stopped for this cause."""
    match cause:
        case Cause.TIMEOUT:
            return timed_out(execution)
        case Cause.CANCEL:
            return WasCancelled(_stated(execution, "Cancelled", "The task was cancelled while it ran."))
        case Cause.LOST:
            return LeaseExpired(_stated(execution, "LeaseExpired", "The worker lost its lease on the task."))
        case Cause.SHUTDOWN:
            return shut_down(execution)


def timed_out(execution: Execution) -> TimedOut:
    """The execution passed its deadline."""
    limit = execution.claim.timeout_ms / 1000
    return TimedOut(_stated(execution, "TimedOut", f"The task ran longer than its timeout of {limit:g} s."))


def shut_down(execution: Execution) -> ShutDown:
    """The worker left before the handler was done."""
    error = _stated(execution, "ShutDown", "The worker shut down before the task was done.")
    return ShutDown(error, execution.saved)


def lease_expired(claim: Claim, now_ms: int) -> LeaseExpired:
    """The worker stopped renewing the lease of a task; said by the reaper that found it."""
    message = "The worker that ran the task stopped renewing its lease: it died, froze or was cut off."
    return LeaseExpired(_located(AttemptError("LeaseExpired", message), claim, now_ms))


def attempt_error(execution: Execution, error: BaseException) -> AttemptError:
    """The record of an exception that ended this attempt."""
    return _of(execution, describe_error(error))


def brought(execution: Execution, outcome: Outcome) -> Outcome:
    """An outcome that another process brings, its error placed in this attempt."""
    if isinstance(outcome, Raised | AskedRetry | Misfit | HandedOver):
        return replace(outcome, error=_of(execution, outcome.error))
    return outcome


def _stated(execution: Execution, kind: str, message: str) -> AttemptError:
    return _of(execution, AttemptError(kind, message))


def _of(execution: Execution, error: AttemptError) -> AttemptError:
    claim = execution.claim
    # The start is by Redis' clock; adding the time that passed here keeps the end on that clock.
    return _located(error, claim, claim.started_ms + execution.elapsed_ms())


def _located(error: AttemptError, claim: Claim, ended_ms: int) -> AttemptError:
    return replace(error, attempt=claim.attempt, worker=claim.worker, started_ms=claim.started_ms, ended_ms=ended_ms)


def _milliseconds(delay_s: object) -> int | None:
    if isinstance(delay_s, bool) or not isinstance(delay_s, int | float):
        return None
    # Compared as it is: to make a float of it would fail for a whole number of 400 digits. NaN is in no range.
    return round(delay_s * 1000) if 0 <= delay_s <= MAX_DELAY_S else None

"""What an accepted transition makes of a task."""

from typing import assert_never

from dtq_engine.model import (
    Block,
    Cancel,
    DeadLetter,
    Postpone,
    Release,
    Reschedule,
    Succeed,
    TaskStatus,
    Transition,
)
from tests.explore.calls.base import Seen
from tests.explore.promises import Known, Promises, expect


def follow(promises: Promises, known: Known, transition: Transition, seen: Seen) -> None:
    """Note that the execution ended like this. Of a task to be cancelled only a success still counts."""
    was_reaped = known.is_reaped
    known.outcome_recorded()
    if known.cancel_requested and not isinstance(transition, Succeed | Cancel):
        promises.allow(known.task.id, TaskStatus.CANCELLED)
        return
    match transition:
        case Succeed(result):
            known.has_result = result is not None and known.task.keep_result
            known.is_cut = transition.size is not None
            known.result = None if known.is_cut else result
            promises.allow(known.task.id, TaskStatus.SUCCEEDED)
            _check_result(known, transition, seen)
        case DeadLetter():
            promises.count(known.task, "attempts_failed")
            promises.allow(known.task.id, death(promises))
        case Cancel():
            promises.allow(known.task.id, TaskStatus.CANCELLED)
        case Reschedule(_, delay_ms):
            promises.count(known.task, "attempts_failed")
            promises.count(known.task, "retried")
            promises.events["TASK_RETRY_SCHEDULED"] += 1
            _wait(promises, known, delay_ms, was_reaped)
        case Postpone(delay_ms):
            known.attempt -= 1
            _wait(promises, known, delay_ms, was_reaped)
        case Release(restarts):
            known.attempt -= 1
            known.restarts += restarts
            promises.allow(known.task.id, TaskStatus.QUEUED)
        case Block():
            known.attempt -= 1
            block(promises, known, seen)
        case _:
            assert_never(transition)


def block(promises: Promises, known: Known, seen: Seen) -> None:
    """No worker here can run it: it waits for one that can, until it has been blocked for too long."""
    before_ms, after_ms = seen.before.now_ms, seen.after.now_ms
    known.blocked_ms = since = known.blocked_ms or (before_ms, after_ms)
    grace_ms = promises.settings.unknown_type_grace_s * 1000
    if before_ms - since[1] <= grace_ms:
        promises.allow(known.task.id, TaskStatus.BLOCKED)
    if after_ms - since[0] > grace_ms:
        promises.allow(known.task.id, death(promises))


def death(promises: Promises) -> TaskStatus:
    """What becomes of a task that failed for good."""
    return TaskStatus.DEAD_LETTERED if promises.settings.dlq_enabled else TaskStatus.FAILED


def _wait(promises: Promises, known: Known, delay_ms: int, was_reaped: bool) -> None:
    """It will run again; only a worker that recorded an outcome shows that the task does not kill workers."""
    known.blocked_ms = None
    if not was_reaped:
        known.restarts = known.expiries = 0
    promises.allow(known.task.id, TaskStatus.RETRYING if delay_ms > 0 else TaskStatus.QUEUED)


def _check_result(known: Known, transition: Succeed, seen: Seen) -> None:
    record = seen.after.records.get(known.task.id)
    if record is None:
        return
    is_kept = "R" in record or known.task.id in seen.after.satellites["r"]
    expect(is_kept == known.has_result, "a result is kept, and only where it should be", known.task.id, transition)

"""For which submits another task must stand, by what was promised: unique keys, throttles and debouncing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from tests.explore.calls.base import Seen
from tests.explore.promises import SLACK_MS, Known, Promises, expect

COUNTERS = {
    SubmitOutcome.DUPLICATE: "unique",
    SubmitOutcome.THROTTLED: "throttled",
    SubmitOutcome.REPLACED: "replaced",
}


@dataclass(slots=True)
class Expected:
    """The receipts that are right for a task for which another one stands; not `sure`: it may come in as well."""

    receipts: list[Receipt] = field(default_factory=list[Receipt])
    sure: bool = False


def remembered(promises: Promises, task: NewTask, seen: Seen) -> list[Receipt]:
    """The answer to a task that is sent again, though another one stands for it."""
    memo = promises.absorbed.get(task.id)
    if memo is None or task.id not in seen.before.absorbed:
        return []
    return [_receipt(promises, memo.outcome, memo.task_id, task)]


def expected(promises: Promises, task: NewTask, seen: Seen) -> Expected:
    """The answers because of another task that holds its key, or of those that a throttle let pass."""
    found = _held(promises, task, seen)
    return found if found.sure else _merged(found, _throttled(promises, task, seen))


def note(promises: Promises, task: NewTask, receipt: Receipt) -> None:
    """A task was absorbed: remember it, and what it did to the other one."""
    promises.remember_absorbed(task, receipt)
    promises.count(task, COUNTERS[receipt.outcome])
    promises.events["TASK_DUPLICATE_ABSORBED"] += 1
    if receipt.outcome is SubmitOutcome.REPLACED:
        promises.replace(receipt.id, task)


def check_postponed(pairs: Sequence[tuple[NewTask, Receipt]], seen: Seen) -> None:
    """Of several tasks of one call that replaced the same one, the last says until when it waits."""
    last = {receipt.id: task for task, receipt in pairs if receipt.outcome is SubmitOutcome.REPLACED}
    for task_id, task in last.items():
        _check_postponed(task, task_id, seen)


def rivals(promises: Promises, known: Known) -> tuple[bool, bool]:
    """Whether another task holds the key that this one takes in a new life, and whether that is sure."""
    wanted = known.task.deduplication
    if wanted is None or wanted.unique is None:
        return False, False
    found = [
        other.task.expires_in_ms is None or other.started or not other.expires
        for other in promises.tasks.values()
        if other is not known and other.is_holding and other.unique_key == known.unique_key
    ]
    return bool(found), any(found)


def _held(promises: Promises, task: NewTask, seen: Seen) -> Expected:
    wanted = task.deduplication
    if wanted is None or (wanted.unique is None and wanted.debounce_ms is None):
        return Expected()
    outcome = SubmitOutcome.DUPLICATE if wanted.unique else SubmitOutcome.REPLACED
    found = Expected()
    key = Known(task, None, 0).unique_key
    for known in promises.tasks.values():
        if not known.is_holding or known.unique_key != key:
            continue
        z = seen.before.records.get(known.task.id, seen.after.records.get(known.task.id, {})).get("z")
        doubt = _doubt(known, seen.before.now_ms, seen.after.now_ms, z, promises)
        if doubt is not None:
            found.receipts.append(_receipt(promises, outcome, known.task.id, task))
            found.sure = found.sure or not doubt
    return found


def _doubt(known: Known, before_ms: int, after_ms: int, z: str | None, promises: Promises) -> bool | None:
    """None for a task that has waited too long and so holds nothing; else whether that it holds its key is in doubt."""
    if z is None or known.started:
        return False
    if int(z) <= before_ms and not promises.went_back:
        return None
    return int(z) <= after_ms or promises.went_back


def _throttled(promises: Promises, task: NewTask, seen: Seen) -> Expected:
    wanted = task.deduplication
    if wanted is None or wanted.at_most is None or wanted.per_ms is None:
        return Expected()
    passed = promises.passed.get((task.type, wanted.key), [])
    if len(passed) < wanted.at_most:
        return Expected()
    oldest_ms, newest = passed[-wanted.at_most][0], passed[-1][1]
    if oldest_ms <= seen.before.now_ms - wanted.per_ms and not promises.went_back:
        return Expected()
    is_sure = oldest_ms > seen.after.now_ms - wanted.per_ms + SLACK_MS and not promises.went_back
    return Expected([_receipt(promises, SubmitOutcome.THROTTLED, newest, task)], is_sure)


def _receipt(promises: Promises, outcome: SubmitOutcome, task_id: str, task: NewTask) -> Receipt:
    status = promises.tasks[task_id].status
    return Receipt(task_id, task.queue, outcome, status, unique=outcome is SubmitOutcome.DUPLICATE)


def _merged(first: Expected, second: Expected) -> Expected:
    return Expected([*first.receipts, *second.receipts], first.sure or second.sure)


def _check_postponed(task: NewTask, task_id: str, seen: Seen) -> None:
    """A debounced task waits anew from its last submit on, but not for longer than it may."""
    wanted = task.deduplication
    assert wanted is not None
    assert wanted.debounce_ms is not None
    made_ms = int(seen.after.records[task_id]["c"])
    most_ms = made_ms + (wanted.debounce_max_ms or 10**15)
    soonest, latest = (min(now + wanted.debounce_ms, most_ms) for now in (seen.before.now_ms, seen.after.now_ms))
    due_ms = seen.after.waiting[TaskStatus.PENDING].get(task_id)
    right = due_ms is not None and soonest <= due_ms <= latest
    expect(right, "a debounced task is postponed", task_id, soonest, due_ms, latest)

"""Submitting tasks."""

from dataclasses import dataclass, fields

from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from tests.explore import absorbing
from tests.explore.calls.base import Place, Seen
from tests.explore.promises import GUARD_MS, Promises, expect


@dataclass(frozen=True)
class Submit:
    """Some tasks in one call."""

    tasks: tuple[NewTask, ...]

    def __repr__(self) -> str:
        return f"Submit({', '.join(map(written, self.tasks))})"

    def run(self, place: Place) -> list[Receipt]:
        return place.intake.submit(self.tasks)

    def learn(self, promises: Promises, answer: list[Receipt], seen: Seen) -> None:
        expect(len(answer) == len(self.tasks), "each task gets its receipt", answer)
        limit = promises.settings.max_queue_depth
        room = limit - seen.before.depth() if limit else len(self.tasks)
        absorbed = list[tuple[NewTask, Receipt]]()
        for task, receipt in zip(self.tasks, answer, strict=True):
            again = _exists(promises, task) or absorbing.remembered(promises, task, seen)
            expected = again or _by_key(promises, task) or _judged(promises, task, seen, room)
            expect(receipt in expected, "a submit is answered by what was promised", task.id, receipt, expected)
            if receipt.outcome is SubmitOutcome.NEW:
                _check_not_too_soon(promises, task)
                room -= 1
                promises.accept(task, receipt.status or TaskStatus.QUEUED)
                promises.let_pass(task, _accepted_ms(task, seen))
            elif not again and (receipt.unique or receipt.outcome in {SubmitOutcome.THROTTLED, SubmitOutcome.REPLACED}):
                absorbing.note(promises, task, receipt)
                absorbed.append((task, receipt))
            elif receipt.outcome is SubmitOutcome.DUPLICATE and not again:
                promises.events["TASK_DUPLICATE_ABSORBED"] += 1
        absorbing.check_postponed(absorbed, seen)


def written(task: NewTask) -> str:
    """A task as it would be written by hand: without what is by default so."""
    plain = NewTask(id=task.id, type=task.type)
    values = [(each.name, getattr(task, each.name), getattr(plain, each.name)) for each in fields(task)]
    given = [f"{name}={value!r}" for name, value, default in values if value != default]
    return ", ".join([f"NewTask(id={task.id!r}, type={task.type!r}", *given]) + ")"


def _exists(promises: Promises, task: NewTask) -> list[Receipt]:
    """The answer when the id is known."""
    known = promises.find(task.id)
    return [] if known is None else [Receipt(task.id, task.queue, SubmitOutcome.EXISTS, known.status)]


def _by_key(promises: Promises, task: NewTask) -> list[Receipt]:
    """The answer when the idempotency key is known."""
    key = promises.keys.get(task.idempotency_key or "")
    if key is None:
        return []
    holder = promises.tasks[key.task_id]
    if key.lent_ms is not None and holder.status is None:
        return []
    is_same = key.type is None or (key.type, key.payload) == (task.type, task.payload)
    outcome = SubmitOutcome.DUPLICATE if is_same else SubmitOutcome.MISMATCH
    return [Receipt(key.task_id, task.queue, outcome, holder.status or holder.outcome)]


def _judged(promises: Promises, task: NewTask, seen: Seen, room: int) -> list[Receipt]:
    """The answer when another task may stand for this one."""
    found = absorbing.expected(promises, task, seen)
    return found.receipts if found.sure else [*found.receipts, *_fresh(task, seen, room)]


def _accepted_ms(task: NewTask, seen: Seen) -> int:
    """When a task was accepted, by the clock of the queue."""
    return int(seen.after.records[task.id]["c"]) if task.id in seen.after.records else seen.before.now_ms


def _fresh(task: NewTask, seen: Seen, room: int) -> list[Receipt]:
    """The answers that a new task can get: more than one while it becomes due just now."""
    if room <= 0:
        return [Receipt(task.id, task.queue, SubmitOutcome.FULL, None)]
    statuses = set[TaskStatus]()
    for now_ms in (seen.before.now_ms, seen.after.now_ms):
        wait_ms = task.delay_ms if task.deduplication is None else task.deduplication.debounce_ms or task.delay_ms
        due_ms = now_ms + wait_ms if task.run_at_ms is None else task.run_at_ms
        statuses.add(TaskStatus.PENDING if due_ms > now_ms else TaskStatus.QUEUED)
    return [Receipt(task.id, task.queue, SubmitOutcome.NEW, status) for status in statuses]


def _check_not_too_soon(promises: Promises, task: NewTask) -> None:
    """A submit that is sent again must not meet a trimmed record and start its task a second time."""
    gone = promises.tasks.get(task.id)
    if gone is not None and not gone.discarded:
        expect(promises.age_ms(gone) > GUARD_MS, "a task was accepted twice", task.id)

"""From tasks to answers: checks them, sends them, and says of each what became of it."""

from collections.abc import Iterator, Sequence
from functools import partial

from dtq_engine import validate
from dtq_engine.config import Settings
from dtq_engine.errors import (
    DtqError,
    IdempotencyConflict,
    IdempotencyMismatch,
    InvalidTask,
    MemoryFull,
    QueueFull,
    RedisDamaged,
    RedisUnavailable,
    SubmitUncertain,
)
from dtq_engine.handle import App
from dtq_engine.model import NewTask, Receipt, SubmitOutcome
from dtq_engine.store import Store
from dtq_engine.store.base import chunks
from dtq_engine.store.carpool import OVERHEAD_BYTES
from dtq_engine.store.intake import TASKS_PER_CALL

Answer = Receipt | DtqError


def submit_one(app: App, task: NewTask) -> Receipt:
    """Send one task, inside the app's hooks.

    Raises InvalidTask, QueueFull, an idempotency error, what befell Redis, or what a hook raised before the task went.
    """
    return app.registry.hooks.send([task], lambda tasks: _send_one(app.store, app.settings, tasks[0]))


def submit_each(app: App, tasks: Sequence[NewTask]) -> list[Answer]:
    """Send many tasks, inside the app's hooks; for each, in order, the receipt if it is accepted, else the error.

    Raises RedisUnavailable, MemoryFull or RedisDamaged only if nothing was sent, and so does what a hook raised. Later
    on, such an error is the answer of each task that it kept from being sent, so that it does not hide what was
    accepted before.
    """
    return app.registry.hooks.send(list(tasks), partial(_send_each, app.store, app.settings)) if tasks else []


def _send_one(store: Store, settings: Settings, task: NewTask) -> Receipt:
    validate.check(task, settings)
    answer = _judge(task, store.intake.submit([task])[0], settings)
    if isinstance(answer, DtqError):
        raise answer
    return answer


def _send_each(store: Store, settings: Settings, tasks: Sequence[NewTask]) -> list[Answer]:
    answers: dict[int, Answer] = {at: wrong for at, task in enumerate(tasks) if (wrong := _problem(task, settings))}
    slices = list(_slices(tasks, [at for at in range(len(tasks)) if at not in answers]))
    for number, positions in enumerate(slices):
        batch = [tasks[at] for at in positions]
        try:
            found = [_judge(*each, settings) for each in zip(batch, store.intake.submit(batch), strict=True)]
        except (RedisUnavailable, MemoryFull, RedisDamaged, SubmitUncertain) as error:
            if number == 0 and not isinstance(error, SubmitUncertain):
                raise
            unsent = [at for later in slices[number + 1 :] for at in later]
            answers.update(zip(positions, (_for_each(error, task) for task in batch), strict=True))
            answers.update(dict.fromkeys(unsent, _unsent(error)))
            break
        answers.update(zip(positions, found, strict=True))
    return [answers[at] for at in range(len(tasks))]


def _problem(task: NewTask, settings: Settings) -> InvalidTask | None:
    try:
        validate.check(task, settings)
    except InvalidTask as error:
        return error
    return None


def _slices(tasks: Sequence[NewTask], positions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Positions in groups that go out in one call each, so that what fails, fails as a whole."""
    by_queue: dict[str, list[int]] = {}
    for at in positions:
        by_queue.setdefault(tasks[at].queue, []).append(at)
    for group in by_queue.values():
        yield from chunks(group, [len(tasks[at].payload) + OVERHEAD_BYTES for at in group], TASKS_PER_CALL)


def _for_each(error: DtqError, task: NewTask) -> DtqError:
    return SubmitUncertain(task.id) if isinstance(error, SubmitUncertain) else error


def _unsent(error: DtqError) -> DtqError:
    if not isinstance(error, SubmitUncertain):
        return error
    return RedisUnavailable("Redis went away before this task was sent: submit it again once Redis is back.")


def _judge(task: NewTask, receipt: Receipt, settings: Settings) -> Answer:
    match receipt.outcome:
        case SubmitOutcome.FULL:
            return QueueFull(
                f"queue {task.queue} holds {settings.max_queue_depth} tasks and takes no more: "
                f"submit again later, add workers, or raise DTQ_MAX_QUEUE_DEPTH."
            )
        case SubmitOutcome.DAMAGED:
            return RedisDamaged(
                f"the record of task {task.id}, one of its keys, or the place in queue {task.queue} where it would "
                f"wait holds something else: see which with `dtq doctor`, and restore it or delete it."
            )
        case SubmitOutcome.ORPHAN:
            return InvalidTask(
                "after",
                f"task {task.id} cannot wait for task {receipt.id}, which is not there: check the id; finished ones "
                f"are kept only for a time.",
            )
        case SubmitOutcome.MISMATCH:
            return IdempotencyMismatch(
                f"idempotency key {task.idempotency_key!r} was used for task {receipt.id} with another type or "
                f"arguments: use a new key for a new task."
            )
        case SubmitOutcome.DUPLICATE if settings.idem_conflict == "reject" and not receipt.unique:
            return IdempotencyConflict(
                f"idempotency key {task.idempotency_key!r} is taken by task {receipt.id}: "
                f"look that one up, or use a new key."
            )
        case _:
            return receipt

"""From tasks to answers: checks them, sends them, and says of each what became of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from dtq_engine import workflow
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
from dtq_engine.store.base import CALL_MAX_BYTES
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


def submit_flow(app: App, tasks: Iterable[NewTask]) -> list[Receipt]:
    """Send the tasks of a workflow, inside the app's hooks; their receipts, in order.

    Raises what keeps one of them out; then none of them runs, and those that were accepted before are cancelled.
    """
    if not isinstance(tasks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTask("task", f"submit_flow cannot take {type(tasks).__name__}: pass a list of prepared tasks.")
    all_of_it = list(tasks)
    return app.registry.hooks.send(all_of_it, partial(_send_flow, app.store, app.settings)) if all_of_it else []


def _send_flow(store: Store, settings: Settings, tasks: Sequence[NewTask]) -> list[Receipt]:
    for task in tasks:
        workflow.check(task, settings)
    calls = workflow.batches(tasks)
    _check_others(store, [task for batch in calls for task in batch])
    receipts: dict[tuple[str, str], Receipt] = {}
    for batch in calls:
        try:
            answers = [_judge(*each, settings) for each in zip(batch, store.intake.submit(batch), strict=True)]
        except DtqError:
            _take_back(store, receipts.values())
            raise
        receipts |= {
            (task.queue, task.id): each for task, each in zip(batch, answers, strict=True) if isinstance(each, Receipt)
        }
        if refusal := _refusal(answers):
            _take_back(store, receipts.values())
            raise refusal
    return [receipts[task.queue, task.id] for task in tasks]


def _refusal(answers: Sequence[Answer]) -> DtqError | None:
    """What keeps a workflow out; of several reasons the first."""
    return next((each for each in answers if isinstance(each, DtqError)), None)


def _take_back(store: Store, receipts: Iterable[Receipt]) -> None:
    """Cancel those that are new: they wait for others which will not come. Whatever that misses a sweep finds."""
    for receipt in [each for each in receipts if each.outcome is SubmitOutcome.NEW]:
        with suppress(DtqError):
            store.control.cancel(receipt.id, queue=receipt.queue, reason="the rest of its workflow was not accepted")


def _check_others(store: Store, tasks: Sequence[NewTask]) -> None:
    """Raise InvalidTask if a parent that does not come along is not there, before anything is sent."""
    others = {(each.queue, each.id): task.id for task in tasks for each in task.after if not each.comes_along}
    missing = others.keys() - store.inspect.which_exist(others)
    if missing:
        place = min(missing)
        raise _orphan(f"task {others[place]}", place[1])


def _orphan(who: str, parent: str) -> InvalidTask:
    return InvalidTask(
        "after",
        f"{who} cannot wait for task {parent}, which is not there: check the id, or its time is over.",
    )


def _send_one(store: Store, settings: Settings, task: NewTask) -> Receipt:
    workflow.check(task, settings)
    if task.after:
        _check_others(store, [task])
    answer = _judge(task, store.intake.submit([task])[0], settings)
    if isinstance(answer, DtqError):
        raise answer
    return answer


def _send_each(store: Store, settings: Settings, tasks: Sequence[NewTask]) -> list[Answer]:
    answers: dict[int, Answer] = {}
    groups = _groups(tasks, settings, answers)
    calls = ((positions, _call(store, [tasks[at] for at in positions])) for positions in groups)
    is_first = True
    for positions, found in _made(calls) if len(tasks) > TASKS_PER_CALL else ((at, call()) for at, call in calls):
        if isinstance(found, DtqError):
            if is_first and not isinstance(found, SubmitUncertain):
                raise found
            answers.update((at, _for_each(found, tasks[at])) for at in positions)
            list(groups)  # to name what is wrong with those that are not sent
            return [answers.get(at) or _unsent(found) for at in range(len(tasks))]
        answers.update((at, _judge(tasks[at], each, settings)) for at, each in zip(positions, found, strict=True))
        is_first = False
    return [answers[at] for at in range(len(tasks))]


Positions = Sequence[int]
Found = list[Receipt] | DtqError
"""What became of one call."""


def _call(store: Store, tasks: Sequence[NewTask]) -> Callable[[], Found]:
    parcel = store.intake.pack(tasks[0].queue, tasks)

    def call() -> Found:
        try:
            return store.intake.send(parcel)
        except (RedisUnavailable, MemoryFull, RedisDamaged, SubmitUncertain) as error:
            return error

    return call


def _made(calls: Iterator[tuple[Positions, Callable[[], Found]]]) -> Iterator[tuple[Positions, Found]]:
    """What became of calls that are made one after the other; the next is made ready while one is under way."""
    with ThreadPoolExecutor(1, "dtq-submit") as sender:
        ready = next(calls, None)
        while ready:
            positions, call = ready
            answer = sender.submit(call)
            ready = next(calls, None)
            yield positions, answer.result()


def _problem(task: NewTask, settings: Settings) -> InvalidTask | None:
    try:
        workflow.check(task, settings)
    except InvalidTask as error:
        return error
    return None


def _groups(tasks: Sequence[NewTask], settings: Settings, answers: dict[int, Answer]) -> Iterator[Positions]:
    """Positions in groups that go out in one call each, so that what fails, fails as a whole.

    Each task is looked at when its turn comes; what is wrong with it is its answer.
    """
    by_queue: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    for at, task in enumerate(tasks):
        if wrong := _problem(task, settings):
            answers[at] = wrong
            continue
        group, size = by_queue.setdefault(task.queue, []), len(task.payload) + OVERHEAD_BYTES
        if group and (len(group) == TASKS_PER_CALL or sizes[task.queue] + size > CALL_MAX_BYTES):
            yield group
            by_queue[task.queue] = group = []
        sizes[task.queue] = sizes[task.queue] + size if group else size
        group.append(at)
    yield from by_queue.values()


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
            return _orphan(f"task {task.id}", receipt.id)
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

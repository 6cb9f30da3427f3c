"""What can happen next to tasks that wait for others, in one queue and over two."""

from dtq_engine import workflow
from dtq_engine.model import NewTask, Parent, RetryPolicy, SubmitOutcome, Takes
from tests.explore.calls.control import CancelTask
from tests.explore.calls.links import Carry, Relay, Weave
from tests.explore.stage import Stage

Where = tuple[str, str]
"""Queue and id of a task."""


def weave(stage: Stage) -> None:
    """A producer submits a workflow: some tasks, each behind up to two of those before it."""
    dice, tasks = stage.dice, list[NewTask]()
    for _ in range(dice.choice((2, 2, 3, 4))):
        before = dice.sample(tasks, min(len(tasks), dice.choice((0, 1, 1, 2))))
        tasks.append(_linked_task(stage, [(task.queue, task.id) for task in before]))
    (batch,) = workflow.batches(tasks)
    stage.send(Weave(tuple(batch)), late=True)


def weave_apart(stage: Stage) -> None:
    """A producer submits a workflow over both queues; what is refused it takes back, and where it dies nobody does."""
    dice, other, tasks, accepted = stage.dice, stage.beside, list[NewTask](), list[NewTask]()
    if other is None:
        return
    for _ in range(dice.choice((2, 3, 4))):
        before = dice.sample(tasks, min(len(tasks), dice.choice((0, 1, 1, 2))))
        where = dice.choice((stage, other)).queue
        tasks.append(_linked_task(stage, [(task.queue, task.id) for task in before], where))
    for batch in workflow.batches(tasks):
        place = stage if batch[0].queue == stage.queue else other
        receipts = place.send(Weave(tuple(batch)), late=True) if dice.random() > 0.05 else None
        if receipts is None:
            return
        if not all(receipt.outcome in {SubmitOutcome.NEW, SubmitOutcome.EXISTS} for receipt in receipts):
            for task in accepted:
                (stage if task.queue == stage.queue else other).send(CancelTask(task.id, stage.name("q")))
            return
        accepted += batch


def link(stage: Stage) -> None:
    """A producer submits a task that waits for one that is there, whatever became of that."""
    if parent := stage.some_task(ended=0.4):
        stage.send(Weave((_linked_task(stage, [(stage.queue, parent)]),)), late=True)


def link_apart(stage: Stage) -> None:
    """A producer submits a task that waits for one of the other queue."""
    if stage.beside is not None and (parent := stage.beside.some_task(ended=0.4)):
        parents = [(stage.beside.queue, parent)]
        if (nearer := stage.some_task(ended=0.1)) and stage.dice.random() < 0.3:
            parents.append((stage.queue, nearer))
        stage.send(Weave((_linked_task(stage, parents),)), late=True)


def carry(stage: Stage) -> None:
    """A leader carries a message to the other queue, and now and then dies before it has taken it out of the outbox."""
    if (there := stage.world.now.outbox) and stage.beside is not None:
        stage.send(Carry(stage.dice.randrange(min(3, there)), dies=stage.dice.random() < 0.2), late=True)


def _linked_task(stage: Stage, parents: list[Where], queue: str | None = None) -> NewTask:
    """A task behind these; what it takes of parents in another queue may have been cut, and not be known any more."""
    dice = stage.dice
    is_apart = any(where != (queue or stage.queue) for where, _ in parents)
    return NewTask(
        id=stage.name("t"),
        type=dice.choice(("a", "a", "b")),
        priority=dice.choice((4, 5)),
        delay_ms=dice.choice((0, 0, 0, 5_000)) if parents else 0,
        expires_in_ms=dice.choice((None,) * 6 + (45_000,)),
        retry=RetryPolicy(dice.choice((1, 2)), 0, 60_000, 0.0),
        keep_result=dice.random() < 0.7,
        queue=stage.queue if queue is None else queue,
        after=tuple(Parent(task_id, where, run_anyway=dice.random() < 0.2) for where, task_id in parents),
        takes=dice.choice(list(Takes)) if parents and not is_apart else Takes.NOTHING,
    )


def relay(stage: Stage) -> None:
    """The leader carries over what waits in the outbox."""
    if stage.beside is None:
        stage.send(Relay())

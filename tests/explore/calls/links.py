"""Tasks that wait for others: a workflow comes in, and messages are carried over."""

from dataclasses import dataclass

from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from dtq_engine.store import Store
from tests.explore.calls.base import Seen
from tests.explore.calls.intake import written
from tests.explore.promises import Promises, expect
from tests.explore.snapshot import QUEUE


@dataclass(frozen=True)
class Weave:
    """The tasks of a workflow, in one call; without `in_flow` tasks that are linked to what is there."""

    tasks: tuple[NewTask, ...]

    def __repr__(self) -> str:
        return f"Weave({', '.join(map(written, self.tasks))})"

    def run(self, store: Store) -> list[Receipt]:
        return store.intake.submit(self.tasks)

    def learn(self, promises: Promises, answer: list[Receipt], seen: Seen) -> None:
        outcomes = {receipt.outcome for receipt in answer}
        known = [task for task in self.tasks if promises.find(task.id)]
        room = promises.settings.max_queue_depth - seen.before.depth() if promises.settings.max_queue_depth else 100
        parents = {each.id for task in self.tasks for each in task.after if not each.comes_along}
        missing = any(promises.find(parent) is None for parent in parents)
        if len(known) < len(self.tasks) and (missing or room < len(self.tasks) - len(known)):
            refusals = {SubmitOutcome.FULL, SubmitOutcome.WITHHELD, SubmitOutcome.ORPHAN, SubmitOutcome.EXISTS}
            expect(outcomes <= refusals, "a workflow comes in as a whole or not at all", answer)
            return
        for task, receipt in zip(self.tasks, answer, strict=True):
            expected = SubmitOutcome.EXISTS if task in known else SubmitOutcome.NEW
            expect(receipt.outcome is expected, "a workflow is answered by what was promised", task.id, receipt)
            state = seen.after.status(task.id)
            expect(receipt.status is state, "a workflow is told what became of its tasks", task.id, receipt, state)
        for task in reversed(self.tasks):
            if task not in known:
                promises.accept(task, TaskStatus.BLOCKED if task.after else TaskStatus.QUEUED)
        for task in self.tasks:
            if task not in known:
                new = promises.tasks[task.id]
                new.kin, new.awaits = {each.id: promises.tasks[each.id] for each in task.after}, bool(task.after)
                ended = {kin.task.id for kin in new.kin.values() if not kin.is_living and not kin.task.keep_result}
                new.unheard = ended


@dataclass(frozen=True)
class Relay:
    """The leader carries over what waits in the outbox."""

    def run(self, store: Store) -> int:
        return store.outbox.relay(QUEUE)

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        expect(seen.after.outbox == 0 or promises.is_damaged, "messages arrive", seen.after.outbox)

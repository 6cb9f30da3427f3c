"""Tasks that wait for others: a workflow comes in, and messages are carried over."""

from dataclasses import dataclass
from typing import Any

from dtq_engine.connection import Connection
from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from dtq_engine.store.base import Base
from dtq_engine.store.outbox import Outbox
from tests.explore.calls.base import Place, Seen
from tests.explore.calls.intake import written
from tests.explore.promises import Promises, expect


@dataclass(frozen=True)
class Weave:
    """The tasks of a workflow, in one call; without `in_flow` tasks that are linked to what is there."""

    tasks: tuple[NewTask, ...]

    def __repr__(self) -> str:
        return f"Weave({', '.join(map(written, self.tasks))})"

    def run(self, place: Place) -> list[Receipt]:
        return place.intake.submit(self.tasks)

    def learn(self, promises: Promises, answer: list[Receipt], seen: Seen) -> None:
        outcomes = {receipt.outcome for receipt in answer}
        known = [task for task in self.tasks if promises.find(task.id)]
        room = promises.settings.max_queue_depth - seen.before.depth() if promises.settings.max_queue_depth else 100
        here = [each for task in self.tasks for each in task.after if each.queue == promises.queue]
        parents = {each.id for each in here if not each.comes_along}
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
                new.kin, new.awaits = {each.id: promises.parent(each) for each in task.after}, bool(task.after)
                near = [kin for kin in new.kin.values() if kin.task.queue == promises.queue]
                ended = {kin.task.id for kin in near if not kin.is_living and not kin.task.keep_result}
                new.unheard = ended
                new.asked = {each.id for each in task.after if each.queue != promises.queue and not each.comes_along}


@dataclass(frozen=True)
class Relay:
    """The leader carries over what waits in the outbox."""

    def run(self, place: Place) -> int:
        return place.outbox.relay(place.queue)

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        expect(seen.after.outbox == 0 or promises.is_damaged, "messages arrive", seen.after.outbox)


@dataclass(frozen=True)
class Carry:
    """A leader carries one message over, whichever; with `dies` it does not come to take it out of the outbox."""

    position: int
    dies: bool = False

    def run(self, place: Place) -> int:
        connection: Any = _OneMessage(place.connection, self.position, self.dies)
        return Outbox(Base(connection, place.keys, place.settings)).relay(place.queue)

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        there = seen.before.outbox > self.position
        expect(answer <= there, "a message is carried over", self, seen.before.outbox, answer)
        # A parent that is not there may be on its way, for a minute.
        waits = there and not answer
        expect(not waits or seen.after.outbox >= seen.before.outbox, "a message stays until it has arrived", self)


class _OneMessage:
    """A connection on which an outbox holds one message, and perhaps keeps it."""

    def __init__(self, connection: Connection, position: int, keeps: bool) -> None:
        self._connection = connection
        self._position = position
        self._keeps = keeps
        self._is_read = False

    def call(self, command: str, *args: Any, **options: Any) -> Any:
        """As the connection does it, but for what concerns the outbox."""
        if command == "XRANGE":
            entries = [] if self._is_read else self._connection.call(command, args[0], "-", "+")
            self._is_read = True
            return entries[self._position : self._position + 1]
        if command == "XDEL" and self._keeps:
            return 0
        return self._connection.call(command, *args, **options)

"""A periodic task: what is said of it, its ticks, and what operators do to it. Its name is `beat`."""

from dataclasses import dataclass
from typing import Any

from dtq_engine.errors import InvalidTransition, PeriodicNotFound
from dtq_engine.model import Receipt, TaskStatus
from dtq_engine.periodic import CatchUp, Definition, PeriodicTask, Turn
from tests.explore.calls.base import Place, Seen
from tests.explore.promises import Periodic, Promises, expect

BEAT = "beat"
BEATS = (
    Definition(name=BEAT, type="a", every_ms=5_000),
    Definition(name=BEAT, type="a", every_ms=5_000, payload='{"n":1}', catch_up=CatchUp.ONCE),
    Definition(name=BEAT, type="b", every_ms=8_000, jitter_ms=3_000, catch_up=CatchUp.ONCE),
)


@dataclass(frozen=True)
class Define:
    """The leader takes over a definition from living workers."""

    definition: Definition

    def __repr__(self) -> str:
        return f"Define({self.definition.schedule}, {self.definition.payload})"

    def run(self, place: Place) -> bool:
        return place.agenda.define(self.definition)

    def learn(self, promises: Promises, answer: bool, seen: Seen) -> None:
        known = promises.periodic
        is_same = known is not None and not known.removed and known.definition == self.definition
        expect(answer != is_same, "a definition is put in force once", self, answer)
        promises.events["CONFIGURATION_CHANGED"] += answer
        if known is not None and known.definition.schedule == self.definition.schedule:
            at_ms = known.at_ms  # it goes on from where it was
        else:
            at_ms = _now_as_written(seen)
        promises.periodic = Periodic(self.definition, at_ms, paused=known is not None and known.paused)


@dataclass(frozen=True)
class Withdraw:
    """The leader finds no living worker that has it."""

    task: PeriodicTask

    def run(self, place: Place) -> None:
        place.agenda.withdraw(self.task)

    def learn(self, promises: Promises, answer: None, seen: Seen) -> None:
        if promises.periodic is not None and not promises.periodic.removed:
            promises.periodic.removed = True
            promises.periodic.removed_at_ms = promises.elapsed_ms
            promises.events["CONFIGURATION_CHANGED"] += 1


@dataclass(frozen=True)
class Deal:
    """A leader, perhaps one that knows old news only, deals with ticks."""

    task: PeriodicTask
    turn: Turn

    def __repr__(self) -> str:
        return f"Deal(at={self.task.at_ms}, {self.turn})"

    def run(self, place: Place) -> bool:
        return place.agenda.deal(self.task, self.turn)

    def learn(self, promises: Promises, answer: bool, seen: Seen) -> None:
        known, tick_ms = promises.periodic, self.turn.tick_ms
        is_news = known is not None and known.is_active and known.at_ms == self.task.at_ms
        is_news = is_news and known is not None and known.definition == self.task.definition
        expect(not answer or (is_news and seen.maybe_past(tick_ms)), "a tick is dealt with once, in its time", self)
        expect(answer or not (is_news and seen.surely_past(tick_ms)), "a tick that has come is dealt with", self)
        if not answer or known is None:
            return
        known.at_ms = tick_ms
        if self.turn.runs:
            self._accept(promises, seen)

    def _accept(self, promises: Promises, seen: Seen) -> None:
        definition, tick_ms = self.task.definition, self.turn.tick_ms
        task = definition.task(definition.task_id(tick_ms), tick_ms)
        expect(task.id not in promises.tasks or promises.went_back, "a tick has one task", task.id)
        if promises.find(task.id) is None:
            promises.accept(task, seen.after.status(task.id) or TaskStatus.QUEUED)


@dataclass(frozen=True)
class Hold:
    """An operator pauses it, or lets it go on."""

    pauses: bool
    request: str

    def run(self, place: Place) -> None:
        (place.periodic.pause if self.pauses else place.periodic.resume)(BEAT, request=self.request)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        known = promises.periodic
        if _is_refused(promises, answer, self.request) or known is None:
            return
        promises.answers[self.request] = None
        promises.events["CONFIGURATION_CHANGED"] += 1
        if known.paused and not self.pauses:
            known.at_ms = _now_as_written(seen)
        known.paused = self.pauses


@dataclass(frozen=True)
class Trigger:
    """An operator runs it out of turn."""

    request: str

    def run(self, place: Place) -> Receipt:
        return place.periodic.trigger(BEAT, request=self.request)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        if _is_refused(promises, answer, self.request):
            return
        task_id = promises.answers.setdefault(self.request, answer.id)
        expect(answer.id == task_id, "a trigger that is sent again makes no other task", self)
        if answer.id not in promises.tasks and promises.periodic is not None:
            promises.accept(promises.periodic.definition.task(answer.id), TaskStatus.QUEUED)


def _is_refused(promises: Promises, answer: Any, request: str) -> bool:
    """Whether there is nothing that this could be done to, or it was done before."""
    known = promises.periodic
    if known is None or isinstance(answer, PeriodicNotFound):
        # Where the list of queues was lost nothing is found, until the leader defines it again.
        is_right = isinstance(answer, PeriodicNotFound) and (known is None or promises.is_damaged)
        expect(is_right, "what is not there is told", answer)
        return True
    if request in promises.answers:
        return isinstance(answer, InvalidTransition) or answer is None
    expect(isinstance(answer, InvalidTransition) == known.removed, "what was removed cannot be held or run", answer)
    return known.removed


def _now_as_written(seen: Seen) -> int:
    at_ms = int(seen.after.periodic[BEAT]["at"])
    within = seen.before.now_ms <= at_ms <= seen.after.now_ms
    expect(within, "ticks count from now", seen.before.now_ms, at_ms, seen.after.now_ms)
    return at_ms


def known_here(place: Place) -> tuple[int, tuple[PeriodicTask, ...]]:
    """What a leader finds: the time, and the periodic tasks."""
    agenda = place.agenda.of(place.queue)
    return agenda.now_ms, agenda.tasks

"""What operators do. Each verb has a request id, and sent again under it gives the same answer."""

from dataclasses import dataclass
from typing import Any, Protocol

from dtq_engine.errors import DtqError, IdempotencyConflict, InvalidTransition, TaskNotFound, UniqueConflict
from dtq_engine.model import CancelOutcome, TaskStatus
from tests.explore import absorbing
from tests.explore.calls.base import Place, Seen
from tests.explore.family import fates, is_doomed, is_unsure, may_be_through, waits_again
from tests.explore.promises import Key, Known, Promises, expect
from tests.explore.snapshot import SCHEDULES

WAITING = frozenset({TaskStatus.QUEUED, *SCHEDULES.values()})
REQUEUEABLE = frozenset({TaskStatus.FAILED, TaskStatus.DEAD_LETTERED, TaskStatus.CANCELLED, TaskStatus.EXPIRED})


@dataclass(frozen=True)
class Either:
    """Answers of which one is right, but which one a millisecond decides."""

    values: tuple[object, ...]


class Verb(Protocol):
    """A verb on one task."""

    @property
    def task_id(self) -> str: ...

    @property
    def request(self) -> str: ...

    def expected(self, promises: Promises, known: Known) -> object:
        """The answer to its first sending: a value, or the class of an error."""
        ...

    def happened(self, promises: Promises, known: Known) -> None:
        """Note what it did."""
        ...


def learn_verb(verb: Verb, promises: Promises, answer: Any) -> None:
    """Judge a verb's answer; it acts once for each request id."""
    kind: object = type(answer) if isinstance(answer, DtqError) else answer
    if verb.request in promises.answers:
        expected = promises.answers[verb.request]
        expect(kind == expected, "a request sent again is answered the same", verb, kind, expected)
        return
    known = promises.find(verb.task_id)
    expected = TaskNotFound if known is None else verb.expected(promises, known)
    right = kind in expected.values if isinstance(expected, Either) else kind == expected
    expect(right, "a verb answers what it found", verb, kind, expected)
    is_refused = isinstance(answer, DtqError) or answer is CancelOutcome.FINISHED
    if known is not None and not is_refused:
        promises.answers[verb.request] = kind
        verb.happened(promises, known)


@dataclass(frozen=True)
class CancelTask:
    """Cancel one task."""

    task_id: str
    request: str

    def run(self, place: Place) -> CancelOutcome:
        return place.control.cancel(self.task_id, queue=place.queue, request=self.request)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        learn_verb(self, promises, answer)

    def expected(self, promises: Promises, known: Known) -> object:
        if not known.is_living:
            return CancelOutcome.FINISHED
        return CancelOutcome.REQUESTED if known.status is TaskStatus.RUNNING else CancelOutcome.CANCELLED

    def happened(self, promises: Promises, known: Known) -> None:
        if known.status is TaskStatus.RUNNING:
            known.cancel_requested = True
        else:
            promises.allow(self.task_id, TaskStatus.CANCELLED)


@dataclass(frozen=True)
class RequeueTask:
    """Give a task that ended without success a new life."""

    task_id: str
    request: str
    keep_steps: bool = True

    def run(self, place: Place) -> None:
        place.control.requeue(self.task_id, queue=place.queue, request=self.request, keep_steps=self.keep_steps)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        learn_verb(self, promises, answer)

    def expected(self, promises: Promises, known: Known) -> object:
        if known.status not in REQUEUEABLE:
            return InvalidTransition
        key = promises.keys.get(known.task.idempotency_key or "")
        if key is not None and key.task_id != self.task_id:
            return IdempotencyConflict
        if is_unsure(promises, known):
            return Either((InvalidTransition, None))
        if known.kin and is_doomed(known, fates(promises, known)):
            return InvalidTransition
        has_rival, is_sure = absorbing.rivals(promises, known)
        return (UniqueConflict if is_sure else Either((UniqueConflict, None))) if has_rival else None

    def happened(self, promises: Promises, known: Known) -> None:
        known.begin_again()
        if not self.keep_steps:
            known.saved, known.progress = {}, None
        if known.task.idempotency_key:
            promises.keys.setdefault(known.task.idempotency_key, Key(self.task_id, None, b""))
        waits = known.kin and waits_again(promises, known)
        promises.allow(self.task_id, TaskStatus.BLOCKED if waits else TaskStatus.QUEUED)
        if is_unsure(promises, known) or may_be_through(known):
            promises.allow(self.task_id, TaskStatus.BLOCKED, TaskStatus.QUEUED)
        promises.count(known.task, "requeued")
        promises.events["TASK_QUEUED"] += 1


@dataclass(frozen=True)
class DiscardTask:
    """Forget a task that ended without success."""

    task_id: str
    request: str

    def run(self, place: Place) -> None:
        place.control.discard(self.task_id, queue=place.queue, request=self.request)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        learn_verb(self, promises, answer)

    def expected(self, promises: Promises, known: Known) -> object:
        return None if known.status in REQUEUEABLE else InvalidTransition

    def happened(self, promises: Promises, known: Known) -> None:
        known.discarded = True
        promises.allow(self.task_id, None)
        promises.count(known.task, "discarded")


@dataclass(frozen=True)
class RunNow:
    """Make a task that waits for its time available at once."""

    task_id: str
    request: str

    def run(self, place: Place) -> None:
        place.control.run_now(self.task_id, queue=place.queue, request=self.request)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        learn_verb(self, promises, answer)

    def expected(self, promises: Promises, known: Known) -> object:
        return None if known.status in SCHEDULES.values() and not known.awaits else InvalidTransition

    def happened(self, promises: Promises, known: Known) -> None:
        promises.allow(self.task_id, TaskStatus.QUEUED)


@dataclass(frozen=True)
class Reprioritise:
    """Move a waiting task to another priority."""

    task_id: str
    priority: int
    request: str

    def run(self, place: Place) -> None:
        place.control.reprioritise(self.task_id, self.priority, queue=place.queue, request=self.request)

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        learn_verb(self, promises, answer)

    def expected(self, promises: Promises, known: Known) -> object:
        return None if known.status in WAITING else InvalidTransition

    def happened(self, promises: Promises, known: Known) -> None:
        known.priority = self.priority


@dataclass(frozen=True)
class Purge:
    """Cancel what waits; `delayed`: what waits for its time too."""

    delayed: bool
    request: str

    def run(self, place: Place) -> int:
        return place.control.purge(place.queue, delayed=self.delayed, request=self.request)

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        delayed = set(SCHEDULES.values()) if self.delayed else set[TaskStatus]()
        doomed = {entry.task_id for entry in seen.before.startable()}
        doomed |= {known.task.id for known in promises.tasks.values() if known.status in delayed}
        if self.request in promises.answers:
            expect(answer == promises.answers[self.request], "a purge sent again answers the same", answer)
            return
        # A clock that was put back makes tasks of before look as if they came after the purge.
        sure = {task_id for task_id in doomed if seen.surely_past(int(seen.before.records[task_id]["c"]))}
        # What runs although a parent was cancelled may come into a band that the purge has been through.
        sure -= {task_id for task_id in sure if any(each.run_anyway for each in promises.tasks[task_id].task.after)}
        ended = {task_id for task_id in doomed if seen.after.status(task_id) is TaskStatus.CANCELLED}
        expect(sure <= ended, "a purge cancels all that waits", sorted(sure - ended))
        # Those that wait for what it cancels end before it comes to them, or come into a band where it finds them.
        family = {known.task.id for known in promises.tasks.values() if known.awaits}
        family = {task_id for task_id in family if seen.after.status(task_id) is TaskStatus.CANCELLED}
        is_right = len(ended - family) <= answer <= len(ended | family)
        expect(is_right, "a purge says how many tasks it cancelled", answer, sorted(ended), sorted(family))
        doomed |= family
        promises.answers[self.request] = answer
        promises.is_purging = True
        for task_id in doomed:
            promises.allow(task_id, TaskStatus.CANCELLED, promises.tasks[task_id].status)


@dataclass(frozen=True)
class Pause:
    """Let nobody claim, for a time or until resumed."""

    for_ms: int | None
    request: str

    def run(self, place: Place) -> None:
        place.control.pause(place.queue, for_ms=self.for_ms, request=self.request)

    def learn(self, promises: Promises, answer: None, seen: Seen) -> None:
        is_new = self.request not in promises.answers
        promises.answers[self.request] = None
        promises.events["CONFIGURATION_CHANGED"] += is_new
        # Nobody is told when a pause ends by itself: workers try each queue now and then.
        promises.pause_ran_out = promises.pause_ran_out or self.for_ms is not None
        expect(not is_new or seen.after.paused, "a paused queue is paused", self)
        expect(is_new or seen.after.paused == seen.before.paused, "a pause sent again does nothing", self)


@dataclass(frozen=True)
class Resume:
    """Let workers claim again."""

    request: str

    def run(self, place: Place) -> None:
        place.control.resume(place.queue, request=self.request)

    def learn(self, promises: Promises, answer: None, seen: Seen) -> None:
        is_new = self.request not in promises.answers
        promises.answers[self.request] = None
        promises.events["CONFIGURATION_CHANGED"] += is_new
        promises.pause_ran_out = promises.pause_ran_out and not is_new
        expect(not is_new or not seen.after.paused, "a resumed queue is not paused", self)


@dataclass(frozen=True)
class Announce:
    """A build of workers publishes the types it knows."""

    types: tuple[str, ...]

    def run(self, place: Place) -> str:
        return place.workers.announce([place.queue], self.types)

    def learn(self, promises: Promises, answer: str, seen: Seen) -> None:
        expect(answer in seen.after.types, "announced types are known", answer)
        if answer in seen.before.types:
            return
        for task_id, due_ms in seen.after.waiting[TaskStatus.BLOCKED].items():
            is_free = promises.tasks[task_id].task.type not in self.types or seen.maybe_past(due_ms)
            reason = seen.after.records[task_id].get("m", "")
            expect(is_free or not reason.startswith("unknown_task_type"), "an announced type frees its tasks", task_id)

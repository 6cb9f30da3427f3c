"""A task, and everything that can happen to it: all interleavings of a few actors on a network that loses calls.

Two workers, a reaper, a canceller and a scheduler each make their next call, in every order. Each call may get
lost before it arrives, or its answer may; its sender then sends the same call again. States that are alike but
for names and times are gone on from once. The task is alone, or there is another one: like it while it must be the only
one, behind it, or under the same limit. `python -m tests.explore.small_model --depth 7` goes all the way.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dtq_engine.limits import Numbers
from dtq_engine.model import (
    AttemptError,
    Claim,
    ClaimReply,
    DeadLetter,
    Deduplication,
    NewTask,
    Parent,
    Release,
    Renewal,
    Reschedule,
    Settled,
    Succeed,
    TaskStatus,
    Transition,
    Unique,
)
from dtq_engine.workflow import batches
from tests.explore.calls.base import Call
from tests.explore.calls.control import REQUEUEABLE, Announce, CancelTask, RequeueTask
from tests.explore.calls.intake import Submit
from tests.explore.calls.leases import Finalize, Renew, Take
from tests.explore.calls.limits import Declare
from tests.explore.calls.links import Weave
from tests.explore.calls.schedule import Advance, Promote, Reclaim
from tests.explore.likeness import likeness
from tests.explore.promises import Promises, Violation
from tests.explore.snapshot import QUEUE, SCHEDULES, Snapshot
from tests.explore.world import Saved, Server, World, own_server

TASK, OTHER = "t", "u"
TYPES = ("a",)
WORKERS = ("w1", "w2")
ERROR = AttemptError("ValueError", "it did not work")
ENDS: tuple[Transition, ...] = (Succeed(b"1"), Reschedule(ERROR, 0), Reschedule(ERROR, 1_000), Release())
ALIKE = Deduplication(unique=Unique.UNTIL_DONE, key="k")
VERDICTS: tuple[Transition, ...] = (Reschedule(ERROR, 1_000), DeadLetter(ERROR, "worker_lost"))


@dataclass(frozen=True, slots=True)
class Actor:
    """One sender of calls: what it holds, and the call that it has had no answer to."""

    name: str
    held: Claim | None = None
    unanswered: Call | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Redis, the promises, and all actors; `path` says how it came about."""

    saved: Saved
    actors: dict[str, Actor]
    path: tuple[str, ...] = ()


@dataclass(slots=True)
class Checker:
    """Walks over all states, level by level."""

    world: World
    digest: str
    seen: set[object] = field(default_factory=set)
    sent: int = 0

    def run(self, root: State, depth: int) -> None:
        """Send every call of every state, `depth` calls deep. Raises Violation with the path to it."""
        level = [root]
        for _ in range(depth):
            level = [child for state in level for child in self._children(state)]

    def _children(self, state: State) -> Iterator[State]:
        for actor in state.actors.values():
            for call in self._calls(actor, state):
                yield from self._outcomes(state, actor, call)

    def _outcomes(self, state: State, actor: Actor, call: Call) -> Iterator[State]:
        """The new states that a call can lead to: it is lost, it arrives, it arrives and its answer is lost."""
        waiting = replace(actor, unanswered=call)
        lost = state.actors | {actor.name: waiting}
        if self._is_new(state.saved.now, state.saved.promises, lost):
            yield State(state.saved, lost, (*state.path, f"{call!r} is lost"))
        path = (*state.path, f"{call!r} arrives")
        answer = self._send(state, call, path)
        known = state.actors | {actor.name: _answered(actor, answer)}
        new = [actors for actors in (known, lost) if self._is_new(self.world.now, self.world.promises, actors)]
        saved = self.world.save() if new else state.saved
        for actors in new:
            yield State(saved, actors, path if actors is known else (*path, "(its answer is lost)"))

    def _is_new(self, now: Snapshot, promises: Promises, actors: dict[str, Actor]) -> bool:
        alike = likeness(now, promises, actors.values())
        is_new = alike not in self.seen
        self.seen.add(alike)
        return is_new

    def _calls(self, actor: Actor, state: State) -> list[Call]:
        """What an actor may do next. Only its own call again, while that has no answer."""
        if actor.unanswered is not None:
            return [actor.unanswered]
        name, now = f"{actor.name}-{actor.calls}", state.saved.now
        statuses = {now.status(TASK), now.status(OTHER)}
        match actor.name:
            case "reaper" if actor.held is not None:
                return [Finalize(((actor.held, verdict),)) for verdict in VERDICTS]
            case "reaper":
                return [Reclaim("r1", name)] if TaskStatus.RUNNING in statuses else []
            case "canceller":
                return [CancelTask(TASK, name)] if actor.calls == 0 else []
            case "requeuer":
                return [RequeueTask(TASK, name)] if actor.calls == 0 and now.status(TASK) in REQUEUEABLE else []
            case "rival":
                return [Submit((_new(OTHER, deduplication=ALIKE),))] if actor.calls == 0 else []
            case "scheduler":
                return [Promote()] if statuses & set(SCHEDULES.values()) else []
            case _ if actor.held is not None:
                return [Renew((actor.held,)), *(Finalize(((actor.held, end),)) for end in ENDS)]
            case _:
                return [Take(actor.name, name, 1, TYPES, self.digest)] if TaskStatus.QUEUED in statuses else []

    def _send(self, state: State, call: Call, path: tuple[str, ...]) -> object:
        self.sent += 1
        self.world.restore(state.saved)
        try:
            return self._perform(call)
        except Violation as violation:
            raise Violation("\n".join([*path, str(violation)])) from violation

    def _perform(self, call: Call) -> object:
        """Reapers and schedulers come when it is time: a lease has expired, a retry is due."""
        if isinstance(call, Reclaim | Promote):
            self.world.perform(Advance(31_000 if isinstance(call, Reclaim) else 1_001))
        return self.world.perform(call)


def _answered(actor: Actor, answer: object) -> Actor:
    """The actor, once it knows what its call came to: what it holds, and what it lost."""
    held = actor.held
    match answer:
        case ClaimReply(_, (claim,)) | [Claim() as claim]:
            held = claim
        case Renewal(lost, _) if held is not None and held.key in lost:
            held = None
        case [Settled()]:
            held = None
        case _:
            pass
    return Actor(actor.name, held, None, actor.calls + 1)


def _new(task_id: str, **fields: Any) -> NewTask:
    return NewTask(id=task_id, type="a", queue=QUEUE, **fields)


def _linked() -> list[NewTask]:
    (batch,) = batches([_new(TASK), _new(OTHER, after=(Parent(TASK, QUEUE),))])
    return batch


KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[], list[Call]]]] = {
    "alone": ((), lambda: [Submit((_new(TASK, idempotency_key="k"),))]),
    "unique": (("rival",), lambda: [Submit((_new(TASK, deduplication=ALIKE),))]),
    "linked": (("requeuer",), lambda: [Weave(tuple(_linked()))]),
    "limited": (
        (),
        lambda: [Declare({"one": Numbers(1)}), Submit((_new(TASK, limits=("one",)), _new(OTHER, limits=("one",))))],
    ),
}
"""What tasks there are, and who acts beside those who always do."""


def check_all(server: Server, depth: int, kind: str = "alone") -> Checker:
    """Check everything that can happen within `depth` calls."""
    world = server.new_world()
    digest = world.perform(Announce(TYPES))
    more, first = KINDS[kind]
    for call in first():
        world.perform(call)
    names = (*WORKERS, "reaper", "canceller", "scheduler", *more)
    checker = Checker(world, digest)
    checker.run(State(world.save(), {name: Actor(name) for name in names}), depth)
    return checker


def main() -> int:
    """Check, and print figures or the path to the first broken promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore.small_model", description=__doc__)
    parser.add_argument("--depth", type=int, default=7, help="the most calls in a row (default 7)")
    parser.add_argument("--kind", choices=sorted(KINDS), default="alone", help="which tasks there are (default alone)")
    options = parser.parse_args()
    began = time.monotonic()
    with own_server() as server:
        try:
            checker = check_all(server, options.depth, options.kind)
        except Violation as violation:
            print(f"VIOLATION\n{violation}")
            return 1
    seconds = time.monotonic() - began
    reached = f"{len(checker.seen)} states, {checker.sent} calls, {seconds:.0f} s"
    print(f"{options.kind}, depth {options.depth}: {reached}: promises kept.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

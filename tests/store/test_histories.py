"""Random histories: whatever workers, reapers and operators do, every accepted task ends once and leaves nothing."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from dtq_engine.errors import InvalidTransition, TaskNotFound
from dtq_engine.model import (
    Block,
    Cancel,
    Claim,
    DeadLetter,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    Settled,
    Succeed,
    Transition,
)
from dtq_engine.store import Store
from tests.store.hand import Hand, error
from tests.support.clock import Clock

ENDED = {"TASK_SUCCEEDED", "TASK_DEAD_LETTERED", "TASK_CANCELLED", "TASK_EXPIRED"}
ENDS: list[Transition] = [
    Succeed(b"1"),
    Succeed(b'"' + b"x" * 99 + b'"'),
    Reschedule(error(), 0),
    Reschedule(error(), 5000),
    DeadLetter(error(), "permanent"),
    Cancel(error()),
    Release(),
    Postpone(3000),
    Block("not here"),
]


class History:
    """One queue, three workers who forget, repeat and come late, and an operator."""

    def __init__(self, store: Store, clock: Clock, seed: int) -> None:
        self.store, self.clock = store, clock
        self.chance = random.Random(seed)
        self.hands = [Hand(store, f"w{n}") for n in range(3)]
        self.accepted: list[str] = []
        self.held: list[Claim] = []
        self.ended: list[tuple[Claim, Transition]] = []
        self.requeued: Counter[str] = Counter()

    def step(self) -> None:
        kinds = [self.submit] * 3 + [self.claim] * 4 + [self.end] * 5
        kinds += [self.repeat, self.forget, self.renew, self.reclaim, self.wait, self.wait, self.operate, self.operate]
        self.chance.choice(kinds)()

    def submit(self) -> None:
        batch = [self._new(f"t{len(self.accepted) + n}") for n in range(self.chance.randint(1, 4))]
        self.store.intake.submit(batch)
        self.accepted += [task.id for task in batch]

    def _new(self, task_id: str) -> NewTask:
        return NewTask(
            id=task_id,
            type=self.chance.choice(["mail", "mail", "unknown"]),
            payload=b"1" * self.chance.choice([2, 99]),
            priority=self.chance.randint(0, 9),
            delay_ms=self.chance.choice([0, 0, 4000]),
            expires_in_ms=self.chance.choice([None, None, 6000]),
            idempotency_key=task_id,
        )

    def claim(self) -> None:
        self.held += self.chance.choice(self.hands).claim(self.chance.randint(1, 5))

    def end(self) -> None:
        if self.held:
            claim = self.held.pop(self.chance.randrange(len(self.held)))
            transition = self.chance.choice(ENDS)
            self.hands[0].end(claim, transition)
            self.ended.append((claim, transition))

    def repeat(self) -> None:
        """A finalize is sent again: it never counts twice."""
        if self.ended:
            assert self.hands[0].end(*self.chance.choice(self.ended)) is not Settled.OK

    def forget(self) -> None:
        """A worker dies with what it holds."""
        self.held = self.held[: len(self.held) // 2]

    def renew(self) -> None:
        for hand in self.hands:
            self.store.leases.renew([claim for claim in self.held if claim.worker == hand.name])

    def reclaim(self) -> None:
        self.held += self.hands[1].reclaim()

    def wait(self) -> None:
        self.clock.advance(self.chance.choice([1, 5, 31]))
        self.store.schedule.promote("default")

    def operate(self) -> None:
        """Some verb on some task, whether it makes sense or not."""
        if not self.accepted:
            return
        task_id, control = self.chance.choice(self.accepted), self.store.control
        verbs: list[Callable[[str], object]] = [control.cancel, control.requeue, control.run_now, control.discard]
        verb = self.chance.choice([*verbs, self.reprioritise, self.pause_a_while])
        try:
            verb(task_id)
        except (InvalidTransition, TaskNotFound):
            return
        self.requeued[task_id] += verb == control.requeue

    def reprioritise(self, task_id: str) -> None:
        self.store.control.reprioritise(task_id, self.chance.randint(0, 9))

    def pause_a_while(self, task_id: str) -> None:
        control = self.store.control
        control.pause("default")
        assert self.hands[0].claim() == []
        control.resume("default")

    def drain(self) -> None:
        """A faultless worker who knows every type ends all that is left."""
        hand = Hand(self.store, "last", ["mail", "unknown"])
        while self.store.inspect.queue("default").depth:
            self.clock.advance(61)
            self.store.schedule.promote("default")
            hand.end_all(hand.reclaim(), Reschedule(error(), 0))
            hand.end_all(hand.claim())


@pytest.mark.drains
@pytest.mark.parametrize("seed", range(6))
def test_every_accepted_task_ends_exactly_once_per_life(store, clock, seed):
    history = History(store, clock, seed)
    for _ in range(150):
        history.step()
    history.drain()
    told = Counter(event.task_id for event in store.events.tail("default", 10_000) if event.type in ENDED)
    assert told == {task_id: 1 + history.requeued[task_id] for task_id in history.accepted}
    found = store.inspect.find(history.accepted)
    assert all(task is None or task.status.is_final for task in found)
    assert store.sweep.run() == {}


@pytest.mark.parametrize("seed", range(3))
def test_counters_tell_every_history(store, clock, seed):
    history = History(store, clock, seed + 100)
    for _ in range(100):
        history.step()
    told = Counter((event.task_type, event.type) for event in store.events.tail("default", 10_000))
    counted = store.inspect.counters("default")
    names = {"TASK_STARTED": "started", "TASK_RETRY_SCHEDULED": "retried"}
    names |= {name: name.removeprefix("TASK_").lower() for name in ENDED}
    for (task_type, event), number in told.items():
        if event in names:
            assert counted[task_type][names[event]] == number
    assert sum(each["submitted"] for each in counted.values()) == len(history.accepted)

"""Limits: what workers declare, what operators say instead, and what must hold of slots and lines after each call."""

from dataclasses import dataclass, field

from dtq_engine.errors import LimitNotFound
from dtq_engine.limits import Declared, Limit, Numbers
from tests.explore.calls.base import Place, Seen
from tests.explore.promises import Promises, expect

CHOICES: tuple[dict[str, Numbers], ...] = (
    {"one": Numbers(1), "few": Numbers(2), "paced": Numbers(None, 2, 20_000)},
    {"one": Numbers(1), "few": Numbers(2), "paced": Numbers(None, 2, 20_000)},
    {"one": Numbers(2), "few": Numbers(1), "paced": Numbers(1, 3, 20_000)},
    {"one": Numbers(1), "few": Numbers(3), "paced": Numbers(3, 2, 5_000)},
)
"""What builds say; the first is said at the beginning."""


@dataclass(frozen=True)
class Declare:
    """A build of workers says which limits it has."""

    numbers: dict[str, Numbers] = field(default_factory=lambda: CHOICES[0])

    def run(self, place: Place) -> int:
        place.workers.list_queue(place.queue)
        limits = tuple(Limit(name, each) for name, each in self.numbers.items())
        return place.limits.declare(place.queue, Declared(limits, dict.fromkeys(self.numbers, place.queue)))

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        in_force = seen.after.limits
        # Of a rate that is new nobody knows how many started before it was.
        for name, each in in_force.items():
            earlier = seen.before.limits.get(name, each)
            promises.is_rate_new |= (earlier.starts, earlier.window_ms) != (each.starts, each.window_ms)
        expect(in_force.keys() >= self.numbers.keys(), "what is declared is known", in_force)
        promises.events["CONFIGURATION_CHANGED"] += answer
        changed = {name for name in in_force if seen.before.limits.get(name) != in_force[name]}
        expect(answer >= len(changed) or promises.is_damaged, "a declaration says how many limits changed", answer)


@dataclass(frozen=True)
class SetLimit:
    """An operator says another number, or none (0)."""

    name: str
    max_running: int
    request: str

    def run(self, place: Place) -> None:
        number = self.max_running or "none"
        place.limits.set(place.queue, self.name, max_running=number, request=self.request)  # type: ignore[arg-type]

    def learn(self, promises: Promises, answer: object, seen: Seen) -> None:
        is_refused = isinstance(answer, LimitNotFound)
        is_new = self.request not in promises.answers
        known = self.name in seen.before.limits
        expect(is_refused != known or promises.is_damaged or not is_new, "a limit is set where it is", self, answer)
        if not is_refused and is_new:
            promises.answers[self.request] = None
            promises.events["CONFIGURATION_CHANGED"] += 1
            expect(seen.after.limits[self.name].max_running == (self.max_running or None), "an operator wins", self)


@dataclass(frozen=True)
class ClearLimit:
    """An operator lets the code decide again."""

    name: str
    request: str

    def run(self, place: Place) -> None:
        place.limits.clear(place.queue, self.name, request=self.request)

    def learn(self, promises: Promises, answer: object, seen: Seen) -> None:
        if answer is None and self.request not in promises.answers:
            promises.answers[self.request] = None
            promises.events["CONFIGURATION_CHANGED"] += 1
            expect(not seen.after.is_overridden(self.name), "what is cleared is not set", self)

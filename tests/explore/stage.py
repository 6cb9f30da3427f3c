"""Who takes part in a history: dice, workers with what they hold and held, and calls that are still under way."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dtq_engine.model import Claim
from tests.explore.absorbing import rivals
from tests.explore.calls.base import Call
from tests.explore.calls.control import Announce
from tests.explore.calls.intake import Submit
from tests.explore.calls.leases import Take
from tests.explore.snapshot import QUEUE
from tests.explore.world import World

OLD_TYPES = ("a", "b")
TYPES = ("a", "b", "c")
LATE_MS = 100_000
LATE_SUBMIT_MS = 15_000
"""How long a call can be under way. A submit is not sent for so long that its task's record may be trimmed."""


@dataclass
class Stage:
    """The actors of one history. All chance comes from `dice`, so that a seed gives the same history again."""

    world: World
    dice: random.Random
    damage: float = 0.0
    holders: list[Claim] = field(default_factory=list)
    past: list[Claim] = field(default_factory=list)
    under_way: list[tuple[int, Call]] = field(default_factory=list)
    asked: list[tuple[int, Take]] = field(default_factory=list)
    beside: "Stage | None" = None
    lives: list[tuple[str, str]] = field(default_factory=list)
    digests: dict[tuple[str, ...], str] = field(default_factory=dict)
    names: int = 0

    def name(self, prefix: str) -> str:
        """A name that was not used before."""
        self.names += 1
        return f"{prefix}{self.names}" if self.queue == QUEUE else f"{prefix}{self.queue[0]}{self.names}"

    @property
    def queue(self) -> str:
        """Where its calls go."""
        return self.world.store.queue

    def send(self, call: Call, *, late: bool = False) -> Any:
        """Send a call over a bad network: it may get lost, arrive several times, and with `late` much later too.

        The last answer, as the client would see it; None when the call got lost.
        """
        if self.dice.random() < 0.04:
            self.world.note(f"lost: {call!r}")
            return None
        answer = self.world.perform(call)
        for _ in range(2):
            if self.dice.random() < 0.12:
                answer = self.world.perform(call)
        if late and self.dice.random() < 0.08:
            limit_ms = LATE_SUBMIT_MS if isinstance(call, Submit) else LATE_MS
            self.under_way.append((self.world.promises.elapsed_ms + limit_ms, call))
        return answer

    def deliver_late(self) -> None:
        """Let a call that was under way arrive."""
        now_ms = self.world.promises.elapsed_ms
        self.under_way = [(until_ms, call) for until_ms, call in self.under_way if now_ms < until_ms]
        if self.under_way:
            _, call = self.under_way.pop(self.dice.randrange(len(self.under_way)))
            self.world.perform(call)

    def ask(self, call: Take) -> Any:
        """Send a claim, and remember it, so that it can be asked again."""
        self.asked.append((self.world.promises.elapsed_ms + LATE_MS, call))
        return self.send(call)

    def ask_again(self) -> Any:
        """Send one of the claims of the last minutes once more; None when there is none."""
        now_ms = self.world.promises.elapsed_ms
        self.asked = [(until_ms, call) for until_ms, call in self.asked if now_ms < until_ms]
        return self.send(self.dice.choice(self.asked)[1]) if self.asked else None

    def announce(self, types: tuple[str, ...]) -> str:
        """A build publishes its types; the digest to claim under."""
        self.digests[types] = digest = self.world.perform(Announce(types))
        return str(digest)

    def hold(self, claims: Sequence[Claim]) -> None:
        """A worker or reaper holds these now."""
        known = {claim.key for claim in self.holders}
        self.holders += [claim for claim in claims if claim.key not in known]
        self.past += claims

    def holdings(self) -> list[Claim]:
        """All that one of the holders holds."""
        if not self.holders:
            return []
        worker = self.dice.choice(self.holders).worker
        return [claim for claim in self.holders if claim.worker == worker]

    def draw(self, most: int) -> list[Claim]:
        """Take up to `most` executions of one holder out of its hands; one time in eight they stay there too."""
        holdings = self.holdings()
        drawn = self.dice.sample(holdings, self.dice.randint(min(1, len(holdings)), min(most, len(holdings))))
        if self.dice.random() < 0.875:
            self.holders = [claim for claim in self.holders if claim not in drawn]
        return drawn

    def drop(self, worker: str) -> None:
        """A worker dies with all that it held."""
        self.holders = [claim for claim in self.holders if claim.worker != worker]

    def zombie(self) -> Claim | None:
        """An execution of the past, if there is one while its task runs anew: that is where it does most harm."""
        tasks = self.world.promises.tasks
        rivals = [claim for claim in self.past if tasks[claim.task_id].token not in {"", claim.token}]
        return self.dice.choice(rivals or self.past) if self.past else None

    def some_task(self, ended: float = 0.2) -> str | None:
        """A task, with this chance one that has ended; None when there is none."""
        wants_ended = self.dice.random() < ended
        tasks = self.world.promises.tasks.values()
        there = [known for known in tasks if known.status is not None]
        wanted = [known for known in there if known.is_living != wants_ended] or there
        return self.dice.choice(wanted).task.id if wanted else None

    def some_task_without_its_key(self) -> str | None:
        """A task that has ended and whose idempotency key or unique key was taken by another."""
        promises = self.world.promises
        keys = {name: key.task_id for name, key in promises.keys.items()}
        ended = [known for known in promises.tasks.values() if known.status is not None and not known.is_living]
        robbed = [
            known.task.id
            for known in ended
            if keys.get(known.task.idempotency_key or "") not in {None, known.task.id} or rivals(promises, known)[0]
        ]
        return self.dice.choice(robbed) if robbed else None

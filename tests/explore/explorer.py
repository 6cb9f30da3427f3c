"""One history from a seed: settings, random operations on a bad network, then a drain to the last task."""

import random
from dataclasses import dataclass
from typing import Any

from dtq_engine.model import Claim, Succeed
from tests.explore.calls.control import Resume
from tests.explore.calls.leases import Finalize, Take
from tests.explore.calls.limits import Declare
from tests.explore.calls.links import Relay
from tests.explore.calls.schedule import Advance, Promote, Reclaim, Sweep, Trim
from tests.explore.operations import OPERATIONS, decide_all
from tests.explore.promises import Violation, expect
from tests.explore.stage import TYPES, Stage
from tests.explore.world import Server, World

DRAIN_ROUNDS = 100


@dataclass(frozen=True)
class Failure:
    """A history that broke a promise."""

    seed: int
    steps: int
    damage: float
    message: str
    history: tuple[str, ...]

    def __str__(self) -> str:
        options = f"--histories 1 --steps {self.steps} --seed {self.seed} --damage {self.damage:g}"
        replay = f"python -m tests.explore {options}"
        return "\n".join([*self.history, "", f"VIOLATION  {self.message}", f"replay:    {replay}"])


def explore(server: Server, *, seed: int, steps: int, damage: float) -> World | Failure:
    """Play one history and drain it: the world at the end, or what went wrong."""
    dice = random.Random(seed)
    world = server.new_world(**_some_settings(dice))
    stage = Stage(world, dice, damage)
    try:
        world.perform(Declare())
        _play(stage, steps)
        drain(stage)
    except Violation as violation:
        return Failure(seed, steps, damage, str(violation), tuple(world.history))
    return world


def _some_settings(dice: random.Random) -> dict[str, Any]:
    """Small limits, so that they are met."""
    return {
        "keep_succeeded": dice.choice((0, 2, 1000)),
        "task_retention_s": dice.choice((0, 100, 3600, 3600)),
        "result_retention_s": dice.choice((0, 130, 1000)),
        "idem_ttl_s": dice.choice((5, 5, 200)),
        "dlq_enabled": dice.random() < 0.8,
        "dlq_maxlen": dice.choice((1, 3, 1000)),
        "dlq_retention_s": dice.choice((10, 200, 3600)),
        "max_queue_depth": dice.choice((0, 0, 0, 6)),
        "unknown_type_grace_s": dice.choice((0, 30, 3600)),
        "max_lease_expiries": dice.choice((1, 2, 3)),
        "task_log_lines": dice.choice((1, 3, 1000)),
    }


def _play(stage: Stage, steps: int) -> None:
    weights = [operation.weight + operation.damage * stage.damage for operation in OPERATIONS]
    for _ in range(steps):
        stage.dice.choices(OPERATIONS, weights)[0].act(stage)


def drain(stage: Stage) -> None:
    """Work until every task has ended: what was promised to end does, and nothing is left behind."""
    world = stage.world
    world.perform(Resume(stage.name("q")))
    next_due_ms = 0
    for _ in range(DRAIN_ROUNDS):
        world.perform(Advance(max(61_000, next_due_ms)))
        while (promotion := world.perform(Promote())).moved:
            pass
        next_due_ms = promotion.next_due_in_ms or 0
        world.perform(Relay())
        if world.promises.is_damaged and any(known.awaits for known in world.promises.tasks.values()):
            world.perform(Sweep())  # their parents may be gone
        decide_all(stage, world.perform(Reclaim("r1", stage.name("r"))))
        finish(stage)
        if not any(known.is_living for known in world.promises.tasks.values()):
            break
    world.perform(Sweep())
    world.perform(Trim())
    left = sorted(known.task.id for known in world.promises.tasks.values() if known.is_living)
    expect(not left, "every accepted task reaches its outcome", left)
    expect(not world.now.entries and not world.now.leases, "all streams are empty", world.now.entries, world.now.leases)


def finish(stage: Stage) -> None:
    """A healthy worker that knows all types runs what waits."""
    digest = stage.announce(TYPES)
    while claims := _take(stage, digest):
        stage.world.perform(Finalize(tuple((claim, Succeed(None)) for claim in claims)))


def _take(stage: Stage, digest: str) -> tuple[Claim, ...]:
    claims: tuple[Claim, ...] = stage.world.perform(Take("w3", stage.name("c"), 100, TYPES, digest)).claims
    return claims

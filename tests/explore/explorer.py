"""One history from a seed: settings, random operations on a bad network, then a drain to the last task."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtq_engine.model import Claim, Succeed
from tests.explore.calls.control import Resume
from tests.explore.calls.leases import Finalize, Take
from tests.explore.calls.limits import Declare
from tests.explore.calls.links import Carry, Relay
from tests.explore.calls.schedule import Advance, Promote, Reclaim, Sweep, Trim
from tests.explore.family import waits_in_vain
from tests.explore.operations import APART, OF_ONE_QUEUE, OPERATIONS, decide_all
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
    """Play one history and drain it: the world at the end, or what went wrong.

    Every fourth has two queues with links between them, and leaves the keys alone; every third is without functions.
    """
    dice, has_two = random.Random(seed), seed % 4 == 0
    server.use_functions(seed % 3 != 0)
    settings = _some_settings(dice)
    worlds = server.new_worlds(**settings) if has_two else (server.new_world(**settings),)
    stages = _stages(worlds, dice, 0.0 if has_two else damage)
    try:
        for world in worlds:
            world.perform(Declare())
        _play(stages, steps)
        drain(*stages)
    except Violation as violation:
        return Failure(seed, steps, damage, str(violation), tuple(worlds[0].history))
    return worlds[0]


def _stages(worlds: tuple[World, ...], dice: random.Random, damage: float) -> list[Stage]:
    stages = [Stage(world, dice, damage) for world in worlds]
    for stage, other in zip(stages[1:], stages[:-1], strict=True):
        stage.beside, other.beside = other, stage
    return stages


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


def _play(stages: Sequence[Stage], steps: int) -> None:
    first, dice = stages[0], stages[0].dice
    kinds = OPERATIONS if len(stages) == 1 else OPERATIONS + APART
    weights = [operation.weight + operation.damage * first.damage for operation in kinds]
    for _ in range(steps):
        act = dice.choices(kinds, weights)[0].act
        act(first if len(stages) == 1 or act in OF_ONE_QUEUE else dice.choice(stages))


def drain(*stages: Stage) -> None:
    """Work until every task has ended: what was promised to end does, and nothing is left behind."""
    for stage in stages:
        stage.world.perform(Resume(stage.name("q")))
    next_due_ms = 0
    for _ in range(DRAIN_ROUNDS):
        stages[0].world.perform(Advance(max(61_000, next_due_ms)))
        next_due_ms = max([_work(stage) for stage in stages])
        for stage in stages:
            _relay(stage)
        if waits_in_vain(stages[0].world.promises):
            stages[0].world.perform(Sweep())
        if not any(_left(stage) for stage in stages):
            break
    stages[0].world.perform(Sweep())
    for stage in stages:
        world = stage.world
        _relay(stage)
        world.perform(Trim())
        expect(not _left(stage), "every accepted task reaches its outcome", _left(stage))
        expect(
            not (world.now.entries or world.now.leases), "all streams are empty", world.now.entries, world.now.leases
        )
        expect(world.now.outbox == 0 or world.promises.is_damaged, "all messages arrive", world.now.outbox)


def _work(stage: Stage) -> int:
    """What a scheduler, a reaper and a worker do in a queue; when the next task is due, in ms."""
    world = stage.world
    while (promotion := world.perform(Promote())).moved:
        pass
    _relay(stage)
    decide_all(stage, world.perform(Reclaim("r1", stage.name("r"))))
    finish(stage)
    return promotion.next_due_in_ms or 0


def _relay(stage: Stage) -> None:
    """Carry over all messages, or where there are two queues one by one, each of which may change a task."""
    if stage.beside is None:
        stage.world.perform(Relay())
        return
    waiting = 0
    while stage.world.now.outbox > waiting:
        waiting += not stage.world.perform(Carry(waiting))


def _left(stage: Stage) -> list[str]:
    return sorted(known.task.id for known in stage.world.promises.tasks.values() if known.is_living)


def finish(stage: Stage) -> None:
    """A healthy worker that knows all types runs what waits."""
    digest = stage.announce(TYPES)
    while claims := _take(stage, digest):
        stage.world.perform(Finalize(tuple((claim, Succeed(None)) for claim in claims)))


def _take(stage: Stage, digest: str) -> tuple[Claim, ...]:
    claims: tuple[Claim, ...] = stage.world.perform(Take("w3", stage.name("c"), 100, TYPES, digest)).claims
    return claims

"""The keys that all tasks of a queue, or all queues, share: of which type they must be, and which are not."""

from collections.abc import Mapping
from dataclasses import dataclass

from dtq_engine.keys import PRIORITIES, Keys
from dtq_engine.store.base import Base


@dataclass(frozen=True, slots=True)
class WrongType:
    """A key that holds something else than it must; `is_passing`: what belongs there is written anew at any time."""

    key: str
    found: str
    wanted: str
    is_passing: bool = False

    def __str__(self) -> str:
        return f"the key {self.key} is a {self.found}, not a {self.wanted}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Types by key; `passing`: those of them that nobody misses."""

    types: Mapping[str, str]
    passing: frozenset[str]


def of_queue(keys: Keys, queue: str) -> Wanted:
    """Those of a queue."""
    logs = (keys.dead_letters(queue), keys.events(queue), keys.audit(queue), keys.outbox(queue))
    streams = [*(keys.stream(queue, priority) for priority in PRIORITIES), *logs]
    schedules = (keys.schedule(queue), keys.retry_schedule(queue), keys.blocked(queue))
    sets = [*schedules, *keys.indexes(queue).values(), keys.builds(queue)]
    lists = (keys.wake(queue), keys.wake_schedule(queue))
    strings = (keys.queue(queue), keys.paused(queue), keys.clock(queue), keys.pulse(queue), keys.depth(queue))
    return Wanted(
        dict.fromkeys(streams, "stream")
        | dict.fromkeys(sets, "zset")
        | dict.fromkeys(lists, "list")
        | dict.fromkeys(strings, "string")
        | {keys.counters(queue): "hash", keys.limits(queue): "hash", keys.periodic(queue): "set"},
        frozenset({*lists, keys.builds(queue), keys.clock(queue), keys.pulse(queue), keys.depth(queue)}),
    )


def of_all(keys: Keys) -> Wanted:
    """Those of all queues."""
    sets = dict.fromkeys((keys.queues(), keys.workers()), "set")
    return Wanted(sets | {keys.leader(): "string", keys.rejections(): "hash"}, frozenset({*sets, keys.leader()}))


def wrong_among(base: Base, wanted: Wanted) -> list[WrongType]:
    """Those that hold something else. Reads alone."""
    found = base.connection.pipeline([("TYPE", key) for key in wanted.types])
    types = {key: reply.decode() for key, reply in zip(wanted.types, found, strict=True) if isinstance(reply, bytes)}
    return [
        WrongType(key, kind, wanted.types[key], key in wanted.passing)
        for key, kind in types.items()
        if kind not in {"none", wanted.types[key]}
    ]

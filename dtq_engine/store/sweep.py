"""Walking over all keys to find what damage has put out of step, a bounded step at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

from dtq_engine.keys import PRIORITIES
from dtq_engine.store.base import Base, chunks
from dtq_engine.store.shared_keys import Wanted, of_all, of_queue, wrong_among
from dtq_engine.validate import is_queue

IDS_PER_CALL = 100

OF_TASKS = ("task", "logs", "steps")
"""Keys that a task's id leads to; the last two are of tasks that an older release may have let go without them."""


class Sweep:
    """One walk over the deployment after another; `step` goes a little further."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._walk: Iterator[dict[str, int]] | None = None

    def step(self) -> dict[str, int] | None:
        """Look at about 1,000 more keys and repair what is wrong: what and how often. None when a walk is done."""
        self._walk = self._walk or self._steps()
        try:
            return next(self._walk)
        except StopIteration:
            self._walk = None
            return None
        except BaseException:
            self._walk = None
            raise

    def run(self) -> dict[str, int]:
        """A whole walk at once; all repairs."""
        total: dict[str, int] = {}
        for repairs in self._steps():
            _add(total, repairs)
        return total

    def _steps(self) -> Iterator[dict[str, int]]:
        keys = self._base.keys
        yield from self._drop_passing(of_all(keys))
        known = set(self._base.queues())
        found: set[str] = set()
        for kind in ("unique", *OF_TASKS, "idempotency"):  # a key that nobody holds, before its task misses it
            for names in scan(self._base, f"{keys.prefix}:{kind}:{{*"):
                repairs: dict[str, int] = {}
                for queue, rests in by_queue(names, f"{keys.prefix}:{kind}:").items():
                    found.add(queue)
                    _add(repairs, self._sweep(queue, kind, rests))
                yield repairs
        yield from self._sweep_limits()
        for queue in sorted(found - known):
            self._base.connection.call("SADD", keys.queues(), queue)
            yield {"queue": 1}
        for queue in sorted(found | known):
            yield from self._drop_passing(of_queue(keys, queue))
            yield from self._sweep_members(queue)
            yield from self._sweep_deliveries(queue)
            yield from self._sweep_letters(queue)

    def _drop_passing(self, wanted: Wanted) -> Iterator[dict[str, int]]:
        """What is in the way of keys that are written anew at any time; the others' contents are somebody's to save."""
        for wrong in wrong_among(self._base, wanted):
            if wrong.is_passing:
                self._base.connection.call("DEL", wrong.key)
                yield {"wrong_type": 1}

    def _sweep_limits(self) -> Iterator[dict[str, int]]:
        """Slots and places in line whose task may be gone."""
        keys = self._base.keys
        for place, kind, name in (("slot", "limit", keys.slots), ("line", "limited", keys.line)):
            for names in scan(self._base, f"{keys.prefix}:{kind}:{{*"):
                for queue, rests in by_queue(names, f"{keys.prefix}:{kind}:").items():
                    for bucket in (rest.decode("utf-8", "replace") for rest in rests):
                        for members in self._members(name(queue, bucket)):
                            yield self._sweep(queue, f"{place}:{bucket}", members)

    def _sweep_members(self, queue: str) -> Iterator[dict[str, int]]:
        """Members of schedules and indexes whose record may be gone."""
        keys = self._base.keys
        sets = (keys.schedule(queue), keys.retry_schedule(queue), keys.blocked(queue), *keys.indexes(queue).values())
        for key in sets:
            for members in self._members(key):
                yield self._sweep(queue, "task", members)

    def _members(self, key: str) -> Iterator[Sequence[bytes]]:
        """The members of a sorted set, in parts. What is damaged is somebody's to mend; the rest need not wait."""
        cursor: Any = 0
        while self._base.connection.call("TYPE", key) == b"zset":
            cursor, flat = self._base.connection.call("ZSCAN", key, cursor, "COUNT", 1000)
            yield flat[::2]
            if int(cursor) == 0:
                break

    def _sweep_deliveries(self, queue: str) -> Iterator[dict[str, int]]:
        """Deliveries that the group has passed, so that no worker meets them again."""
        for priority in PRIORITIES:
            yield from self._sweep_stream(queue, self._base.keys.stream(queue, priority), str(priority))

    def _sweep_letters(self, queue: str) -> Iterator[dict[str, int]]:
        """Dead letters whose task may be gone."""
        return self._sweep_stream(queue, self._base.keys.dead_letters(queue), "letter")

    def _sweep_stream(self, queue: str, stream: str, place: str) -> Iterator[dict[str, int]]:
        first = "-"
        if self._base.connection.call("TYPE", stream) != b"stream":
            return
        while page := self._base.connection.call("XRANGE", stream, first, "+", "COUNT", IDS_PER_CALL):
            yield self._sweep(queue, place, [entry for entry, _ in page])
            first = f"({page[-1][0].decode()}"

    def _sweep(self, queue: str, kind: str, names: Sequence[bytes]) -> dict[str, int]:
        """Look at tasks (by their records or satellites), idempotency keys, or what there is of another kind."""
        total: dict[str, int] = {}
        for part in chunks(names, [0] * len(names), IDS_PER_CALL):
            numbers = (len(part) if kind in OF_TASKS else 0, len(part) if kind == "idempotency" else 0)
            given = part if any(numbers) else [word for name in part for word in (kind, name)]
            _add(total, _counts(self._base.run("sweep", queue, *numbers, *given)))
        return total


def scan(base: Base, pattern: str) -> Iterator[list[bytes]]:
    """All keys that match, in parts, on every node."""
    for node in base.connection.nodes():
        cursor: Any = 0
        while True:
            cursor, names = node.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            yield names
            if int(cursor) == 0:
                break


def by_queue(names: Sequence[bytes], start: str) -> dict[str, list[bytes]]:
    """`start{queue}:rest` as rests by queue; what belongs to no queue is passed over."""
    groups: dict[str, list[bytes]] = {}
    for name in names:
        tag, separator, rest = name[len(start) + 1 :].partition(b"}:")
        queue = tag.decode("utf-8", "replace")
        if separator and is_queue(queue):
            groups.setdefault(queue, []).append(rest)
    return groups


def _counts(flat: Sequence[Any]) -> dict[str, int]:
    return {what.decode(): int(number) for what, number in zip(flat[::2], flat[1::2], strict=True)}


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for what, number in more.items():
        total[what] = total.get(what, 0) + number

"""Numbers over many queues at once: how they are now, and what has been counted since they exist.

However many queues there are, each method takes a few round trips. What cannot be read is left out and counted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtq_engine.keys import PRIORITIES
from dtq_engine.links import Command
from dtq_engine.model import FINAL, QueueStats, TaskStatus
from dtq_engine.store import replies
from dtq_engine.store.base import Base

_BUCKET = re.compile(r"([a-z]+) ([0-9]{1,3})").fullmatch
_SUM = re.compile(r"([a-z]+)_ms").fullmatch
_COUNT = re.compile(r"[a-z_]+").fullmatch


@dataclass(slots=True)
class Histogram:
    """Durations, counted in powers of two: `buckets[k]` is how many took at most 2^k ms, and more than 2^(k - 1)."""

    buckets: dict[int, int] = field(default_factory=dict[int, int])
    sum_ms: int = 0


@dataclass(slots=True)
class TypeTotals:
    """What has been counted of one task type in one queue."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    histograms: dict[str, Histogram] = field(default_factory=dict[str, Histogram])

    def add(self, name: str, number: int) -> bool:
        """Take in one field of the counters, by its name without the type; False if it is none of ours."""
        if bucket := _BUCKET(name):
            buckets = self._histogram(bucket[1]).buckets
            buckets[int(bucket[2])] = buckets.get(int(bucket[2]), 0) + number
        elif total := _SUM(name):
            self._histogram(total[1]).sum_ms += number
        elif _COUNT(name):
            self.counts[name] = self.counts.get(name, 0) + number
        else:
            return False
        return True

    def _histogram(self, name: str) -> Histogram:
        return self.histograms.setdefault(name, Histogram())


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """All that has been counted in one queue, by task type; `unreadable` fields are left out."""

    queue: str
    types: Mapping[str, TypeTotals]
    unreadable: int = 0


class Stats:
    """Reads the numbers of queues."""

    def __init__(self, base: Base) -> None:
        self._keys = base.keys
        self._connection = base.connection

    def queues(self, names: Sequence[str]) -> list[QueueStats]:
        """These queues in numbers, in three round trips; a queue that does not exist is all zeros."""
        size = len(self._commands(""))
        answers = self._connection.pipeline([command for name in names for command in self._commands(name)])
        oldest = self._oldest_waiting(names)
        return [
            _stats(name, answers[at * size : (at + 1) * size], oldest_ms)
            for at, (name, oldest_ms) in enumerate(zip(names, oldest, strict=True))
        ]

    def totals(self, names: Sequence[str]) -> list[QueueTotals]:
        """What has been counted in these queues, in one round trip."""
        found = self._connection.pipeline([("HGETALL", self._keys.counters(name)) for name in names])
        return [_totals(name, reply) for name, reply in zip(names, found, strict=True)]

    def _commands(self, queue: str) -> list[Command]:
        keys = self._keys
        streams = [keys.stream(queue, priority) for priority in PRIORITIES]
        schedules = [keys.schedule(queue), keys.retry_schedule(queue), keys.blocked(queue)]
        return [
            *(("XLEN", stream) for stream in streams),
            *(("XPENDING", stream, "workers") for stream in streams),
            *(("ZCARD", key) for key in schedules),
            *(("ZCARD", keys.index(queue, status)) for status in sorted(FINAL)),
            ("GET", keys.paused(queue)),
        ]

    def _oldest_waiting(self, names: Sequence[str]) -> list[int | None]:
        """When the oldest task of each queue that nobody has started became available."""
        streams = [self._keys.stream(name, priority) for name in names for priority in PRIORITIES]
        groups = self._connection.pipeline([("XINFO", "GROUPS", stream) for stream in streams])
        last = [replies.last_delivered(reply) for reply in groups]
        asked = [("XRANGE", stream, f"({entry}", "+", "COUNT", 1) for stream, entry in zip(streams, last, strict=True)]
        heads = [replies.first_entry(reply) for reply in self._connection.pipeline(asked)]
        size = len(PRIORITIES)
        return [_oldest(heads[at : at + size]) for at in range(0, len(heads), size)]


def _oldest(heads: Sequence[bytes | None]) -> int | None:
    return min((int(entry.partition(b"-")[0]) for entry in heads if entry), default=None)


def _stats(queue: str, answers: Sequence[Any], oldest_ms: int | None) -> QueueStats:
    lengths, pending = map(replies.number, answers[:10]), [replies.pending(answer) for answer in answers[10:20]]
    waiting = {p: max(0, n - started) for p, n, started in zip(PRIORITIES, lengths, pending, strict=True)}
    delayed, retrying, blocked = map(replies.number, answers[20:23])
    ended = dict(zip(sorted(FINAL), map(replies.number, answers[23:28]), strict=True))
    # What is there pauses the queue, whatever it is.
    paused: bytes | None = b"" if isinstance(answers[28], Exception) else answers[28]
    return QueueStats(
        queue=queue,
        waiting=sum(waiting.values()),
        running=sum(pending),
        delayed=delayed,
        retrying=retrying,
        blocked=blocked,
        succeeded=ended[TaskStatus.SUCCEEDED],
        failed=ended[TaskStatus.FAILED],
        dead_lettered=ended[TaskStatus.DEAD_LETTERED],
        cancelled=ended[TaskStatus.CANCELLED],
        expired=ended[TaskStatus.EXPIRED],
        paused=paused is not None,
        pause_reason=replies.pause_reason(paused),
        oldest_waiting_ms=oldest_ms,
        waiting_by_priority={priority: number for priority, number in waiting.items() if number},
        unreadable=sum(map(replies.is_damage, answers)),
    )


def _totals(queue: str, reply: Any) -> QueueTotals:
    types: dict[str, TypeTotals] = {}
    unreadable = int(isinstance(reply, Exception))
    for field_name, value in replies.pairs(reply).items():
        # A name without a blank is none of a type: the numbering of events and the like.
        task_type, blank, name = field_name.decode("utf-8", "backslashreplace").partition(" ")
        if not blank:
            continue
        number = replies.whole(value)
        if number is None or not types.setdefault(task_type, TypeTotals()).add(name, number):
            unreadable += 1
    return QueueTotals(queue, types, unreadable)

"""How the counters of queues were at earlier times, so that rates and charts can be made of them.

The leader keeps it, once a minute. Per queue and span of time there is one hash, a ring of as many slots as the
span has steps: whatever is written lands in the slot of its time, so that writing twice is harmless, nothing needs
trimming, and 7 days take 220 fields of a few hundred bytes. What is kept are the totals as they were; what happened
in between is the difference, however many notes are missing.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from dtq_engine.store import replies
from dtq_engine.store.base import Base
from dtq_engine.store.events import Events
from dtq_engine.store.stats import Histogram, QueueTotals, Stats

KEPT_MS = 8 * 86_400_000
"""How long a ring outlives its last note."""

TYPES = 30
"""Of how many task types, those that failed most often, the failures are kept."""


class Span(StrEnum):
    """How far back to look."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def step_ms(self) -> int:
        """The time between two notes."""
        return {Span.HOUR: 60_000, Span.DAY: 1_200_000, Span.WEEK: 7_200_000}[self]

    @property
    def length_ms(self) -> int:
        """All of it."""
        return {Span.HOUR: 3_600_000, Span.DAY: 86_400_000, Span.WEEK: 604_800_000}[self]

    @property
    def slots(self) -> int:
        """One more than there are steps, so that the oldest note is a whole span ago."""
        return self.length_ms // self.step_ms + 1


class Snapshot(msgspec.Struct, frozen=True):
    """All that had been counted in a queue at one time: totals, histograms in powers of two, failures by type."""

    at_ms: int
    counts: dict[str, int] = {}
    waits: dict[int, int] = {}
    runs: dict[int, int] = {}
    wait_ms: int = 0
    run_ms: int = 0
    failures: dict[str, int] = {}


_decoder = msgspec.json.Decoder(Snapshot)


class History:
    """Takes and reads notes of the counters."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._stats = Stats(base)
        self._events = Events(base)

    def now(self, queues: Sequence[str], at_ms: int | None = None) -> list[Snapshot]:
        """The counters of these queues as they are."""
        at_ms = self._base.now_ms() if at_ms is None else at_ms
        return [_snapshot(totals, at_ms) for totals in self._stats.totals(queues)]

    def record(self, queue: str, at_ms: int | None = None) -> None:
        """Note how the counters of a queue are now (or were, as a test says, at `at_ms`). Harmless to repeat."""
        (snapshot,) = self.now([queue], at_ms)
        if not self._base.connection.call("EXISTS", self._base.keys.history(queue, Span.WEEK)):
            for born in self._born([queue])[0]:
                if born.at_ms < snapshot.at_ms:
                    # One slot early, where this span's first real note does not fall upon it.
                    self._write(queue, born, -1)
        self._write(queue, snapshot)

    def read(self, queues: Sequence[str], span: Span) -> list[list[Snapshot]]:
        """The notes of each of these queues, oldest first; what cannot be read is left out.

        Before the first note of a young queue, all that is known is that it began with nothing counted: that is a
        note too, of when its first task was submitted.
        """
        since_ms = self._base.now_ms() - span.length_ms - span.step_ms
        found = self._base.connection.pipeline([("HGETALL", self._base.keys.history(queue, span)) for queue in queues])
        noted = [_decoded(reply) for reply in found]
        unnoted = [queue for queue, notes in zip(queues, noted, strict=True) if not notes]
        born = dict(zip(unnoted, self._born(unnoted), strict=True))
        return [
            sorted((each for each in notes or born[queue] if each.at_ms >= since_ms), key=lambda each: each.at_ms)
            for queue, notes in zip(queues, noted, strict=True)
        ]

    def _born(self, queues: Sequence[str]) -> list[list[Snapshot]]:
        """For each queue a note of nothing from when it began, if its log still has its very first event."""
        return [
            [Snapshot(first.ts_ms)] if first is not None and first.event_id == 1 else []
            for first in self._events.first(queues)
        ]

    def _write(self, queue: str, snapshot: Snapshot, offset: int = 0) -> None:
        body = msgspec.json.encode(snapshot)
        for span in Span:
            key = self._base.keys.history(queue, span)
            self._base.connection.call("HSET", key, (snapshot.at_ms // span.step_ms + offset) % span.slots, body)
            self._base.connection.call("PEXPIRE", key, KEPT_MS)


def _snapshot(totals: QueueTotals, at_ms: int) -> Snapshot:
    counts, waits, runs, failures = Counter[str](), Histogram(), Histogram(), Counter[str]()
    for name, each in totals.types.items():
        counts.update(each.counts)
        failures[name] = each.counts.get("attempts_failed", 0)
        _add(waits, each.histograms.get("wait"))
        _add(runs, each.histograms.get("execution"))
    most = {name: number for name, number in failures.most_common(TYPES) if number}
    return Snapshot(at_ms, dict(counts), waits.buckets, runs.buckets, waits.sum_ms, runs.sum_ms, most)


def _add(total: Histogram, more: Histogram | None) -> None:
    if more is not None:
        total.sum_ms += more.sum_ms
        for bucket, number in more.buckets.items():
            total.buckets[bucket] = total.buckets.get(bucket, 0) + number


def _decoded(reply: Any) -> list[Snapshot]:
    found = list[Snapshot]()
    for body in replies.pairs(reply).values():
        try:
            found.append(_decoder.decode(body))
        except (msgspec.MsgspecError, ValueError):
            continue
    return found

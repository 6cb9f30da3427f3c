"""What happened between two notes of the counters, and what follows from it. Nothing here asks anybody."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dtq_engine import QueueStats, Snapshot
from webapp.pages.text import number, span

ENDS = ("succeeded", "failed", "dead_lettered", "cancelled", "expired")

LATELY_MS = 300_000
"""What "now" means for rates: long enough for a few tasks, short enough to be now."""

LEAST_MS = 15_000
"""From less than this nothing follows."""

ENOUGH_S = 60
"""Before this, that nothing has ended yet is no reason to worry."""

EVEN = 0.02
"""Rates that differ by less than this part are the same."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What happened in a queue, or in several, from one instant to another."""

    from_ms: int
    to_ms: int
    submitted: int = 0
    started: int = 0
    ended: int = 0
    failures: int = 0
    waits: Mapping[int, int] | None = None
    runs: Mapping[int, int] | None = None
    run_ms: int = 0

    @property
    def seconds(self) -> float:
        """How long."""
        return max(0.001, (self.to_ms - self.from_ms) / 1000)

    @property
    def p95_wait_ms(self) -> float | None:
        """How long all but 5 % waited at most, within a factor of two; None if nothing was started."""
        return quantile(self.waits or {}, 0.95)

    @property
    def p95_run_ms(self) -> float | None:
        """The same of running."""
        return quantile(self.runs or {}, 0.95)


def flow(before: Snapshot, after: Snapshot) -> Flow:
    """What happened between two notes of one queue. Counters that begin anew count from zero."""

    def since(names: Sequence[str]) -> int:
        return sum(max(0, after.counts.get(name, 0) - before.counts.get(name, 0)) for name in names)

    return Flow(
        before.at_ms,
        after.at_ms,
        submitted=since(("submitted", "requeued")),
        started=since(("started",)),
        ended=since(ENDS),
        failures=since(("attempts_failed",)),
        waits=_since(before.waits, after.waits),
        runs=_since(before.runs, after.runs),
        run_ms=max(0, after.run_ms - before.run_ms),
    )


def lately(notes: Sequence[Snapshot], now: Snapshot) -> Flow | None:
    """What happened in the last minutes, or since a young queue began; None without a note to compare with."""
    older = [note for note in notes if note.at_ms <= now.at_ms - LATELY_MS / 2]
    if older:
        return flow(older[max(0, len(older) - 3)], now)
    return flow(notes[0], now) if notes and now.at_ms - notes[0].at_ms >= LEAST_MS else None


def until_now(notes: Sequence[Snapshot], now: Snapshot) -> Sequence[Snapshot]:
    """These notes and how it is now, unless the latest of them is so young that nothing follows."""
    return [*notes, now] if not notes or now.at_ms - notes[-1].at_ms >= LEAST_MS else notes


def known_since(notes: Sequence[Sequence[Snapshot]], span_ms: int, now_ms: int) -> int | None:
    """Since when anything is known, where that is not the whole of a span."""
    first_ms = min((of_queue[0].at_ms for of_queue in notes if of_queue), default=None)
    return first_ms if first_ms is not None and first_ms > now_ms - span_ms * (1 - EVEN) else None


def together(flows: Sequence[Flow]) -> Flow:
    """Several queues as one; at least one is needed."""
    return Flow(
        min(each.from_ms for each in flows),
        max(each.to_ms for each in flows),
        submitted=sum(each.submitted for each in flows),
        started=sum(each.started for each in flows),
        ended=sum(each.ended for each in flows),
        failures=sum(each.failures for each in flows),
        waits=_sum([each.waits or {} for each in flows]),
        runs=_sum([each.runs or {} for each in flows]),
        run_ms=sum(each.run_ms for each in flows),
    )


def series(notes: Sequence[Sequence[Snapshot]], step_ms: int) -> Sequence[Flow]:
    """What happened in all queues together, step by step; where notes are missing, the step is longer."""
    by_step: dict[int, list[Flow]] = {}
    for of_queue in notes:
        for before, after in pairwise(of_queue):
            by_step.setdefault(after.at_ms // step_ms, []).append(flow(before, after))
    return [together(by_step[step]) for step in sorted(by_step)]


def failing(notes: Sequence[Sequence[Snapshot]], now: Sequence[Snapshot], most: int = 6) -> Sequence[tuple[str, int]]:
    """The task types with the most failed attempts since the first notes, and how many."""
    total = Counter[str]()
    for of_queue, latest in zip(notes, now, strict=True):
        before = of_queue[0].failures if of_queue else {}
        total.update({name: count - before.get(name, 0) for name, count in latest.failures.items()})
    return [(name, count) for name, count in total.most_common(most) if count > 0]


def quantile(buckets: Mapping[int, int], part: float) -> float | None:
    """Up to which value a part of all lies, in a histogram of powers of two, evenly spread within a bucket."""
    total = sum(buckets.values())
    wanted, passed = total * part, 0
    for bucket in sorted(buckets):
        here = buckets[bucket]
        if here and passed + here >= wanted:
            low, high = (0.0 if bucket <= 0 else 2.0 ** (bucket - 1)), 2.0**bucket
            return low + (high - low) * (wanted - passed) / here
        passed += here
    return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be expected of a queue, as words; `tone` is good, warn, bad or nothing."""

    words: str
    tone: str = ""


def verdict(stats: QueueStats, recent: Flow | None, workers: int) -> Verdict:
    """Whether a queue keeps up."""
    if stats.paused:
        return Verdict(f"paused, {number(stats.waiting)} waiting" if stats.waiting else "paused", "warn")
    if not workers and stats.waiting:
        return Verdict("backlog, and nobody consumes it", "bad")
    if not stats.waiting:
        return Verdict("nothing waits" if workers else "nobody serves it", "good" if workers else "")
    if recent is None:
        return Verdict("not known yet: rates take a few minutes")
    return _tendency(stats.waiting, recent, workers)


def _tendency(waiting: int, recent: Flow, workers: int) -> Verdict:
    come, gone = recent.submitted / recent.seconds, recent.ended / recent.seconds
    if not recent.ended:
        if recent.seconds < ENOUGH_S:
            return Verdict("not known yet: rates take a few minutes")
        return Verdict(f"nothing has ended for {span(recent.seconds * 1000)}", "bad")
    if gone > come * (1 + EVEN):
        return Verdict(f"empty in {span(1000 * waiting / (gone - come))}", "good")
    if gone >= come * (1 - EVEN):
        return Verdict("as many come as go", "warn")
    more = math.ceil(workers * come / gone) - workers
    need = f"needs about {more} more worker{'s' if more != 1 else ''}"
    return Verdict(f"growing {rate(come - gone)}, {need}", "bad")


def rate(per_s: float) -> str:
    """A rate in the unit that makes it readable: `40/s`, `2.5/min`, `3/h`."""
    if per_s <= 0:
        return "0/s"
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        value = per_s * factor
        if value >= 1 or unit == "h":
            return f"{value:,.0f}/{unit}" if value >= 10 or value == int(value) else f"{value:.1f}/{unit}"
    return ""


def _since(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    return {bucket: count - before.get(bucket, 0) for bucket, count in after.items() if count > before.get(bucket, 0)}


def _sum(histograms: Sequence[Mapping[int, int]]) -> dict[int, int]:
    total = Counter[int]()
    for each in histograms:
        total.update(each)
    return dict(total)

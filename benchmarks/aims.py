"""What is aimed at, as ratios wherever machines differ, and whether the figures that were kept reach it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.figures import Figure, Results
from benchmarks.peers.places import PYTHON

BANDS = tuple(f"band {band}" for band in range(10))
IDEAL = 20_000
"""Tasks of 10 ms that 200 slots can do in a second."""


@dataclass(frozen=True, slots=True)
class Aim:
    """One bound: `found` must be at least or at most `bound`; None while it was not measured."""

    what: str
    found: float | None
    bound: float
    unit: str
    at_least: bool = True

    @property
    def is_reached(self) -> bool | None:
        """Whether it is; None while that is not known."""
        if self.found is None:
            return None
        return self.found >= self.bound if self.at_least else self.found <= self.bound


class Kept:
    """The medians of what was kept, by kind, part and figure; None for what was not measured."""

    def __init__(self, **results: Results | None) -> None:
        self._results = results

    def figure(self, kind: str, part: str, name: str) -> Figure | None:
        """One figure."""
        results = self._results.get(kind)
        return results.get(part, name) if results else None

    def of(self, kind: str, part: str, name: str) -> float | None:
        """Its median."""
        figure = self.figure(kind, part, name)
        return figure.median if figure else None

    def beside(self, kind: str, part: str, name: str) -> float | None:
        """The median of its ratio to what was measured beside it, in percent."""
        figure = self.figure(kind, part, name)
        return figure.ratio * 100 if figure and figure.ratio is not None else None

    def best(self, peers: Iterable[str], name: str, pick: Callable[[Iterable[float]], float] = max) -> float | None:
        """The best that any of these peers did."""
        found = [value for peer in peers if (value := self.of("peers", peer, name)) is not None]
        return pick(found) if found else None


def aims(kept: Kept) -> tuple[Aim, ...]:
    """All bounds, in the order in which people ask for them."""
    return (*_drain(kept), *_submit(kept), *_waiting(kept), *_memory(kept), *_growth(kept), *_lasting(kept))


def times(ours: float | None, theirs: float | None) -> float | None:
    """How many times theirs ours is."""
    return ours / theirs if ours is not None and theirs else None


def worst(found: Iterable[float | None]) -> float | None:
    """The largest of them, if all were measured."""
    values = list(found)
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _drain(kept: Kept) -> tuple[Aim, ...]:
    ours = kept.of("peers", "dtq", "drain async")
    drained = kept.of("bench", "drain", "async")
    slept = kept.of("bench", "drain", "sleep of 10 ms")
    ideal = min(IDEAL, drained) if drained else None
    slept_share = times(slept, ideal)
    return (
        Aim("drain, async, beside BullMQ", times(ours, kept.of("peers", "bullmq", "drain async")), 1.5, "times"),
        Aim("drain, async, beside the best in Python", times(ours, kept.best(PYTHON, "drain async")), 7, "times"),
        Aim("drain, async", drained, 14_000, "tasks/s"),
        Aim("drain, threads", kept.of("bench", "drain", "threads"), 10_000, "tasks/s"),
        Aim(
            "handlers that sleep 10 ms, 200 at a time, of 20,000/s or of the drain, whichever is less",
            slept_share and slept_share * 100,
            90,
            "%",
        ),
        Aim("Redis' CPU for a task", kept.of("bench", "drain", "async, server"), 40, "µs", at_least=False),
        Aim("the worker's CPU for a task", kept.of("bench", "drain", "async, worker"), 35, "µs", at_least=False),
        Aim("two worker processes, of one", kept.beside("bench", "two", "two workers"), 110, "%"),
    )


def _submit(kept: Kept) -> tuple[Aim, ...]:
    names = ("submit single", "submit bulk")
    ours, theirs = ([kept.of("peers", peer, name) for name in names] for peer in ("dtq", "bullmq"))
    return (
        Aim("submit, one by one", kept.of("bench", "submit", "single, 1 thread"), 10_000, "tasks/s"),
        Aim("submit, one by one, beside BullMQ", times(ours[0], theirs[0]), 1.25, "times"),
        Aim("submit, bulk", kept.of("bench", "submit", "bulk"), 50_000, "tasks/s"),
        Aim("submit, bulk, beside BullMQ", times(ours[1], theirs[1]), 2.5, "times"),
        Aim("submit over HTTP, of a Flask hello-world", kept.beside("http", "http", "single"), 70, "%"),
        Aim("submit over HTTP, 500 a request", kept.of("http", "http", "batch of 500"), 25_000, "tasks/s"),
    )


def _waiting(kept: Kept) -> tuple[Aim, ...]:
    p50, p99 = ([kept.of("bench", "start", f"{band}, {each}") for band in BANDS] for each in ("p50", "p99"))
    last = [kept.of("bench", "start", f"last of ten queues, {each}") for each in ("p50", "p99")]
    seen = kept.of("bench", "start", "result seen by a waiting caller, p50")
    return (
        Aim("idle start, p50, slowest band", worst(p50), 0.8, "ms", at_least=False),
        Aim("idle start, p99, slowest band", worst(p99), 4, "ms", at_least=False),
        Aim("idle start, p50, last of ten queues", last[0], 0.8, "ms", at_least=False),
        Aim("idle start, p99, last of ten queues", last[1], 4, "ms", at_least=False),
        Aim("result seen by a waiting caller, p50", seen, 1.5, "ms", at_least=False),
        Aim("idle worker on ten queues", kept.of("bench", "idle", "worker"), 1, "% of a core", at_least=False),
        Aim(
            "idle worker on ten queues",
            kept.of("bench", "idle", "exchanges with the server"),
            15,
            "exchanges/s",
            at_least=False,
        ),
    )


def _memory(kept: Kept) -> tuple[Aim, ...]:
    ours, theirs = (kept.of("peers", peer, "waiting, 300 bytes") for peer in ("dtq", "bullmq"))
    waiting = kept.of("bench", "memory", "payload of 40 bytes")
    worker = kept.of("bench", "drain", "async, worker's memory after")
    back = kept.beside("growth", "back", "memory when it was back")
    return (
        Aim("10,000 waiting tasks of 40 bytes", waiting, 2600, "KiB", at_least=False),
        Aim("10,000 waiting tasks of 300 bytes, beside BullMQ", times(ours, theirs), 1, "times", at_least=False),
        Aim("a worker process after a drain", worker, 45, "MiB", at_least=False),
        Aim("Redis' memory after many tasks, of that after few", back, 105, "%", at_least=False),
    )


def _growth(kept: Kept) -> tuple[Aim, ...]:
    return (
        Aim("drain beside many waiting tasks", kept.beside("growth", "backlog", "drain, many waiting"), 90, "%"),
        Aim("drain, 100 queues of which one is busy", kept.beside("growth", "queues", "drain, 100 queues"), 90, "%"),
        Aim("drain beside many delayed tasks", kept.beside("growth", "delayed", "drain, many delayed"), 90, "%"),
        Aim("drain beside many dead letters", kept.beside("growth", "dead", "drain, many dead letters"), 90, "%"),
        Aim("promotion", kept.of("growth", "promotion", "promotion"), 20_000, "tasks/s"),
        Aim(
            "10,000 expired leases taken over and decided",
            kept.of("growth", "reclaim", "10,000 expired leases"),
            5,
            "s",
            at_least=False,
        ),
    )


def _lasting(kept: Kept) -> tuple[Aim, ...]:
    shares = [kept.beside("bench", "durability", f"{work}, everysec") for work in ("single", "bulk", "drain")]
    least = min((share for share in shares if share is not None), default=None)
    return (
        Aim("append-only file, everysec, of none: the least of submit, bulk and drain", least, 85, "%"),
        Aim("drain, append-only file, always", kept.of("bench", "durability", "drain, always"), 5000, "tasks/s"),
    )

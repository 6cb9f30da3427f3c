"""The overview: whether all is well, and if not, where to look."""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from flask import Blueprint, Response, request

from dtq_engine import Event, QueueStats, RedisDamaged, Snapshot, Span, WorkerInfo
from webapp.pages import rates
from webapp.pages.charts import Chart, Frame, chart
from webapp.pages.rates import Flow, Verdict
from webapp.pages.render import page
from webapp.pages.text import span
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("overview", __name__)

FEED = 12


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue at a glance."""

    stats: QueueStats
    recent: Flow | None
    workers: int
    verdict: Verdict

    @property
    def worry(self) -> tuple[int, int]:
        """What orders queues: the worst first, then the longest."""
        return -{"bad": 2, "warn": 1}.get(self.verdict.tone, 0), -self.stats.waiting


def queue_lines(names: Sequence[str], notes: Sequence[Sequence[Snapshot]], now: Sequence[Snapshot],
                workers: Sequence[WorkerInfo]) -> list[QueueLine]:  # fmt: skip
    """These queues with what happened to them lately; `notes` are of the last hour."""
    serving = Counter(queue for worker in workers if worker.state == "running" for queue in worker.queues)
    lines = list[QueueLine]()
    for stats, of_queue, latest in zip(web().app.store.stats.queues(names), notes, now, strict=True):
        recent, many = rates.lately(of_queue, latest), serving[stats.queue]
        lines.append(QueueLine(stats, recent, many, rates.verdict(stats, recent, many)))
    return lines


@blueprint.get("/")
@require(Role.VIEWER)
def index() -> Response:
    """The state of everything at this moment, and how it came to be."""
    store = web().app.store
    over = _span()
    names = store.inspect.queues()
    workers, now = store.workers.list(), store.history.now(names)
    hour = store.history.read(names, Span.HOUR)
    notes = hour if over is Span.HOUR else store.history.read(names, over)
    lines = sorted(queue_lines(names, hour, now, workers), key=lambda line: line.worry)
    recent = [line.recent for line in lines if line.recent]
    return page(
        "overview/index.html",
        live="overview/_live.html",
        lines=lines,
        total=rates.together(recent) if recent else None,
        workers=workers,
        slots=sum(worker.concurrency for worker in workers),
        busy=sum(worker.in_flight for worker in workers),
        failing=rates.failing(notes, now),
        over=over,
        since_ms=rates.known_since(notes, over.length_ms, store.now_ms()),
        spans=tuple(Span),
        charts=_charts(over, notes, now),
        feed=_feed(names),
        rate=rates.rate,
    )


def _span() -> Span:
    given = request.args.get("over", "")
    return Span(given) if given in set(Span) else Span.HOUR


def _charts(over: Span, notes: Sequence[Sequence[Snapshot]], now: Sequence[Snapshot]) -> Sequence[Chart]:
    whole = [rates.until_now(of_queue, latest) for of_queue, latest in zip(notes, now, strict=True)]
    flows = rates.series(whole, over.step_ms)
    to_ms = max((latest.at_ms for latest in now), default=web().app.store.now_ms())
    began_ms = rates.known_since(notes, over.length_ms, to_ms)
    rates_frame = Frame(began_ms or to_ms - over.length_ms, to_ms, rates.rate)
    times_frame = replace(rates_frame, words=span)

    def points(value: str, per_second: bool = False) -> list[tuple[int, float | None]]:
        found = [
            (each.to_ms, getattr(each, value) / each.seconds if per_second else getattr(each, value)) for each in flows
        ]
        # A line from the beginning is seen where a single point is not.
        return [(began_ms, found[0][1]), *found] if began_ms and found else found

    rated = [("in", points("submitted", True)), ("out", points("ended", True))]
    return (
        chart("Throughput", rated, rates_frame),
        chart("p95 wait", [("wait", points("p95_wait_ms"))], times_frame),
        chart("p95 run time", [("run time", points("p95_run_ms"))], times_frame),
    )


def _feed(names: Sequence[str]) -> Sequence[Event]:
    sources = [_readable(web().app.store.events.newest(name)) for name in names]
    return list(islice(heapq.merge(*sources, key=lambda event: -event.ts_ms), FEED))


def _readable(events: Iterator[Event]) -> Iterator[Event]:
    """The events of a log as far as it can be read: one that is damaged must not keep the others from being shown."""
    try:
        yield from events
    except RedisDamaged:
        return

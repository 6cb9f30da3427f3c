"""The numbers of the whole fleet as Prometheus metrics, read from Redis at each scrape.

Counters are written by the same scripts as the transitions that they count, so any process may be scraped and all
give the same numbers. Needs `prometheus-client`, which the extra `web` brings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from dtq_engine.errors import DtqError, RedisDamaged, RedisRefused
from dtq_engine.model import FINAL, QueueStats, WorkerInfo
from dtq_engine.store import Store
from dtq_engine.store.stats import Histogram, QueueTotals, TypeTotals

__all__ = ["FleetCollector", "exposition"]

BUCKETS = range(27)
"""The exponents of the buckets that are shown: 2^k ms, from 1 ms to about 19 hours, which is beyond any timeout."""

BOUNDS = tuple(str(2**k / 1000) for k in BUCKETS)

COUNTERS: Mapping[str, tuple[str, str]] = {
    "dtq_tasks_submitted": ("submitted", "Tasks that were accepted."),
    "dtq_tasks_started": ("started", "Executions that were started; a task may start more than once."),
    "dtq_tasks_succeeded": ("succeeded", "Tasks that ended as succeeded."),
    "dtq_tasks_failed": ("failed", "Tasks that ended as failed, which happens only where dead-lettering is off."),
    "dtq_tasks_retried": ("retried", "Attempts that failed and were followed by another one."),
    "dtq_tasks_dead_lettered": ("dead_lettered", "Tasks that ended as dead letters."),
    "dtq_tasks_requeued": ("requeued", "Ended tasks to which an operator gave a new life."),
    "dtq_leases_expired": ("lease_expired", "Executions whose worker fell silent."),
    "dtq_dead_letters_discarded": ("discarded", "Dead letters that an operator discarded."),
    "dtq_dead_letters_trimmed": ("dead_letters_trimmed", "Dead letters that went because of their number or age."),
}
"""By metric: the counter behind it, and its help. All have the labels queue and task_type."""

ABSORBED = ("unique", "throttled", "replaced")
"""Why another task stands for a submit; counters of these names."""

ATTEMPTS = {"succeeded": "succeeded", "failed": "attempts_failed"}

HISTOGRAMS: Mapping[str, tuple[str, str]] = {
    "dtq_task_wait_seconds": ("wait", "From when a task became available to the start of its execution."),
    "dtq_task_execution_seconds": ("execution", "From the start of a task's last execution to the task's end."),
    "dtq_task_duration_seconds": ("duration", "From when a task was accepted to its end."),
}

T = TypeVar("T")

OF_TYPE = ("queue", "task_type")


@dataclass(frozen=True, slots=True)
class _Reading:
    """All that one scrape has read."""

    now_ms: int
    stats: Sequence[QueueStats]
    totals: Sequence[QueueTotals]
    workers: Sequence[WorkerInfo]
    rejections: Mapping[str, int]
    unreadable: int

    def of_types(self) -> Iterator[tuple[tuple[str, str], TypeTotals]]:
        """What was counted by queue and task type, with these two as labels."""
        for queue in self.totals:
            for task_type, totals in queue.types.items():
                yield (queue.queue, task_type), totals


class FleetCollector(Collector):
    """A collector for prometheus-client. It keeps nothing between scrapes; each takes a few round trips to Redis."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """All metrics. Raises RedisUnavailable; a key that is damaged is left out and counted instead."""
        reading = self._read()
        yield from _counters(reading)
        yield from _histograms(reading)
        yield from _queues(reading)
        yield from _workers(reading.workers)
        yield _rejections(reading.rejections)
        errors = GaugeMetricFamily("dtq_scrape_errors", "Keys and fields that this scrape could not read and left out.")
        errors.add_metric([], reading.unreadable)
        yield errors

    def _read(self) -> _Reading:
        store, failed = self._store, list[DtqError]()

        def read(ask: Callable[[], T], otherwise: T) -> T:
            try:
                return ask()
            except (RedisDamaged, RedisRefused) as error:
                failed.append(error)
                return otherwise

        queues = read(store.inspect.queues, list[str]())
        workers = read(store.workers.list, list[WorkerInfo]())
        rejections = read(store.rejections.totals, dict[str, int]())
        stats, totals = store.stats.queues(queues), store.stats.totals(queues)
        unreadable = len(failed) + sum(each.unreadable for each in stats) + sum(each.unreadable for each in totals)
        return _Reading(store.now_ms(), stats, totals, workers, rejections, unreadable)


def exposition(collector: Collector, accept: str) -> tuple[bytes, str]:
    """The metrics as text, and its content type: OpenMetrics or Prometheus' own, as the header `Accept` asks."""
    encode, content_type = choose_encoder(accept)
    return encode(collector), content_type


def _counters(reading: _Reading) -> Iterator[Metric]:
    of_types = list(reading.of_types())
    for name, (counter, text) in COUNTERS.items():
        family = CounterMetricFamily(name, text, labels=OF_TYPE)
        for labels, totals in of_types:
            family.add_metric(labels, totals.counts.get(counter, 0))
        yield family
    completed = CounterMetricFamily("dtq_tasks_completed", "Tasks that ended, by status.", labels=[*OF_TYPE, "status"])
    attempts = CounterMetricFamily(
        "dtq_task_attempts", "Attempts that ended with a result or an error.", labels=[*OF_TYPE, "result"]
    )
    absorbed = CounterMetricFamily(
        "dtq_tasks_absorbed", "Submits for which another task stands.", labels=[*OF_TYPE, "reason"]
    )
    for labels, totals in of_types:
        for reason in ABSORBED:
            absorbed.add_metric([*labels, reason], totals.counts.get(reason, 0))
        for status in sorted(FINAL):
            completed.add_metric([*labels, status], totals.counts.get(status, 0))
        for result, counter in ATTEMPTS.items():
            attempts.add_metric([*labels, result], totals.counts.get(counter, 0))
    yield absorbed
    yield completed
    yield attempts


def _histograms(reading: _Reading) -> Iterator[Metric]:
    for name, (histogram, text) in HISTOGRAMS.items():
        family = HistogramMetricFamily(name, text, labels=OF_TYPE)
        for labels, totals in reading.of_types():
            found = totals.histograms.get(histogram, Histogram())
            family.add_metric(labels, _cumulative(found), found.sum_ms / 1000)
        yield family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Buckets as Prometheus wants them: each holds the smaller ones too, and the last holds all."""
    shown = accumulate(histogram.buckets.get(k, 0) for k in BUCKETS)
    return [*zip(BOUNDS, shown, strict=True), ("+Inf", sum(histogram.buckets.values()))]


def _queues(reading: _Reading) -> Iterator[Metric]:
    def gauge(name: str, text: str, values: Sequence[float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["queue"])
        for each, value in zip(reading.stats, values, strict=True):
            family.add_metric([each.queue], value)
        return family

    stats = reading.stats
    yield gauge("dtq_queue_depth", "Tasks that have not ended.", [each.depth for each in stats])
    yield gauge("dtq_queue_waiting", "Tasks that wait for a free worker.", [each.waiting for each in stats])
    yield gauge("dtq_queue_pending", "Tasks that a worker holds.", [each.running for each in stats])
    yield gauge("dtq_queue_delayed", "Tasks that wait for their time.", [each.delayed for each in stats])
    yield gauge("dtq_queue_blocked", "Tasks that no worker can run yet.", [each.blocked for each in stats])
    yield gauge("dtq_retry_scheduled", "Failed tasks that wait for their next attempt.", [s.retrying for s in stats])
    yield gauge("dtq_dlq_depth", "Dead letters.", [each.dead_lettered for each in stats])
    yield gauge("dtq_queue_paused", "1 while nothing may be started, else 0.", [each.paused for each in stats])
    ages = [_age_s(each.oldest_waiting_ms, reading.now_ms) for each in stats]
    yield gauge("dtq_queue_oldest_seconds", "How long the task has waited that waits for a worker longest.", ages)


def _age_s(since_ms: int | None, now_ms: int) -> float:
    return 0.0 if since_ms is None else max(0, now_ms - since_ms) / 1000


def _workers(workers: Sequence[WorkerInfo]) -> Iterator[Metric]:
    active = GaugeMetricFamily("dtq_workers_active", "Worker processes that are alive.")
    active.add_metric([], len(workers))
    inflight = GaugeMetricFamily("dtq_worker_inflight", "Tasks that a worker process holds.", labels=["worker_id"])
    tasks = CounterMetricFamily(
        "dtq_worker_tasks", "Executions that ended in a worker process since its start.", labels=["worker_id"]
    )
    for worker in workers:
        inflight.add_metric([worker.id], worker.in_flight)
        tasks.add_metric([worker.id], worker.finished)
    yield from (active, inflight, tasks)


def _rejections(totals: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily("dtq_ingest_rejected", "Tasks that the web process rejected.", labels=["reason"])
    for reason, number in sorted(totals.items()):
        family.add_metric([reason], number)
    return family

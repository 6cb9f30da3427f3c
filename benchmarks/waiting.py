"""What it is like to wait: how soon an idle worker starts, what idling costs, and what waiting tasks weigh."""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import machine, stage
from benchmarks.figures import Figure
from benchmarks.run import Plan
from benchmarks.tasks import app, clock, noop_async

BANDS = 10
LAST = stage.QUEUES[-1]
PAUSE_S = 0.005
FEW = 10_000
LOOKS = 3


class Delays(NamedTuple):
    """Milliseconds from before the submit to the handler's first line, and from its return to the waiting caller."""

    start_ms: float
    result_ms: float


def start(plan: Plan) -> tuple[Figure, ...]:
    """A worker that serves ten queues and has nothing to do; one task at a time comes."""
    each = min(100, plan.tasks // 200)
    with stage.server() as server:
        stage.attach(server.url)
        with stage.worker(server.url, concurrency=10):
            list(delays(20, "default", 5))
            bands = {
                f"band {band}": [list(delays(each, stage.QUEUES[0], band)) for _ in range(plan.runs)]
                for band in range(BANDS)
            }
            last = [list(delays(each, LAST, 5)) for _ in range(plan.runs)]
        app.close()
    starts = {name: [[one.start_ms for one in run] for run in runs] for name, runs in (*bands.items(), ("last", last))}
    starts["result seen"] = [[one.result_ms for one in run] for run in last]
    return tuple(figure for name, runs in starts.items() for figure in percentiles(NAMES.get(name, name), runs))


NAMES = {"last": "last of ten queues", "result seen": "result seen by a waiting caller"}


def delays(count: int, queue: str, priority: int) -> Iterator[Delays]:
    """Submit so many, each when the worker idles again."""
    task = clock.options(queue=queue, priority=priority)
    for _ in range(count):
        time.sleep(PAUSE_S)
        began = time.time_ns()
        entered = task.submit().result(timeout=10)
        yield Delays((entered - began) / 1e6, (time.time_ns() - entered) / 1e6)


def percentiles(name: str, runs: Sequence[Sequence[float]]) -> tuple[Figure, Figure]:
    """The median and the 99th percentile of each run."""
    cuts = [statistics.quantiles(run, n=100) for run in runs]
    return (
        Figure(f"{name}, p50", "ms", tuple(each[49] for each in cuts)),
        Figure(f"{name}, p99", "ms", tuple(each[98] for each in cuts)),
    )


def idle(plan: Plan) -> tuple[Figure, ...]:
    """A worker on ten queues with nothing to do, also when it leads."""
    seconds = max(3.0, min(10.0, plan.tasks / 2000))
    with stage.server() as server:
        stage.attach(server.url)
        with stage.worker(server.url, concurrency=10) as process:
            time.sleep(2)
            memory = machine.rss_mib(process.pid)
            runs = [idled(process.pid, seconds) for _ in range(plan.runs)]
        app.close()
    worker, served, exchanges, commands = zip(*runs, strict=True)
    return (
        Figure("worker", "% of a core", worker),
        Figure("server", "% of a core", served),
        Figure("exchanges with the server", "1/s", exchanges),
        Figure("commands, those in scripts too", "1/s", commands),
        Figure("worker's memory", "MiB", (memory,)),
    )


def idled(pid: int, seconds: float) -> tuple[float, float, float, float]:
    """Percent of a core of the worker and of the server; exchanges and commands per second."""
    before = used(pid)
    time.sleep(seconds)
    worker, server, exchanges, commands = (now - then for now, then in zip(used(pid), before, strict=True))
    return worker / seconds * 100, server / seconds * 100, (exchanges - LOOKS) / seconds, (commands - LOOKS) / seconds


def used(pid: int) -> tuple[float, float, int, int]:
    """What a worker and its server have used so far; the looks themselves are among them."""
    return machine.cpu_s(pid), stage.server_cpu_s(), stage.exchanges(), sum(stage.commands().values())


def memory(plan: Plan) -> tuple[Figure, ...]:
    """What 10,000 waiting tasks take in the server."""
    sizes = (40, 300)
    with stage.server() as server:
        stage.attach(server.url)
        runs = {size: tuple(weight(size) for _ in range(plan.runs)) for size in sizes}
        app.close()
    return tuple(Figure(f"payload of {size} bytes", "KiB per 10,000 waiting", runs[size]) for size in sizes)


def weight(size: int) -> float:
    """KiB by which the server grows with 10,000 waiting tasks of one payload size, and nothing else."""
    stage.forget()
    stage.fill(noop_async.name, 1)
    before = stage.server_memory_kib()
    stage.fill(noop_async.name, FEW, stage.payload_of(size))
    return stage.server_memory_kib() - before

"""Draining: how fast workers that are up and idle run what waits for them, and what it costs."""

from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks import machine, stage
from benchmarks.figures import Figure
from benchmarks.limit import Bare
from benchmarks.run import Plan
from benchmarks.tasks import app, noop_async, noop_sync, sleep_async

KINDS = {"async": (noop_async, 300), "threads": (noop_sync, 300), "sleep of 10 ms": (sleep_async, 200)}
"""Handlers, and with how many slots each is measured."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain showed: tasks per second, and µs of CPU per task."""

    rate: float
    worker_us: float
    server_us: float


def drain(plan: Plan) -> tuple[Figure, ...]:
    """One worker process, for each kind of handler."""
    figures: list[Figure] = []
    with stage.server() as server:
        stage.attach(server.url)
        bare = Bare(server.url)
        for name, (task, slots) in KINDS.items():
            with stage.worker(server.url, concurrency=slots) as process:
                drained(task, plan.tasks // 10, process.pid)
                limits = [bare.loop(plan.tasks) for _ in range(plan.runs)]
                runs = [drained(task, plan.tasks, process.pid) for _ in range(plan.runs)]
                figures += figures_of(name, runs, limits, machine.rss_mib(process.pid))
        app.close()
    return (*figures, Figure("bare loop", "ids/s", tuple(limits)))


def figures_of(name: str, runs: list[Drained], limits: list[float], rss: float) -> list[Figure]:
    """The figures of one kind of handler."""
    return [
        Figure(name, "tasks/s", tuple(each.rate for each in runs), tuple(limits)),
        Figure(f"{name}, worker", "µs of CPU per task", tuple(each.worker_us for each in runs)),
        Figure(f"{name}, server", "µs of CPU per task", tuple(each.server_us for each in runs)),
        Figure(f"{name}, worker's memory after", "MiB", (rss,)),
    ]


def two_workers(plan: Plan) -> tuple[Figure, ...]:
    """Two worker processes beside one, in turns."""
    one: list[float] = []
    two: list[float] = []
    with stage.server() as server, ExitStack() as second:
        stage.attach(server.url)
        with stage.worker(server.url) as first:
            for rates, processes in ((one, 1), (two, 2)):
                if processes == 2:
                    second.enter_context(stage.worker(server.url))
                drained(noop_async, plan.tasks // 10, first.pid)
                rates += [drained(noop_async, plan.tasks, first.pid).rate for _ in range(plan.runs)]
            second.close()
        app.close()
    return (Figure("one worker", "tasks/s", tuple(one)), Figure("two workers", "tasks/s", tuple(two), tuple(one)))


def drained(task: Any, tasks: int, pid: int, queue: str = "default") -> Drained:
    """Let so many tasks wait, then let the worker begin, and measure until the last is done."""
    control = app.store.control
    control.pause(queue)
    stage.fill(task.name, tasks, queue=queue)
    done = stage.succeeded(task.name, queue) + tasks
    worker, server, began = machine.cpu_s(pid), stage.server_cpu_s(), perf_counter()
    control.resume(queue)
    stage.until(lambda: stage.succeeded(task.name, queue) >= done)
    rate = tasks / (perf_counter() - began)
    return Drained(rate, (machine.cpu_s(pid) - worker) / tasks * 1e6, (stage.server_cpu_s() - server) / tasks * 1e6)

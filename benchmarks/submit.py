"""Submitting: one by one, from several threads, and in bulk."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks import stage
from benchmarks.figures import Figure
from benchmarks.limit import Bare
from benchmarks.run import Plan
from benchmarks.tasks import app, noop_async

THREADS = 8


def submit(plan: Plan) -> tuple[Figure, ...]:
    """Tasks accepted per second."""
    singles = max(THREADS, plan.tasks // 5)
    with stage.server() as server:
        stage.attach(server.url)
        bare = Bare(server.url)
        rate(one_by_one, 100)
        runs = [
            (
                rate(one_by_one, singles),
                rate(by_threads, singles),
                bare.single(singles),
                rate(in_bulk, plan.tasks),
                bare.bulk(plan.tasks),
            )
            for _ in range(plan.runs)
        ]
        app.close()
    single, threads, bare_single, bulk, bare_bulk = zip(*runs, strict=True)
    return (
        Figure("single, 1 thread", "tasks/s", single, bare_single),
        Figure("single, 8 threads", "tasks/s", threads, bare_single),
        Figure("bulk", "tasks/s", bulk, bare_bulk),
        Figure("bare single", "ids/s", bare_single),
        Figure("bare bulk", "ids/s", bare_bulk),
    )


def rate(way: Callable[[int], None], tasks: int) -> float:
    """Tasks per second of one way to submit them."""
    began = time.perf_counter()
    way(tasks)
    found = tasks / (time.perf_counter() - began)
    stage.forget()
    return found


def one_by_one(tasks: int) -> None:
    """As a request of a web process does."""
    for _ in range(tasks):
        noop_async.submit(1, b="hello")


def by_threads(tasks: int) -> None:
    """As several requests at the same time do."""
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(one_by_one, [tasks // THREADS] * THREADS))


def in_bulk(tasks: int) -> None:
    """As a nightly job does; the arguments are checked and encoded for each."""
    app.submit_many([noop_async.prepare(1, b="hello") for _ in range(tasks)])

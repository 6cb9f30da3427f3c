"""dtq, measured by the same means as the others."""

import os
import time
from collections.abc import Callable

from benchmarks.peers import handlers
from dtq_engine import Dtq, Settings
from dtq_engine.worker import Worker

PACKAGE = "dtq"
SETTINGS = "concurrency 300, all else by default; many: submit_many"
KINDS = ("async", "sync")
CONCURRENCY = 300

app = Dtq(Settings(redis_url=os.environ["BENCH_URL"], worker_concurrency=CONCURRENCY))


@app.task("noop.async")
async def noop_async(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@app.task("noop.sync")
def noop_sync(a: int, b: str) -> None:
    """Count, in a thread."""
    handlers.noop()


@app.task("clock")
async def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


NOOPS = {"async": noop_async, "sync": noop_sync}


def submit(kind: str, payload: str, count: int) -> None:
    """One by one."""
    for _ in range(count):
        NOOPS[kind].submit(1, payload)


def submit_many(kind: str, payload: str, count: int) -> None:
    """By its call for many."""
    app.submit_many([NOOPS[kind].prepare(1, payload) for _ in range(count)])


def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    for _ in range(count):
        clock.submit(time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One worker process."""
    Worker(app, app.settings).run()

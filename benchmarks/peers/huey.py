"""Huey: threads, a list, pickled calls."""

import os
import time
from collections.abc import Callable
from typing import Any

from huey import RedisHuey

from benchmarks.peers import handlers

PACKAGE = "huey"
SETTINGS = "8 threads, blocking pop, results kept, those that are None too; no call for many"
KINDS = ("sync",)

app: Any = RedisHuey("bench", url=os.environ["BENCH_URL"], blocking=True, results=True, store_none=True)


@app.task()
def noop(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@app.task()
def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


def submit(_kind: str, payload: str, count: int) -> None:
    """One by one."""
    for _ in range(count):
        noop(1, payload)


def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    for _ in range(count):
        clock(time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One consumer."""
    app.create_consumer(workers=8, worker_type="thread").run()

"""Celery with Redis as broker and for results."""

import os
import time
from collections.abc import Callable
from typing import Any

from celery import Celery

from benchmarks.peers import handlers

PACKAGE = "celery"
SETTINGS = "prefork with 1 process, prefetch 64, without gossip, mingle, heartbeat; results in Redis; no call for many"
KINDS = ("sync",)
URL = os.environ["BENCH_URL"]

app: Any = Celery("benchmarks.peers.celery", broker=URL, backend=URL)
app.conf.update(worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True, result_expires=3600)


@app.task
def noop(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@app.task
def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


def submit(_kind: str, payload: str, count: int) -> None:
    """One by one."""
    for _ in range(count):
        noop.delay(1, payload)


def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    for _ in range(count):
        clock.delay(time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One worker with one child."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["worker", "--pool=prefork", "--concurrency=1", *quiet])

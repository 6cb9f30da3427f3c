"""Dramatiq: threads, lists behind one dispatching script."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AsyncIO
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.peers import handlers

PACKAGE = "dramatiq"
SETTINGS = "1 process, 8 threads, results kept for ten minutes, AsyncIO for async; no call for many"
KINDS = ("async", "sync")
URL = os.environ["BENCH_URL"]

broker: Any = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL), store_results=True))
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
async def noop_async(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@dramatiq.actor
def noop_sync(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@dramatiq.actor
def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


NOOPS = {"async": noop_async, "sync": noop_sync}


def submit(kind: str, payload: str, count: int) -> None:
    """One by one."""
    for _ in range(count):
        NOOPS[kind].send(1, payload)


def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    for _ in range(count):
        clock.send(time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One worker process under its command."""
    options = ["--processes", "1", "--threads", "8", "--skip-logging"]
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", "benchmarks.peers.dramatiq", *options])

"""RQ: one job at a time, pickled calls."""

import os
import time
from collections.abc import Callable
from typing import Any

import redis
from rq import Queue, SimpleWorker

from benchmarks.peers import handlers

PACKAGE = "rq"
SETTINGS = "hiredis; SimpleWorker (no fork), results kept for an hour; many: enqueue_many, 500 a call"
KINDS = ("sync",)
AT_ONCE = 500

connection = redis.Redis.from_url(os.environ["BENCH_URL"])
queue: Any = Queue(connection=connection)


def noop(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


def submit(_kind: str, payload: str, count: int) -> None:
    """One by one."""
    for _ in range(count):
        queue.enqueue(noop, 1, payload, result_ttl=3600)


def submit_many(_kind: str, payload: str, count: int) -> None:
    """By its call for many."""
    for _ in range(count // AT_ONCE):
        queue.enqueue_many([Queue.prepare_data(noop, (1, payload), result_ttl=3600) for _ in range(AT_ONCE)])


def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    for _ in range(count):
        queue.enqueue(clock, time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One worker."""
    SimpleWorker([queue], connection=connection).work(logging_level="ERROR")

"""taskiq with its broker on Redis Streams."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.peers import handlers

PACKAGE = "taskiq"
SETTINGS = "taskiq-redis, RedisStreamBroker; 1 worker process, max-async-tasks 100; many: 100 kiq at a time"
KINDS = ("async", "sync")
AT_ONCE = 100
URL = os.environ["BENCH_URL"]

broker: Any = RedisStreamBroker(URL, consumer_id="0").with_result_backend(
    RedisAsyncResultBackend(URL, result_ex_time=3600)
)


@broker.task
async def noop_async(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@broker.task
def noop_sync(a: int, b: str) -> None:
    """Count, in a thread."""
    handlers.noop()


@broker.task
async def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


NOOPS = {"async": noop_async, "sync": noop_sync}


async def submit(kind: str, payload: str, count: int) -> None:
    """One by one."""
    await broker.startup()
    for _ in range(count):
        await NOOPS[kind].kiq(1, payload)


async def submit_many(kind: str, payload: str, count: int) -> None:
    """Several at a time: there is no call for many."""
    await broker.startup()
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(NOOPS[kind].kiq(1, payload) for _ in range(AT_ONCE)))


async def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    await broker.startup()
    for _ in range(count):
        await clock.kiq(time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One worker process under its command."""
    options = ["--workers", "1", "--max-async-tasks", "100", "--log-level", "ERROR"]
    os.execv(sys.executable, [sys.executable, "-m", "taskiq", "worker", "benchmarks.peers.taskiq:broker", *options])

"""streaq: asyncio, Redis Streams by priority."""

import os
import time
from collections.abc import Callable
from typing import Any

from streaq import Worker

from benchmarks.peers import handlers

PACKAGE = "streaq"
SETTINGS = "concurrency 100, silent, results kept for five minutes; many: enqueue_many, 500 a call"
KINDS = ("async", "sync")
AT_ONCE = 500

worker: Any = Worker(redis_url=os.environ["BENCH_URL"], concurrency=100)


@worker.task(silent=True)
async def noop_async(a: int, b: str) -> None:
    """Count."""
    handlers.noop()


@worker.task(silent=True)
def noop_sync(a: int, b: str) -> None:
    """Count, in a thread."""
    handlers.noop()


@worker.task(silent=True)
async def clock(sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


NOOPS = {"async": noop_async, "sync": noop_sync}


async def submit(kind: str, payload: str, count: int) -> None:
    """One by one."""
    async with worker:
        for _ in range(count):
            await NOOPS[kind].enqueue(1, payload)


async def submit_many(kind: str, payload: str, count: int) -> None:
    """By its call for many."""
    async with worker:
        for _ in range(count // AT_ONCE):
            await worker.enqueue_many([NOOPS[kind].enqueue(1, payload) for _ in range(AT_ONCE)])


async def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    async with worker:
        for _ in range(count):
            await clock.enqueue(time.time_ns())
            wait()


def work(_kind: str) -> None:
    """One worker."""
    worker.run_sync()

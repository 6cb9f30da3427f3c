"""SAQ: asyncio, lists and a sorted set, woken by a blocking move."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from saq import Queue, Worker

from benchmarks.peers import handlers

PACKAGE = "saq"
SETTINGS = "hiredis; concurrency 100, results kept for ten minutes; many: 100 enqueue at a time"
KINDS = ("async", "sync")
AT_ONCE = 100


async def noop_async(_context: Any, *, a: int, b: str) -> None:
    """Count."""
    handlers.noop()


def noop_sync(_context: Any, *, a: int, b: str) -> None:
    """Count, in a thread."""
    handlers.noop()


async def clock(_context: Any, *, sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


def queue() -> Any:
    """A queue of the running event loop."""
    return Queue.from_url(os.environ["BENCH_URL"])


async def submit(kind: str, payload: str, count: int) -> None:
    """One by one."""
    found = queue()
    for _ in range(count):
        await found.enqueue(f"noop_{kind}", a=1, b=payload)


async def submit_many(kind: str, payload: str, count: int) -> None:
    """Several at a time: there is no call for many that does not wait for results."""
    found = queue()
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(found.enqueue(f"noop_{kind}", a=1, b=payload) for _ in range(AT_ONCE)))


async def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    found = queue()
    for _ in range(count):
        await found.enqueue("clock", sent_ns=time.time_ns())
        wait()


async def work(_kind: str) -> None:
    """One worker."""
    await Worker(queue(), functions=[noop_async, noop_sync, clock], concurrency=100).start()

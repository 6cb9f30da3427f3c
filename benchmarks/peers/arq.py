"""arq: asyncio, one sorted set, polled."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from arq import Worker, create_pool
from arq.connections import RedisSettings

from benchmarks.peers import handlers

PACKAGE = "arq"
SETTINGS = "hiredis; max_jobs 100, poll_delay 10 ms, results kept for an hour; many: 100 enqueue_job at a time"
KINDS = ("async",)
REDIS = RedisSettings.from_dsn(os.environ["BENCH_URL"])
AT_ONCE = 100


async def noop(_context: dict[str, Any], a: int, b: str) -> None:
    """Count."""
    handlers.noop()


async def clock(_context: dict[str, Any], sent_ns: int) -> None:
    """Note the delay."""
    handlers.clock(sent_ns)


async def submit(_kind: str, payload: str, count: int) -> None:
    """One by one."""
    pool = await create_pool(REDIS)
    for _ in range(count):
        await pool.enqueue_job("noop", 1, payload)


async def submit_many(_kind: str, payload: str, count: int) -> None:
    """Several at a time: there is no call for many."""
    pool = await create_pool(REDIS)
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(pool.enqueue_job("noop", 1, payload) for _ in range(AT_ONCE)))


async def submit_clock(count: int, wait: Callable[[], None]) -> None:
    """Each when the one before has started."""
    pool = await create_pool(REDIS)
    for _ in range(count):
        await pool.enqueue_job("clock", time.time_ns())
        wait()


def work(_kind: str) -> None:
    """One worker."""
    Worker([noop, clock], redis_settings=REDIS, max_jobs=100, poll_delay=0.01, keep_result=3600).run()

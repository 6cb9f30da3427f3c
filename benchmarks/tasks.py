"""The handlers that the benchmarks run: they do nothing, so that only dtq is measured."""

import asyncio
import time

from dtq_engine import Dtq

app = Dtq()


@app.task("bench.async")
async def noop_async(a: int, b: str) -> None:
    """Nothing, on the event loop."""


@app.task("bench.sync")
def noop_sync(a: int, b: str) -> None:
    """Nothing, in a thread."""


@app.task("bench.sleep")
async def sleep_async(a: int, b: str) -> None:
    """Wait for 10 ms, as for another server."""
    await asyncio.sleep(0.01)


@app.task("bench.dies", max_attempts=1)
async def dies(a: int, b: str) -> None:
    """Fail for good."""
    raise ValueError("meant to fail")


@app.task("bench.clock")
async def clock() -> int:
    """When the handler was entered, in nanoseconds since the epoch."""
    return time.time_ns()

"""The handlers that the benchmarks run: they do nothing, so that only dtq is measured."""

import time

from dtq_engine import Dtq

app = Dtq()


@app.task("bench.async")
async def noop_async(a: int, b: str) -> None:
    """Nothing, on the event loop."""


@app.task("bench.sync")
def noop_sync(a: int, b: str) -> None:
    """Nothing, in a thread."""


@app.task("bench.clock")
async def clock() -> int:
    """When the handler was entered, in nanoseconds since the epoch."""
    return time.time_ns()

"""dtq on an embedded Valkey, everything on that is on in production: `make bench`, about three minutes.

Records, history, events, counters, indexes and results are all kept. Beside each rate stands what a bare loop of Lua
scripts that only move ids did in the same run (`benchmarks/limit.py`), because machines are shared and noisy.
"""

from benchmarks import durability, run, waiting
from benchmarks.drain import drain, two_workers
from benchmarks.submit import submit

PARTS = {
    "submit": submit,
    "drain": drain,
    "two": two_workers,
    "start": waiting.start,
    "idle": waiting.idle,
    "memory": waiting.memory,
    "durability": durability.durability,
}

if __name__ == "__main__":
    run.main("bench", __doc__, PARTS, tasks=20_000)

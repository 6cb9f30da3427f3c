"""A million due tasks, and what they do to the leader: `python -m benchmarks.due`, some minutes and 600 MB.

A queue that nobody serves is filled with tasks that are due; then a worker of another queue starts, leads, and
promotes them all. Printed are the rate, the shortest time that was left of the leader's lock, and how late a
delayed task of the worker's own queue started meanwhile. The exit code is 1 if the lock was ever lost.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import worker
from benchmarks.tasks import app, clock
from dtq_engine import NewTask, Settings
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.ids import new_id
from dtq_engine.worker.scheduler import LOCK_MS

QUEUE = "backlog"
BULK = 10_000
MOST_S = 600.0


def main() -> None:
    """Fill, promote, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="how many tasks are due (default 1000000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedValkey(Path(folder), appendonly=False) as server:
        app.configure(Settings(redis_url=server.url, max_queue_depth=0))
        before = time.monotonic()
        for count in bulks(options.tasks):
            app.submit_many(NewTask(id=new_id(), type="bench.async", queue=QUEUE, delay_ms=1) for _ in range(count))
        print(f"{options.tasks} tasks submitted in {time.monotonic() - before:.1f} s")
        with worker(server.url, concurrency=10):
            sys.exit(0 if promote(options.tasks) else 1)


def bulks(total: int) -> Iterator[int]:
    """Cut `total` into parts."""
    while total > 0:
        yield min(BULK, total)
        total -= BULK


def promote(count: int) -> bool:
    """Watch the leader until all wait in the stream; whether its lock held throughout."""
    lock, client = app.store.keys.leader(), app.connection.client
    started, shortest, lateness, holders = time.monotonic(), LOCK_MS, 0.0, set[bytes]()
    while (left := app.store.inspect.queue(QUEUE).delayed) and time.monotonic() - started < MOST_S:
        before = time.monotonic()
        clock.options(delay=0.5).submit().result(timeout=60)
        lateness = max(lateness, time.monotonic() - before - 0.5)
        shortest = min(shortest, client.pttl(lock))
        holders.add(client.get(lock))
    seconds = time.monotonic() - started
    print(f"promoted in {seconds:.1f} s ({(count - left) / seconds:.0f} tasks/s), {left} left")
    print(f"least left of the lock {shortest} of {LOCK_MS} ms, holders {len(holders)}")
    print(f"a delayed task of another queue was done up to {lateness:.3f} s late")
    return left == 0 and shortest > 0 and len(holders) == 1


if __name__ == "__main__":
    main()

"""What many tasks leave behind in Redis, once those that are kept for a while have had their time."""

import time

from benchmarks import stage
from benchmarks.figures import Figure
from benchmarks.run import Plan
from benchmarks.tasks import app, noop_async

FEW = 10_000
FULL = 10_000_000
PART = 100_000
MOST_WAITING = 200_000
MOST_S = 240.0
NEAR = 1.05


def back(plan: Plan) -> tuple[Figure, ...]:
    """The memory after a few tasks, while many more have just run, and when it has come back."""
    many = FULL if plan.full else plan.tasks // 5
    with stage.server() as server:
        stage.attach(server.url)
        with stage.worker(server.url):
            run_through(FEW)
            few = settled()
            run_through(many)
            ended, just_after = time.monotonic(), stage.server_memory_kib()
            while stage.server_memory_kib() > few * NEAR and time.monotonic() - ended < MOST_S:
                time.sleep(1)
            seconds, later = time.monotonic() - ended, stage.server_memory_kib()
        app.close()
    return (
        Figure(f"memory after {FEW:,} tasks", "KiB", (few,)),
        Figure(f"memory just after {many:,} more", "KiB", (just_after,), (few,)),
        Figure("memory when it was back", "KiB", (later,), (few,)),
        Figure("time until then", "s", (seconds,)),
    )


def run_through(count: int) -> None:
    """Run so many tasks, of which never more than some wait."""
    before = stage.succeeded(noop_async.name)
    for submitted in range(0, count, PART):
        wait_for(before + submitted - MOST_WAITING)
        stage.fill(noop_async.name, min(PART, count - submitted))
    wait_for(before + count)


def wait_for(goal: int) -> None:
    """Until so many tasks have succeeded."""
    stage.until(lambda: stage.succeeded(noop_async.name) >= goal)


def settled() -> float:
    """The memory once it has not changed by more than a hundredth for a second."""
    before = stage.server_memory_kib()
    while True:
        time.sleep(1)
        now = stage.server_memory_kib()
        if abs(now - before) <= before / 100:
            return now
        before = now

"""What the leader and the reapers do when there is much of it: due tasks, and leases that have expired."""

import time

from benchmarks import stage
from benchmarks.figures import Figure
from benchmarks.run import Plan
from benchmarks.tasks import app, clock, noop_async
from dtq_engine import new_id
from dtq_engine.worker.scheduler import LOCK_MS

BACKLOG = "backlog"
LOST = 10_000
LEASE_S = 2.0
LEASES = {"visibility_timeout_s": LEASE_S, "heartbeat_interval_s": LEASE_S / 5}


def promotion(plan: Plan) -> tuple[Figure, ...]:
    """Many due tasks of a queue that nobody serves: how fast they are made available, and whether the leader holds."""
    count = plan.tasks // 4
    with stage.server() as server:
        stage.attach(server.url)
        stage.fill(noop_async.name, count, queue=BACKLOG, delay_ms=1)
        lock, client = app.store.keys.leader(), app.connection.client
        shortest, latest, holders = LOCK_MS, 0.0, set[bytes]()
        with stage.worker(server.url, concurrency=10):
            # What was promoted until the worker was seen to be ready does not count.
            began, left = time.monotonic(), app.store.inspect.queue(BACKLOG).delayed
            while app.store.inspect.queue(BACKLOG).delayed:
                before = time.monotonic()
                clock.options(delay=0.5).submit().result(timeout=60)
                latest = max(latest, time.monotonic() - before - 0.5)
                shortest = min(shortest, client.pttl(lock))
                holders.add(client.get(lock))
            seconds = time.monotonic() - began
        app.close()
    if left < count // 2:
        raise RuntimeError(f"of {count} tasks only {left} were left when it began: take more of them")
    if len(holders) > 1 or shortest <= 0:
        raise RuntimeError(f"the leader's lock was lost: {len(holders)} held it, {shortest} ms were left at least")
    return (
        Figure("promotion", "tasks/s", (left / seconds,)),
        Figure("least that was left of the leader's lock", f"ms of {LOCK_MS}", (shortest,)),
        Figure("most that a delayed task of another queue was late", "s", (latest,)),
    )


def reclaim(plan: Plan) -> tuple[Figure, ...]:
    """Tasks of a worker that is gone: from the first that another takes over to the last that is decided."""
    count = min(LOST, plan.tasks)
    runs: list[float] = []
    for _ in range(plan.runs):
        with stage.server() as server:
            stage.attach(server.url, **LEASES)
            lose(count)
            with stage.worker(server.url, concurrency=10, settings=LEASES):
                stage.until(lambda: running() < count, 0.002)
                began = time.monotonic()
                stage.until(lambda: running() == 0, 0.01)
                runs.append(time.monotonic() - began)
            app.close()
    return (Figure(f"{count:,} expired leases", "s", tuple(runs)),)


def lose(count: int) -> None:
    """Claim so many tasks as a worker that then is not heard of again."""
    store = app.store
    digest = store.workers.announce(["default"], [noop_async.name])
    stage.fill(noop_async.name, count)
    while store.leases.claim("default", worker="lost", token=new_id(), limit=100, types_digest=digest).claims:
        pass


def running() -> int:
    """How many executions there are by the records of the queue."""
    return app.store.inspect.queue("default").running

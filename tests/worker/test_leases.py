"""Leases: who keeps them, who loses them, and what becomes of the tasks of a worker that is gone."""

import asyncio
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq, RedisUnavailable, Settings, Store, Task, TaskContext, TaskStatus
from dtq_engine.model import Returned
from dtq_engine.worker import Worker
from dtq_engine.worker.outage import Outage
from tests.support.waiting import wait_until
from tests.worker.processes import WorkerProcess

Start = Callable[..., Worker]
Spawn = Callable[..., WorkerProcess]
Ended = Callable[..., Task]

SLEEPY = """
@app.task("sleepy")
def sleepy(seconds: float) -> str:
    Path("started").touch()
    time.sleep(seconds)
    return "slept"
"""


@pytest.mark.drains
def test_the_task_of_a_killed_worker_comes_back_with_its_history(
    app: Dtq, start: Start, spawn: Spawn, ended: Ended, tmp_path: Any
) -> None:
    @app.task("sleepy")
    def sleepy(ctx: TaskContext, seconds: float) -> int:
        return ctx.attempt

    process = spawn(SLEEPY, worker_id="doomed")
    handle = sleepy.submit(60)
    wait_until((tmp_path / "started").exists)
    process.kill()
    start()
    assert handle.result(timeout=15) == 2
    task = ended(handle)
    assert [(error.type, error.attempt, error.worker) for error in task.errors] == [("LeaseExpired", 1, "doomed")]
    assert task.lease_expiries == 1


@pytest.mark.drains
def test_a_healthy_task_that_runs_three_times_its_lease_runs_once(app: Dtq, start: Start, ended: Ended) -> None:
    runs: list[str] = []

    @app.task("long")
    def long() -> None:
        runs.append("sync")
        time.sleep(3)

    @app.task("long.async")
    async def long_async() -> None:
        runs.append("async")
        time.sleep(3)  # blocks the event loop; heartbeats go on all the same

    handles = [long.submit(), long_async.submit()]
    for _ in range(2):
        start(visibility_timeout_s=1, heartbeat_interval_s=0.2)
    tasks = [ended(handle) for handle in handles]
    assert [(task.status, task.attempt) for task in tasks] == [(TaskStatus.SUCCEEDED, 1)] * 2
    assert sorted(runs) == ["async", "sync"]


@pytest.mark.drains
def test_a_busy_handler_does_not_keep_heartbeats_from_the_list_of_workers(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("spin")
    def spin() -> None:
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            pass

    handle = spin.submit()
    worker = start(visibility_timeout_s=1.6, heartbeat_interval_s=0.4)
    seen: list[int] = []
    while not handle.status().is_final:
        (info,) = app.store.workers.list()
        seen.append(info.seen_ms)
        time.sleep(0.05)
    assert ended(handle).attempt == 1
    assert max(b - a for a, b in itertools.pairwise(seen)) < 1600
    assert (info.id, info.in_flight, info.queues, info.types) == (worker.id, 1, ("default",), ("spin",))


@pytest.mark.drains
def test_an_execution_whose_lease_was_taken_is_stopped_and_its_failure_does_not_count(
    app: Dtq, start: Start, ended: Ended, log: Any, clock: Any
) -> None:
    runs: list[int] = []
    gave_way = threading.Event()

    @app.task("stolen")
    async def stolen(ctx: TaskContext) -> int:
        runs.append(ctx.attempt)
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(30)
            finally:
                gave_way.set()
        return ctx.attempt

    worker = start()
    wait_until(lambda: worker.parts.outage.over)
    handle = stolen.submit()
    wait_until(lambda: runs)
    clock.advance(3)  # older than its lease, before its next heartbeat
    worker.parts.reaper.step()
    if not gave_way.wait(2):
        pytest.skip("a heartbeat came before the reaper")
    assert handle.result(timeout=10) == 2
    assert [error.type for error in ended(handle).errors] == ["LeaseExpired"]
    assert "lost its lease" in log.text


@pytest.mark.drains
def test_a_retry_callback_is_asked_about_an_expired_lease(
    app: Dtq, quick: Settings, store: Store, clock: Any, ended: Ended
) -> None:
    asked: list[tuple[str, int]] = []

    def callback(error: BaseException, attempt: int) -> float | None:
        asked.append((type(error).__name__, attempt))
        return None

    @app.task("mail", retry=callback)
    def mail() -> None: ...

    handle = mail.submit()
    digest = store.workers.announce(["default"], ["mail"])
    store.leases.claim("default", worker="gone", token="x" * 22, limit=1, types_digest=digest)
    clock.advance(40)
    worker = Worker(app, quick)
    wait_until(lambda: worker.parts.reaper.step() or handle.status().is_final)
    assert ended(handle).reason == "permanent"
    assert asked == [("ClaimLost", 1)]
    worker.parts.connection.close()


@pytest.mark.drains
def test_the_leader_reaps_queues_that_no_living_worker_serves(app: Dtq, start: Start, store: Store, clock: Any) -> None:
    @app.task("mail")
    def mail() -> None: ...

    handle = mail.options(queue="orphaned", max_attempts=1).submit()
    digest = store.workers.announce(["orphaned"], ["mail"])
    store.leases.claim("orphaned", worker="gone", token="x" * 22, limit=1, types_digest=digest)
    start()
    clock.advance(40)
    wait_until(lambda: handle.status() is TaskStatus.DEAD_LETTERED)


@pytest.mark.drains
def test_an_outcome_that_comes_too_late_is_refused_and_said_once(
    app: Dtq, quick: Settings, store: Store, clock: Any, log: Any
) -> None:
    @app.task("mail", max_attempts=1)
    def mail() -> None: ...

    handle = mail.submit()
    digest = store.workers.announce(["default"], ["mail"])
    (claim,) = store.leases.claim("default", worker="w1", token="x" * 22, limit=1, types_digest=digest).claims
    clock.advance(40)
    worker = Worker(app, quick)
    wait_until(lambda: worker.parts.reaper.step() or handle.status().is_final)
    worker.parts.inflight.ended.put((claim, Returned(None)))
    worker.parts.finalizer.step()
    assert handle.status() is TaskStatus.DEAD_LETTERED
    assert log.text.count("does not count") == 1
    worker.parts.connection.close()


@pytest.mark.keeps_keys
def test_a_damaged_queue_does_not_keep_the_outcomes_of_others_back(
    app: Dtq, quick: Settings, store: Store, client: Any, log: Any
) -> None:
    @app.task("mail")
    def mail() -> None: ...

    handles = [mail.options(queue=queue).submit() for queue in ("broken", "sound")]
    digest = store.workers.announce(["broken", "sound"], ["mail"])
    worker = Worker(app, quick)
    for handle in handles:
        reply = store.leases.claim(handle.queue, worker="w1", token="x" * 22, limit=1, types_digest=digest)
        worker.parts.inflight.ended.put((reply.claims[0], Returned(None)))
    client.set(store.keys.index("broken", TaskStatus.SUCCEEDED), "oops")
    worker.parts.finalizer.step()
    assert [each.status() for each in handles] == [TaskStatus.RUNNING, TaskStatus.SUCCEEDED]
    assert log.text.count("ends of tasks of the queue broken cannot be recorded, and are held until they can be") == 1
    assert f"the key {store.keys.index('broken', TaskStatus.SUCCEEDED)} is a string, not a zset" in log.text
    worker.parts.connection.close()


@pytest.mark.keeps_keys
def test_a_damaged_queue_does_not_keep_the_leases_of_others_from_being_renewed(
    app: Dtq, start: Start, store: Store, client: Any, log: Any, gate: threading.Event
) -> None:
    started: list[str] = []

    @app.task("hold")
    def hold(name: str) -> None:
        started.append(name)
        gate.wait(20)

    handles = [hold.options(queue=queue, priority=3).submit(queue) for queue in ("broken", "sound")]
    handles.append(hold.options(queue="broken", priority=4).submit("sound band"))
    worker = start(worker_queues=("broken", "sound"))
    wait_until(lambda: len(started) == 3)
    client.set(store.keys.stream("broken", 3), "oops")
    worker.parts.heartbeat.step()
    ages = {
        key: client.xpending_range(key, "workers", "-", "+", 1)[0]["time_since_delivered"]
        for key in (store.keys.stream("sound", 3), store.keys.stream("broken", 4))
    }
    assert max(ages.values()) < 500, ages
    assert "cannot renew leases of the queue broken, priority 3: The key " in log.text
    before = store.workers.list()[0].seen_ms
    time.sleep(0.01)
    worker.parts.heartbeat.step()
    assert store.workers.list()[0].seen_ms > before
    gate.set()
    wait_until(lambda: all(each.status().is_final for each in handles[1:]))


@pytest.mark.keeps_keys
def test_a_damaged_queue_does_not_keep_the_types_from_others(
    app: Dtq, start: Start, store: Store, client: Any, log: Any
) -> None:
    @app.task("mail")
    def mail() -> str:
        return "sent"

    client.set(store.keys.blocked("broken"), "oops")
    start(worker_queues=("broken", "sound"))
    assert mail.options(queue="sound").submit().result(timeout=5) == "sent"
    assert 1 <= log.text.count("cannot announce the task types to the queue broken") < 10


@pytest.mark.keeps_keys
def test_a_queue_that_cannot_be_claimed_from_does_not_hold_up_those_after_it(
    app: Dtq, start: Start, store: Store, client: Any, log: Any
) -> None:
    @app.task("mail")
    def mail() -> str:
        return "sent"

    worker = start(worker_queues=("broken", "sound"))
    client.set(store.keys.types("broken", worker.parts.types.digest), "oops")
    client.lpush(store.keys.wake("broken"), 1)
    wait_until(lambda: "cannot claim from the queue broken" in log.text)
    for _ in range(2):
        assert mail.options(queue="sound").submit().result(timeout=5) == "sent"
    assert log.text.count("queue broken") < 10


def test_a_late_exchange_ends_the_steady_contact() -> None:
    now = 100.0
    outage = Outage(1, clock=lambda: now)

    def fail_late() -> None:
        nonlocal now
        now += 0.26
        raise RedisUnavailable("away")

    now += 7
    with outage.exchange():
        now += 0.25
    assert outage.steady_ms == 17_250  # a newcomer is believed 10 s
    with pytest.raises(RedisUnavailable), outage.exchange():
        fail_late()
    assert outage.steady_ms == 0
    now += 5
    outage.began(RedisUnavailable("away"))
    assert outage.steady_ms == 0


def test_contact_is_not_steady_while_a_late_exchange_is_still_under_way() -> None:
    now = 100.0
    outage = Outage(1, clock=lambda: now)
    with outage.exchange():
        now += 0.2
        with outage.exchange():  # sent while the first one waits, as a reaper's beside a heartbeat
            assert outage.steady_ms == 10_200
            now += 0.1
            assert outage.steady_ms == 0
    now += 3
    assert outage.steady_ms == 3000


def test_after_an_outage_nothing_is_reaped_for_one_lease() -> None:
    now = 100.0
    outage = Outage(30, clock=lambda: now)
    outage.saw_server("a", 1000)
    assert outage.over
    outage.began(RedisUnavailable("away"))
    now += 29
    assert not outage.over
    now += 2
    assert outage.over


@pytest.mark.parametrize(("run_id", "uptime_s"), [("b", 1000.0), ("a", 29.0)])
def test_after_a_restart_or_failover_nothing_is_reaped_for_one_lease(run_id: str, uptime_s: float) -> None:
    now = 100.0
    outage = Outage(30, clock=lambda: now)
    outage.saw_server("a", 1000)
    outage.saw_server(run_id, uptime_s)
    assert not outage.over
    now += 31
    assert outage.over


def test_an_outage_is_said_once_and_so_is_its_end(log: Any) -> None:
    outage = Outage(1)
    for _ in range(3):
        outage.began(RedisUnavailable("away"))
    for _ in range(3):
        outage.ended()
    assert [record.levelname for record in log.records] == ["WARNING", "WARNING"]


@pytest.mark.keeps_keys
def test_no_task_starts_twice_when_redis_is_away_for_longer_than_a_lease(
    make_server: Callable[..., Any], settings: Settings, tmp_path: Any
) -> None:
    server = make_server()
    own = replace(settings, redis_url=server.url, visibility_timeout_s=1, heartbeat_interval_s=0.2, drain_timeout_s=1)
    app = Dtq(own)
    runs: list[int] = []

    @app.task("long")
    def long() -> str:
        runs.append(1)
        time.sleep(4)
        return "done"

    handle = long.submit()
    workers = [Worker(app, own) for _ in range(2)]
    try:
        for worker in workers:
            worker.start()
        wait_until(lambda: runs)
        wait_until(lambda: app.store.inspect.queue("default").running == 1)
        time.sleep(1.1)  # the append-only file is written each second
        server.stop()
        time.sleep(1.5)
        server.start()
        wait_until(lambda: status(app, handle) is TaskStatus.SUCCEEDED, 15)
        assert runs == [1]
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(10)


def status(app: Dtq, handle: Any) -> TaskStatus | None:
    try:
        return app.store.inspect.get(handle.id, queue="default").status
    except RedisUnavailable:
        return None


@pytest.mark.keeps_keys
def test_an_outcome_is_kept_while_redis_is_stopped_and_recorded_afterwards(
    make_server: Callable[..., Any], settings: Settings
) -> None:
    server = make_server()
    own = replace(settings, redis_url=server.url, drain_timeout_s=1)
    app = Dtq(own)
    started, go = threading.Event(), threading.Event()

    @app.task("hold")
    def hold() -> str:
        started.set()
        go.wait(20)
        return "kept"

    handle = hold.submit()
    worker = Worker(app, own)
    worker.start()
    try:
        assert started.wait(5)
        os.kill(server.pid, signal.SIGSTOP)
        go.set()
        time.sleep(2.5)
        os.kill(server.pid, signal.SIGCONT)
        wait_until(lambda: status(app, handle) is TaskStatus.SUCCEEDED, 10)
    finally:
        os.kill(server.pid, signal.SIGCONT)
        worker.stop()
        worker.join(10)


@pytest.mark.drains
@pytest.mark.parametrize("set_ms", [3_600_000, -3_600_000, 48 * 3_600_000])
def test_a_clock_that_is_set_costs_no_healthy_worker_a_task(
    app: Dtq, start: Start, ended: Ended, gate: threading.Event, log: Any, client: Any, set_ms: int
) -> None:
    runs: list[str] = []

    @app.task("sync", timeout=60)
    def sync() -> None:
        runs.append("sync")
        gate.wait()

    @app.task("async", timeout=60)
    async def not_sync() -> None:
        runs.append("async")
        while not gate.is_set():
            await asyncio.sleep(0.02)

    workers = [start(), start()]
    handles = [sync.submit(), not_sync.submit()]
    wait_until(lambda: len(runs) == 2)
    client.set(app.store.keys.clock("default"), set_ms)
    for worker in workers:
        worker.parts.heartbeat.step()
        worker.parts.reaper.step()
    gate.set()
    assert [(task.status, task.attempt) for task in map(ended, handles)] == [(TaskStatus.SUCCEEDED, 1)] * 2
    assert sorted(runs) == ["async", "sync"]
    assert "lost its lease" not in log.text
    client.delete(app.store.keys.clock("default"))

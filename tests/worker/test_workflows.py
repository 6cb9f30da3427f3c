"""Workflows under real workers: over several queues, with failures, cancels, and workers that are killed."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dtq_engine import Dtq, Settings, TaskStatus, chain, group
from dtq_engine.handle import Handle
from tests.support.waiting import wait_until
from tests.worker.processes import Crew

JOBS = """
@app.task("add", retry_base_delay=0, retry_jitter=0)
def add(ctx: TaskContext, a: int, b: int = 0) -> int:
    time.sleep(0.02)
    if (a + b) % 7 == 3 and ctx.attempt == 1:
        raise ValueError("once")
    return a + b

@app.task("fail", max_attempts=1)
def fail(value: int) -> int:
    raise ValueError("for good")

@app.task("total")
def total(values: list[int]) -> int:
    return sum(values)
"""

pytestmark = pytest.mark.drains


@pytest.fixture
def quick(quick: Settings) -> Settings:
    """Leases of 0.6 s, two queues."""
    return replace(quick, visibility_timeout_s=0.6, heartbeat_interval_s=0.15, worker_queues=("default", "far"))


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes."""
    with Crew(tmp_path, JOBS, quick) as crew:
        yield crew


def flow(app: Dtq, number: int, *, fails: bool):
    """Ten tasks over two queues: a first one, eight side by side, and their sum."""
    near, far = app.named("add"), app.named("add").options(queue="far")
    members = [(near if at % 2 else far).options(id=f"f{number}-{at}").s(b=at) for at in range(7)]
    last = app.named("fail" if fails else "add").options(id=f"f{number}-7").s(**({} if fails else {"b": 7}))
    first = near.options(id=f"f{number}-first").s(a=number)
    return chain(first, group(*members, last), app.named("total").options(id=f"f{number}-sum", queue="far").s())


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_hundred_tasks_over_two_queues_settle_though_a_worker_is_killed_each_second(crew, quick):
    app = Dtq(quick)
    flows = [flow(app, number, fails=number % 5 == 4).submit() for number in range(20)]
    app.handle("f3-sum").cancel()
    app.handle("f8-first").cancel()
    everything = [handle for each in flows for handle in each.tasks]
    ends_at, workers = time.monotonic() + 180, [crew.start(ready=False) for _ in range(4)]
    killed = 0
    while time.monotonic() < ends_at and not all(handle.status().is_final for handle in everything):
        time.sleep(1.0)
        if victim := next((worker for worker in workers if "is ready" in worker.log), None):
            victim.kill()
            killed += 1
            workers.remove(victim)
            workers.append(crew.start(ready=False))
    assert killed > 0
    assert all(handle.status().is_final for handle in everything), _waiting(everything)
    for number, each in enumerate(flows):
        if number in {3, 8} or number % 5 == 4:
            continue
        assert each.result(1) == sum(number + at for at in range(8)), number
    for number in range(4, 20, 5):
        assert app.handle(f"f{number}-7").status() == "dead_lettered"
        assert app.handle(f"f{number}-sum").info().reason == f"parent_failed:f{number}-7"
    assert {app.handle(f"f8-{each}").status().value for each in (*range(8), "sum")} == {"cancelled"}
    ended = _ended(app)
    assert {task_id: number for task_id, number in ended.items() if number != 1} == {}
    assert len(ended) == len(everything) == 200
    app.close()


def _waiting(handles: list[Handle[object]]) -> dict[str, TaskStatus]:
    return {handle.id: handle.status() for handle in handles if not handle.status().is_final}


def _ended(app: Dtq) -> Counter[str]:
    """How often each task ended, by the event logs."""
    ends = {"TASK_SUCCEEDED", "TASK_FAILED", "TASK_DEAD_LETTERED", "TASK_CANCELLED", "TASK_EXPIRED"}
    return Counter(
        line.split(b" ")[1].decode()
        for queue in ("default", "far")
        for _, fields in app.connection.call("XRANGE", app.store.keys.events(queue), "-", "+")
        for line in fields[3].split(b"\n")
        if line.split(b" ")[0].decode() in ends
    )


def test_a_child_in_another_queue_starts_within_moments(crew, quick):
    app = Dtq(quick)
    crew.start()
    app.named("add").submit(a=1).result(10)
    began = time.monotonic()
    handle = chain(
        app.named("add").s(a=1), app.named("add").options(queue="far").s(b=1), app.named("add").s(b=1)
    ).submit()
    assert handle.result(10) == 3
    took_s = time.monotonic() - began
    assert took_s < 2.5, f"two changes of queue took {took_s:.2f} s: a leader that is not woken looks every 3 s"
    app.close()


@pytest.mark.parametrize("point", ["arrived", "relayed"])
def test_a_leader_that_dies_while_it_relays_loses_nothing_and_doubles_nothing(crew, quick, point):
    app = Dtq(quick)
    handle = chain(app.named("add").s(a=1), app.named("add").options(queue="far").s(b=1)).submit()
    dying = crew.start(crash=point)
    assert dying.wait(20) == -9
    crew.start()
    assert handle.result(20) == 2
    wait_until(lambda: app.connection.call("XLEN", app.store.keys.outbox("default")) == 0)
    assert set(_ended(app).values()) == {1}
    app.close()

"""When delayed tasks and retries start, and who sees to it."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq, Settings, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.alone

Start = Callable[..., Worker]
Ended = Callable[..., Task]


def percentile_99(values: list[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.99) - 1)]


@pytest.mark.drains
def test_delayed_tasks_start_within_a_tenth_of_a_second_of_their_time(app: Dtq, start: Start) -> None:
    late: list[float] = []

    @app.task("note")
    async def note(due: float) -> None:
        late.append(time.time() - due)

    start()
    delays = [0.05 + number * 0.013 for number in range(100)]
    for delay in delays:
        note.options(delay=delay).submit(time.time() + delay)
    wait_until(lambda: len(late) == len(delays), 10)
    assert min(late) > -0.01
    assert percentile_99(late) < 0.1


@pytest.mark.drains
def test_retries_start_within_a_tenth_of_a_second_of_their_time(app: Dtq, start: Start) -> None:
    failed: dict[int, float] = {}
    late: list[float] = []

    @app.task("flaky", retry_base_delay=0.5, retry_max_delay=0.5, retry_jitter=0)
    async def flaky(ctx: TaskContext, number: int) -> None:
        if ctx.attempt == 1:
            failed[number] = time.time()
            raise ValueError
        late.append(time.time() - failed[number] - 0.5)

    start(worker_concurrency=50)
    for number in range(50):
        flaky.submit(number)
        time.sleep(0.005)
    wait_until(lambda: len(late) == 50, 10)
    assert min(late) > -0.01
    assert percentile_99(late) < 0.1


@pytest.mark.drains
def test_a_delayed_task_in_a_queue_that_nobody_knew_starts_in_time(app: Dtq, start: Start) -> None:
    started: list[float] = []

    @app.task("note")
    def note() -> None:
        started.append(time.time())

    start(worker_queues=("default", "fresh"))
    app.connection.ping()  # the first call of all learns the map of a cluster, which is not what is measured
    due = time.time() + 0.3
    note.options(queue="fresh", delay=0.3).submit()
    wait_until(lambda: started)
    assert started[0] - due < 0.1


def test_the_leader_promotes_queues_that_it_does_not_serve(app: Dtq, start: Start) -> None:
    @app.task("note")
    def note() -> None: ...

    start()
    handle = note.options(queue="elsewhere", delay=0.1).submit()
    wait_until(lambda: handle.status() is TaskStatus.QUEUED)


def test_one_worker_leads_and_another_takes_over_at_once_when_it_stops(app: Dtq, start: Start) -> None:
    @app.task("note")
    def note() -> None: ...

    first = start()
    wait_until(lambda: first.parts.scheduler.leads)
    second = start()
    time.sleep(0.3)
    assert not second.parts.scheduler.leads
    first.stop()
    first.join(5)
    wait_until(lambda: second.parts.scheduler.leads, 2)


def test_a_scheduler_that_was_stopped_does_not_take_the_lock_again(app: Dtq, quick: Settings, client: Any) -> None:
    worker = Worker(app, quick)
    scheduler = worker.parts.scheduler
    scheduler.step()
    assert client.exists(app.store.keys.leader())
    scheduler.stop()
    scheduler.release()
    scheduler.step()
    assert not client.exists(app.store.keys.leader())
    worker.parts.connection.close()


def test_the_leader_lets_finished_tasks_of_idle_queues_go(app: Dtq, quick: Settings, store: Any, clock: Any) -> None:
    app.named("note").options(id="t1").submit()
    app.store.control.cancel("t1")
    worker = Worker(app, replace(quick))
    scheduler = worker.parts.scheduler
    clock.advance(seconds=quick.task_retention_s + 61)
    scheduler.step()
    worker.parts.housekeeper.tidy()
    assert app.store.inspect.find(["t1"]) == [None]
    scheduler.release()
    worker.parts.connection.close()

"""Workers come and go, in good order or not, and tasks do not notice; only a task that ends its workers is ended."""

import itertools
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Settings, Task, TaskStatus
from tests.support.waiting import wait_until
from tests.worker.processes import Crew

pytestmark = pytest.mark.drains

Ended = Callable[..., Task]

JOBS = """
@app.task("work")
def work(ctx: TaskContext, seconds: float) -> int:
    time.sleep(seconds)
    note(f"{ctx.task_id} {ctx.attempt}")
    return ctx.attempt

@app.task("work_async")
async def work_async(ctx: TaskContext, seconds: float) -> int:
    await asyncio.sleep(seconds)
    note(f"{ctx.task_id} {ctx.attempt}")
    return ctx.attempt

@app.task("poison")
def poison() -> None:
    note("swallowed")
    os.kill(os.getpid(), signal.SIGKILL)

@app.task("snooze")
def snooze(ctx: TaskContext) -> int:
    note("snoozed")
    if len(Path("notes").read_text().splitlines()) <= 25:
        raise Snooze(0.01)
    return ctx.attempt
"""


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes with leases of 1 s."""
    settings = replace(quick, visibility_timeout_s=1, heartbeat_interval_s=0.2)
    with Crew(tmp_path, JOBS, settings) as crew:
        yield crew


def test_ten_restarts_under_a_stream_of_tasks_lose_nothing_and_burn_nothing(app: Dtq, crew: Crew, ended: Ended) -> None:
    kinds, lengths = itertools.cycle(["work", "work_async"]), itertools.cycle([0, 0.02, 0.1, 0.3, 0.6])
    handles = []
    start = partial(crew.start, drain_timeout_s=0.2, visibility_timeout_s=5)
    process = start()
    for _ in range(10):
        handles += [app.named(next(kinds)).options(max_attempts=2).submit(seconds=next(lengths)) for _ in range(10)]
        wait_until(lambda: app.store.inspect.queue("default").running)
        process.signal(signal.SIGTERM)
        leaving, process = process, start(ready=False)
        assert leaving.wait(10) == 0
        process.wait_until_ready()
    tasks = [ended(handle) for handle in handles]
    assert {task.status for task in tasks} == {TaskStatus.SUCCEEDED}
    assert {(task.result, task.attempt, task.errors) for task in tasks} == {(b"1", 1, ())}
    assert sum(task.restarts for task in tasks) > 0, "some were given back"
    ends = Counter(
        event.task_id for event in app.store.events.tail("default", 10_000) if event.type == "TASK_SUCCEEDED"
    )
    assert ends == {handle.id: 1 for handle in handles}


def test_a_drain_that_is_killed_costs_an_attempt_and_no_task(app: Dtq, crew: Crew, ended: Ended) -> None:
    handles = [app.named("work").submit(seconds=seconds) for seconds in (2, 2, 0)]
    process = crew.start(drain_timeout_s=20)
    assert handles[2].result(timeout=5) == 1
    process.signal(signal.SIGTERM)
    wait_until(lambda: "waits up to" in process.log)
    process.kill()
    crew.start()
    tasks = [ended(handle) for handle in handles]
    assert [(task.status, task.attempt) for task in tasks] == [(TaskStatus.SUCCEEDED, attempt) for attempt in (2, 2, 1)]
    assert len(crew.notes) == 3


def test_a_task_that_kills_its_workers_is_dead_lettered_after_three(app: Dtq, crew: Crew, ended: Ended) -> None:
    start = partial(crew.start, visibility_timeout_s=0.6, heartbeat_interval_s=0.15)
    handle = app.named("poison").submit()
    for number in range(1, 4):
        process = start(ready=False)
        assert process.wait(10) == -signal.SIGKILL
        assert len(crew.notes) == number
    start()
    task = ended(handle)
    assert (task.status, task.reason, task.lease_expiries) == (TaskStatus.DEAD_LETTERED, "worker_lost", 3)
    assert [error.type for error in task.errors] == ["LeaseExpired"] * 3
    (letter,) = app.store.inspect.dead_letters(queue="default").items
    assert letter.task_id == handle.id
    assert app.named("work").submit(seconds=0).result(timeout=5) == 1
    assert crew.notes.count("swallowed") == 3


def test_a_task_that_snoozes_again_and_again_over_restarts_is_no_poison(
    app: Dtq, crew: Crew, client: Any, ended: Ended
) -> None:
    handle = app.named("snooze").submit()
    process = crew.start()
    wait_until(lambda: len(crew.notes) >= 10)
    process.kill()
    # It led the schedules, and its lock would hold up the others for what is left of its time.
    client.delete(app.store.keys.leader())
    crew.start()
    task = ended(handle)
    assert (task.status, task.restarts <= 1, task.lease_expiries <= 1) == (TaskStatus.SUCCEEDED, True, True)
    assert task.attempt <= 2
    assert len(crew.notes) == 26

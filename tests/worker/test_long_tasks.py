"""Long tasks over restarts: what was done is not done again, and what was handed over goes on elsewhere."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dtq_engine import Dtq, Handover, Settings, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until
from tests.worker.processes import Crew

Start = Callable[..., Worker]
Ended = Callable[..., Task]

STEPS = 60

JOBS = """
from dtq_engine import Handover

def work(number: int) -> int:
    note(f"step {number}")
    time.sleep(0.01)
    return number * number

@app.task("long", max_attempts=2)
def long(ctx: TaskContext) -> int:
    total = 0
    for number in range(60):
        if ctx.stopping:
            raise Handover
        total += ctx.step(f"step {number}", work, number)
        ctx.progress(number + 1, 60)
        if number in range(4, 50, 5) and ctx.once(f"wait {number}"):
            note(f"waits {number}")
            while not ctx.stopping:
                time.sleep(0.01)
    return total

@app.task("long.async", max_attempts=2)
async def long_async(ctx: TaskContext) -> int:
    total = 0
    for number in range(60):
        if ctx.stopping:
            raise Handover
        total += await ctx.step_async(f"step {number}", asyncio.to_thread, work, number)
        if number in range(4, 50, 5) and await ctx.once_async(f"wait {number}"):
            note(f"waits {number}")
            while not ctx.stopping:
                await asyncio.sleep(0.01)
    return total

@app.task("long.process", max_attempts=2, process=True)
def long_process(ctx: TaskContext) -> int:
    ctx.log(f"execution {ctx.fence}")
    return long(ctx)

@app.task("killed")
def killed(ctx: TaskContext) -> int:
    total = 0
    for number in range(20):
        total += ctx.step(f"step {number}", work, number)
        if number % 7 == 3 and ctx.once(f"die {number}"):
            os.kill(os.getpid(), signal.SIGKILL)
    return total
"""


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes."""
    with Crew(tmp_path, JOBS, replace(quick, drain_timeout_s=5)) as crew:
        yield crew


@pytest.mark.drains
@pytest.mark.timeout(240)  # eleven workers start, and as many processes
@pytest.mark.parametrize("kind", ["long", "long.async", "long.process"])
def test_a_task_handed_over_through_ten_restarts_runs_each_step_once(
    app: Dtq, crew: Crew, ended: Ended, kind: str
) -> None:
    handle = app.named(kind).submit()
    for restart in range(10):
        worker = crew.start(ready=False)
        wait_until(partial(crew.has_noted, f"waits {5 * restart + 4}"), 60)
        worker.signal(signal.SIGTERM)
        assert worker.wait(15) == 0
        task = app.store.inspect.get(handle.id)
        assert (task.status, task.attempt, task.restarts, task.errors) == (TaskStatus.QUEUED, 0, 0, ())
    crew.start()
    task = ended(handle, 30)
    assert (task.status, task.attempt, task.fence) == (TaskStatus.SUCCEEDED, 1, 11)
    assert handle.result() == sum(number * number for number in range(STEPS))
    if kind == "long.process":
        assert task.progress is not None
        assert (task.progress.done, task.progress.total) == (STEPS, STEPS)
        messages = [line.message for line in app.store.reports.logs(handle.id)]
        assert messages == [f"execution {fence}" for fence in range(1, 12)]
    assert Counter(note for note in crew.notes if note.startswith("step")) == {f"step {n}": 1 for n in range(STEPS)}


@pytest.mark.drains
def test_a_worker_that_is_killed_between_steps_costs_none(app: Dtq, crew: Crew, ended: Ended) -> None:
    handle = app.named("killed").submit()
    for _ in range(3):
        assert crew.start(ready=False, max_lease_expiries=10).wait(30) == -signal.SIGKILL
    crew.start(max_lease_expiries=10)
    assert ended(handle, 30).status is TaskStatus.SUCCEEDED
    assert Counter(note for note in crew.notes if note.startswith("step")) == {f"step {n}": 1 for n in range(20)}


def test_a_task_that_hands_over_and_saves_nothing_ends(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t", max_attempts=1)
    def idle() -> None:
        raise Handover

    handle = idle.submit()
    start()
    task = ended(handle, 20)
    assert (task.status, task.reason, task.restarts) == (TaskStatus.DEAD_LETTERED, "restart_loop", 20)
    assert task.errors[-1].type == "Handover"


def test_a_task_that_saves_as_it_hands_over_goes_on(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t", max_attempts=1)
    def busy(ctx: TaskContext) -> int:
        done: int = ctx.cursor or 0
        if done == 50:
            return done
        ctx.checkpoint(done + 1)
        raise Handover

    handle = busy.submit()
    start()
    task = ended(handle, 20)
    assert (task.status, task.result, task.restarts, task.fence) == (TaskStatus.SUCCEEDED, b"50", 0, 51)


def test_the_same_checkpoint_again_is_no_progress(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t")
    def stuck(ctx: TaskContext) -> None:
        ctx.checkpoint("here")
        raise Handover

    handle = stuck.submit()
    start()
    assert ended(handle, 20).reason == "restart_loop"


def test_a_retry_goes_on_after_the_steps_that_were_done(app: Dtq, start: Start, ended: Ended) -> None:
    runs = list[str]()

    @app.task("t")
    def flaky(ctx: TaskContext) -> list[str]:
        first: str = ctx.step("first", _run, runs, "first")
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return [first, ctx.step("second", _run, runs, "second")]

    handle = flaky.submit()
    start()
    assert ended(handle).result == b'["first","second"]'
    assert runs == ["first", "second"]


def _run(runs: list[str], name: str) -> str:
    runs.append(name)
    return name


def test_an_execution_that_lost_its_task_is_told_by_its_next_step(app: Dtq, start: Start, ended: Ended) -> None:
    errors = list[BaseException]()

    @app.task("t")
    def robbed(ctx: TaskContext) -> None:
        key = app.store.keys.task("default", ctx.task_id)
        app.connection.call("HSET", key, "L", "other 1 2 0 1")
        try:
            ctx.step("first", int)
        except Exception as error:
            errors.append(error)
            raise

    handle = robbed.submit()
    start()
    wait_until(lambda: errors, 10)
    assert type(errors[0]).__name__ == "ClaimLost"
    wait_until(lambda: app.store.inspect.get(handle.id).status is not TaskStatus.RUNNING or len(errors) > 1, 20)
    app.store.control.cancel(handle.id)

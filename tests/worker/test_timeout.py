"""Deadlines, and handlers that do not keep to them."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from dtq_engine.worker import parts as parts_module
from dtq_engine.worker import watchdog as watchdog_module
from tests.support.waiting import wait_until
from tests.worker.processes import WorkerProcess

Start = Callable[..., Worker]
Spawn = Callable[..., WorkerProcess]
Ended = Callable[..., Task]


@pytest.mark.drains
def test_an_async_handler_is_cancelled_at_its_deadline_and_tried_again(app: Dtq, start: Start, ended: Ended) -> None:
    cleaned = threading.Event()

    @app.task("slow", timeout=0.2, max_attempts=2)
    async def slow(ctx: TaskContext) -> int:
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(30)
            finally:
                cleaned.set()
        return ctx.attempt

    handle = slow.submit()
    start()
    assert handle.result(timeout=5) == 2
    assert cleaned.wait(1)
    assert [error.type for error in ended(handle).errors] == ["TimedOut"]


@pytest.mark.alone
@pytest.mark.drains
def test_an_async_handler_is_settled_at_its_deadline_whatever_it_swallows(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("stubborn", timeout=0.2, max_attempts=1)
    async def stubborn() -> str:
        for _ in range(100):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        return "late"

    handle = stubborn.submit()
    before = time.monotonic()
    worker = start()
    task = ended(handle)
    assert (task.status, task.errors[0].type) == (TaskStatus.DEAD_LETTERED, "TimedOut")
    assert time.monotonic() - before < 3
    assert worker.parts.inflight.free == worker.parts.inflight.slots


@pytest.mark.drains
def test_an_async_handler_that_blocks_the_loop_past_its_deadline_has_timed_out(
    app: Dtq, start: Start, ended: Ended
) -> None:
    @app.task("block", timeout=0.2, max_attempts=1)
    async def block() -> str:
        time.sleep(0.8)
        return "late"

    handle = block.submit()
    start()
    task = ended(handle)
    assert (task.status, task.errors[0].type) == (TaskStatus.DEAD_LETTERED, "TimedOut")


@pytest.mark.drains
def test_an_overdue_thread_keeps_its_lease_and_its_result_is_discarded(app: Dtq, start: Start, ended: Ended) -> None:
    runs: list[bool] = []

    @app.task("slow", timeout=0.3, max_attempts=1)
    def slow(ctx: TaskContext) -> str:
        time.sleep(2.5)
        runs.append(ctx.cancelled)
        return "late"

    handle = slow.submit()
    workers = [start(visibility_timeout_s=0.8, heartbeat_interval_s=0.2) for _ in range(2)]
    wait_until(lambda: sum(info.overdue for info in app.store.workers.list()) == 1)
    task = ended(handle)
    wait_until(lambda: {worker.describe().overdue for worker in workers} == {0})
    assert (task.status, task.errors[-1].type) == (TaskStatus.DEAD_LETTERED, "TimedOut")
    assert runs == [True]
    assert task.result is None


@pytest.mark.drains
def test_a_timed_out_task_asks_its_retry_callback(app: Dtq, start: Start, ended: Ended) -> None:
    asked: list[str] = []

    def callback(error: BaseException, attempt: int) -> float | None:
        asked.append(type(error).__name__)
        return None

    @app.task("slow", timeout=0.1, retry=callback)
    async def slow() -> None:
        await asyncio.sleep(30)

    @app.task("slow.thread", timeout=0.1, retry=callback)
    def slow_thread(ctx: TaskContext) -> None:
        while not ctx.cancelled:
            time.sleep(0.01)

    handles = [slow.submit(), slow_thread.submit()]
    start()
    assert {ended(each).reason for each in handles} == {"permanent"}
    assert asked == ["TimeoutError", "TimeoutError"]


def test_a_worker_whose_threads_are_stuck_exits_75_and_leaves_them_timed_out(
    app: Dtq, spawn: Spawn, ended: Ended
) -> None:
    process = spawn(
        """
@app.task("stuck")
def stuck() -> None:
    time.sleep(60)

@app.task("fine")
def fine() -> None:
    time.sleep(1.3)
""",
        worker_concurrency=3,
        drain_timeout_s=1,
    )
    stuck = [app.named("stuck").options(timeout=0.2, max_attempts=1).submit() for _ in range(2)]
    assert process.wait(10) == 75
    assert "gives up" in process.log
    for handle in stuck:
        task = ended(handle)
        assert (task.status, task.errors[0].type) == (TaskStatus.DEAD_LETTERED, "TimedOut")


@pytest.mark.drains
def test_an_execution_overdue_by_ten_times_its_timeout_ends_the_worker(
    app: Dtq, start: Start, ended: Ended, gate: threading.Event
) -> None:
    @app.task("stuck", timeout=0.2, max_attempts=1)
    def stuck() -> None:
        gate.wait(20)

    handle = stuck.submit()
    worker = start(drain_timeout_s=0.2)
    assert worker.join(10) == 75
    assert ended(handle).errors[0].type == "TimedOut"


def test_a_blocked_event_loop_is_reported_with_its_stack_and_nothing_is_claimed_meanwhile(
    app: Dtq, start: Start, ended: Ended, log: Any, monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(watchdog_module, "SILENCE_S", 0.3)

    @app.task("block")
    async def block() -> None:
        gate.wait(20)

    @app.task("quick")
    def quick() -> str:
        return "done"

    blocking = block.submit()
    worker = start()
    wait_until(lambda: not worker.parts.watchdog.lets_claim())
    assert "gate.wait" in log.text
    handle = quick.submit()
    time.sleep(0.3)
    assert handle.status() is TaskStatus.QUEUED
    gate.set()
    assert handle.result(timeout=5) == "done"
    assert ended(blocking).status is TaskStatus.SUCCEEDED
    assert log.text.count("the event loop is blocked") == 1


BLOCKED = """
@app.task("block")
async def block() -> None:
    Path("blocks").touch()
    time.sleep(1e6)

@app.task("never")
async def never() -> None:
    Path("began").touch()
"""


def test_a_worker_whose_event_loop_stays_blocked_exits_75_and_gives_back_what_never_began(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path
) -> None:
    process = spawn(BLOCKED, worker_concurrency=4, drain_timeout_s=0.5)
    blocking = app.named("block").options(timeout=0.6, max_attempts=1).submit()
    wait_until((tmp_path / "blocks").exists)
    waiting = [app.named("never").options(timeout=timeout, max_attempts=1).submit() for timeout in (0.3, 60)]
    assert process.wait(15) == 75
    assert "a handler blocks the event loop far beyond its timeout (block)" in process.log
    assert ended(blocking).errors[0].type == "TimedOut"
    assert not (tmp_path / "began").exists()
    assert [(each.status(), each.info().errors) for each in waiting] == [(TaskStatus.QUEUED, ())] * 2
    (tmp_path / "blocks").unlink()
    spawn(BLOCKED)
    assert [ended(each).status for each in waiting] == [TaskStatus.SUCCEEDED] * 2
    assert [each.info().attempt for each in waiting] == [1, 1]


@pytest.mark.drains
def test_what_was_given_back_unbegun_does_not_run_here_when_the_loop_goes_on(
    app: Dtq, start: Start, ended: Ended, gate: threading.Event
) -> None:
    runs: list[int] = []

    @app.task("block")
    async def block() -> None:
        gate.wait(20)

    @app.task("short", timeout=0.2, max_attempts=1)
    async def short(ctx: TaskContext) -> None:
        runs.append(ctx.attempt)

    blocking = block.submit()
    worker = start()
    wait_until(lambda: worker.parts.inflight.running() and worker.parts.executor.blocker() is not None)
    handle = short.submit()
    wait_until(lambda: not worker.parts.watchdog.lets_claim())
    wait_until(lambda: handle.status() is TaskStatus.QUEUED)
    gate.set()
    assert ended(blocking).status is TaskStatus.SUCCEEDED
    assert runs == []
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert runs == [1]


def test_the_alive_file_is_not_touched_while_the_event_loop_is_blocked(
    app: Dtq, start: Start, ended: Ended, monkeypatch: pytest.MonkeyPatch, gate: threading.Event, tmp_path: Path
) -> None:
    monkeypatch.setattr(parts_module, "LOOP_LIVES_S", 0.5)

    @app.task("block")
    async def block() -> None:
        gate.wait(20)

    alive = tmp_path / "alive"
    handle = block.submit()
    worker = start(alive_file=str(alive))
    wait_until(lambda: not worker.parts.is_alive())
    alive.unlink()
    time.sleep(1.3)
    assert not alive.exists()
    gate.set()
    wait_until(alive.exists)
    assert ended(handle).status is TaskStatus.SUCCEEDED


@pytest.mark.drains
def test_a_loop_that_nobodys_deadline_ends_makes_the_worker_give_up_too(
    app: Dtq, start: Start, ended: Ended, monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(watchdog_module, "SILENCE_S", 0.3)
    monkeypatch.setattr(watchdog_module, "NOBODYS_S", 0.6)

    @app.task("leave")
    async def leave() -> None:
        asyncio.get_running_loop().call_soon(gate.wait, 20)

    handle = leave.submit()
    worker = start(drain_timeout_s=0.2)
    assert worker.join(10) == 75
    assert ended(handle).status is TaskStatus.SUCCEEDED

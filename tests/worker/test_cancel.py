"""Cancelling what runs."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dtq_engine import CancelOutcome, Dtq, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from dtq_engine.worker.execution import Cause
from tests.support.waiting import wait_until

Start = Callable[..., Worker]
Ended = Callable[..., Task]

pytestmark = pytest.mark.drains


def test_a_running_async_handler_is_cancelled_within_half_a_second(app: Dtq, start: Start, ended: Ended) -> None:
    cleaned = threading.Event()
    started = threading.Event()

    @app.task("sleep")
    async def sleep() -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.set()

    handle = sleep.submit()
    worker = start()
    wait_until(lambda: worker.parts.control._subscription)
    assert started.wait(5)
    before = time.monotonic()
    assert app.store.control.cancel(handle.id) is CancelOutcome.REQUESTED
    assert cleaned.wait(5)
    assert ended(handle).status is TaskStatus.CANCELLED
    assert time.monotonic() - before < 5


def test_a_thread_handler_sees_that_it_is_cancelled(app: Dtq, start: Start, ended: Ended) -> None:
    started = threading.Event()

    @app.task("loop")
    def loop(ctx: TaskContext) -> None:
        started.set()
        while not ctx.cancelled:
            time.sleep(0.01)
        raise InterruptedError

    handle = loop.submit()
    start()
    assert started.wait(5)
    before = time.monotonic()
    handle.cancel()
    assert ended(handle).status is TaskStatus.CANCELLED
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_success_that_still_arrives_counts(app: Dtq, start: Start, ended: Ended, kind: str) -> None:
    started = threading.Event()
    if kind == "sync":

        @app.task("finish")
        def finish(ctx: TaskContext) -> str:
            started.set()
            while not ctx.cancelled:
                time.sleep(0.01)
            return "done"
    else:

        @app.task("finish")
        async def finish(ctx: TaskContext) -> str:
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return "done"
            return "never"

    handle = finish.submit()
    start()
    assert started.wait(5)
    handle.cancel()
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert handle.result(timeout=1) == "done"


def test_a_cancel_that_nobody_heard_arrives_with_the_next_heartbeat(app: Dtq, start: Start, ended: Ended) -> None:
    started = threading.Event()

    @app.task("sleep")
    async def sleep() -> None:
        started.set()
        await asyncio.sleep(30)

    handle = sleep.submit()
    worker = start()
    worker.parts.control.stop()
    worker.parts.control.join(5)
    assert started.wait(5)
    handle.cancel()
    assert ended(handle, timeout=2).status is TaskStatus.CANCELLED


def test_the_control_channel_is_joined_again_when_its_connection_drops(
    app: Dtq, start: Start, ended: Ended, client: Any
) -> None:
    started = threading.Event()

    @app.task("sleep")
    async def sleep() -> None:
        started.set()
        await asyncio.sleep(30)

    worker = start(heartbeat_interval_s=5, visibility_timeout_s=20)
    channel = app.store.keys.control_channel(worker.id)
    wait_until(lambda: client.pubsub_numsub(channel)[0][1] == 1)
    client.client_kill_filter(_type="pubsub")
    wait_until(lambda: client.pubsub_numsub(channel)[0][1] == 0)
    wait_until(lambda: client.pubsub_numsub(channel)[0][1] == 1, 5)
    handle = sleep.submit()
    assert started.wait(5)
    handle.cancel()
    assert ended(handle, timeout=1).status is TaskStatus.CANCELLED


def test_a_handler_that_is_cancelled_before_its_first_step_never_runs(app: Dtq, start: Start, ended: Ended) -> None:
    ran = threading.Event()

    @app.task("sleep")
    async def sleep() -> None:
        ran.set()

    worker = start()
    executor = worker.parts.executor
    begin = executor._begin

    def interrupted(executions: Any) -> None:
        begin(executions)
        for each in executions:
            each.interrupt(Cause.CANCEL)
            executor._cancel(each)

    executor._begin = interrupted  # type: ignore[method-assign]
    assert ended(sleep.submit()).status is TaskStatus.CANCELLED
    assert not ran.is_set()


def test_waiting_tasks_are_cancelled_at_once_with_no_worker_up(app: Dtq) -> None:
    @app.task("wait")
    def wait() -> None: ...

    for handle in (wait.submit(), wait.options(delay=60).submit()):
        handle.cancel()
        assert handle.status() is TaskStatus.CANCELLED

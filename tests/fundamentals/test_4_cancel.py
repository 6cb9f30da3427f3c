"""Chapter 4: changing one's mind."""

import asyncio
import threading

import pytest

from dtq_engine import CancelOutcome, TaskContext, TaskFailed, TaskStatus


def test_a_waiting_task_is_cancelled_at_once_even_without_a_worker(app):
    @app.task("mail")
    def mail() -> None: ...

    handle = mail.submit()
    assert handle.cancel("not needed any more") is CancelOutcome.CANCELLED
    assert handle.status() is TaskStatus.CANCELLED
    assert handle.info().reason == "not needed any more"


def test_a_running_async_handler_is_cancelled_where_it_waits(app, start_worker):
    running = threading.Event()

    @app.task("sleep")
    async def sleep() -> None:
        running.set()
        await asyncio.sleep(60)

    handle = sleep.submit()
    start_worker()
    assert running.wait(10)
    assert handle.cancel() is CancelOutcome.REQUESTED
    with pytest.raises(TaskFailed, match="cancelled"):
        handle.result(timeout=10)


def test_a_running_function_looks_at_its_context(app, start_worker):
    running = threading.Event()

    @app.task("crunch")
    def crunch(ctx: TaskContext) -> str:
        running.set()
        while not ctx.cancelled:
            threading.Event().wait(0.01)
        raise RuntimeError("gave up half-way")

    handle = crunch.submit()
    start_worker()
    assert running.wait(10)
    handle.cancel()
    with pytest.raises(TaskFailed) as failed:
        handle.result(timeout=10)
    assert failed.value.status == TaskStatus.CANCELLED


def test_a_success_that_arrives_after_the_cancel_counts_because_it_happened(app, start_worker):
    running, go_on = threading.Event(), threading.Event()

    @app.task("stubborn")
    def stubborn() -> str:
        running.set()
        go_on.wait(10)
        return "done all the same"

    handle = stubborn.submit()
    start_worker()
    assert running.wait(10)
    handle.cancel()
    go_on.set()
    assert handle.result(timeout=10) == "done all the same"


def test_a_task_that_has_ended_stays_as_it_is(app, start_worker):
    @app.task("quick")
    def quick() -> int:
        return 1

    handle = quick.submit()
    start_worker()
    assert handle.result(timeout=10) == 1
    assert handle.cancel() is CancelOutcome.FINISHED
    assert handle.result() == 1

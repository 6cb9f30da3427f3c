"""Chapter 2: when, where, how urgently and how long a task runs."""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dtq_engine import InvalidTask, TaskFailed, TaskStatus
from tests.support.waiting import wait_until


@pytest.fixture
def echo(app):
    @app.task("echo")
    def echo(text: str = "") -> str:
        return text

    return echo


def test_a_delayed_task_starts_when_its_time_has_come(echo, start_worker, clock):
    handle = echo.options(delay=60).submit("later")
    assert handle.status() is TaskStatus.PENDING
    start_worker()
    clock.advance(59)
    assert handle.status() is TaskStatus.PENDING
    clock.advance(1)
    assert handle.result(timeout=10) == "later"


def test_a_task_can_be_given_a_time_of_day(echo):
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    handle = echo.options(run_at=tomorrow).submit()
    assert handle.status() is TaskStatus.PENDING
    with pytest.raises(InvalidTask, match="use a datetime with a time zone"):
        echo.options(run_at=datetime(2026, 10, 1))  # noqa: DTZ001
    handle.cancel()


def test_urgent_tasks_come_first_and_equal_ones_in_order(app, start_worker):
    started: list[str] = []

    @app.task("note")
    def note(name: str) -> None:
        started.append(name)

    app.configure(replace(app.settings, worker_concurrency=1))
    for name, priority in [("b", 5), ("c", 5), ("d", 0), ("a", 9)]:
        note.options(priority=priority).submit(name)
    start_worker()
    wait_until(lambda: len(started) == 4)
    assert started == ["a", "b", "c", "d"]


def test_a_task_goes_to_the_queue_of_its_type_or_of_the_call(app):
    @app.task("reports.build", queue="reports")
    def build() -> None: ...

    ordinary, elsewhere = build.submit(), build.options(queue="default").submit()
    assert (ordinary.queue, elsewhere.queue) == ("reports", "default")
    ordinary.cancel()
    elsewhere.cancel()


def test_a_task_that_did_not_start_in_time_expires(echo, start_worker, clock):
    handle = echo.options(expires_in=3600).submit("stale")
    clock.advance(3601)
    start_worker()
    with pytest.raises(TaskFailed, match="ended as expired"):
        handle.result(timeout=10)


def test_an_async_handler_that_takes_too_long_is_stopped(app, start_worker):
    stopped = threading.Event()

    @app.task("sleep", timeout=0.2, max_attempts=1)
    async def sleep() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    handle = sleep.submit()
    start_worker()
    with pytest.raises(TaskFailed) as failed:
        handle.result(timeout=10)
    assert failed.value.status == TaskStatus.DEAD_LETTERED
    assert stopped.wait(5)


def test_options_can_be_kept_and_built_upon(echo):
    urgent = echo.options(priority=9, expires_in=timedelta(minutes=5))
    handle = urgent.options(timeout=10).submit()
    task = handle.info()
    assert (task.priority, task.timeout_ms) == (9, 10_000)
    handle.cancel()


def test_an_option_that_makes_no_sense_is_refused_with_a_hint(echo):
    with pytest.raises(InvalidTask, match="delay cannot be -5: use seconds from 0"):
        echo.options(delay=-5)
    with pytest.raises(InvalidTask, match="priority cannot be 10: use a whole number from 0 to 9"):
        echo.options(priority=10)

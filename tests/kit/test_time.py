"""Time that a test moves: what it does to tasks, to handlers that run, and to what is kept."""

import asyncio
import math
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dtq_engine import CancelOutcome, Handle, TaskContext, TaskNotFound, TaskStatus
from dtq_engine.testing import HandlerFailed, Kit, KitMisused


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, True, "60", None, timedelta(seconds=-1), 10**12])
def test_the_clock_goes_forward_only_and_by_a_finite_time(dtq, wrong):
    before = dtq.now()
    with pytest.raises(KitMisused, match="The clock cannot be moved so: duration cannot be"):
        dtq.advance(wrong)
    assert dtq.now() - before < timedelta(seconds=30)


def test_the_time_is_that_of_redis_and_moves_with_it(dtq):
    before = dtq.now()
    dtq.advance(timedelta(days=1))
    dtq.advance(60)
    assert timedelta(days=1, seconds=60) <= dtq.now() - before < timedelta(days=1, seconds=90)
    assert abs(before - datetime.now(UTC)) < timedelta(seconds=30)


def test_queues_that_are_new_after_a_move_have_the_same_time(dtq, dtq_app):
    @dtq_app.task("note")
    def note(ctx: TaskContext) -> str:
        return ctx.deadline.isoformat()

    dtq.advance(timedelta(days=1))
    handle = note.options(queue="new", run_at=dtq.now() + timedelta(seconds=60)).submit()
    assert dtq.run_all() == []
    dtq.advance(60)
    dtq.run_all()
    assert timedelta(seconds=290) < datetime.fromisoformat(handle.result()) - dtq.now() <= timedelta(seconds=300)


def test_inline_each_task_runs_at_its_time(dtq, dtq_app):
    seen = []

    @dtq_app.task("tick")
    def tick(name: str) -> None:
        seen.append((name, round((dtq.now() - begun).total_seconds() / 60)))
        if len(seen) < 4:
            tick.options(delay=600).submit(name)

    dtq.inline, begun = True, dtq.now()
    tick.options(delay=60).submit("a")
    tick.options(delay=120, expires_in=180).submit("b")
    dtq.advance(3600)
    assert seen == [("a", 1), ("b", 2), ("a", 11), ("b", 12), ("a", 21)]


def test_queued_the_time_passes_without_a_worker(dtq, dtq_app):
    @dtq_app.task("note")
    def note() -> None:
        raise AssertionError("nobody runs it in time")

    handle = note.options(delay=120, expires_in=180).submit()
    dtq.advance(3600)
    assert handle.status() == TaskStatus.EXPIRED
    assert dtq.run_all() == []


def test_what_is_kept_for_a_time_is_gone_after_it(dtq, dtq_app):
    @dtq_app.task("once")
    def once() -> int:
        return 7

    submitter = once.options(idempotency_key="k")
    first = submitter.submit()
    dtq.run_all()
    dtq.advance(60)
    assert submitter.submit().duplicate
    dtq.advance(timedelta(days=8))
    with pytest.raises(TaskNotFound):
        first.status()
    assert not submitter.submit().duplicate
    dtq.assert_submitted(once, times=2)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_is_late_by_the_moved_clock_has_timed_out(dtq, dtq_app, is_async):
    @dtq_app.task("sync", timeout=10, max_attempts=1)
    def sync(ctx: TaskContext) -> bool:
        dtq.advance(11)
        return ctx.cancelled

    @dtq_app.task("async", timeout=10, max_attempts=1)
    async def asynchronous() -> None:
        dtq.advance(11)
        await asyncio.sleep(30)

    (asynchronous if is_async else sync).submit()
    begun = time.monotonic()
    with pytest.raises(HandlerFailed, match=r"for good \(max_attempts\): TimedOut: .*longer than its timeout of 10 s"):
        dtq.run_all()
    assert time.monotonic() - begun < 5


def test_a_handler_that_really_blocks_is_late_too(dtq, dtq_app):
    @dtq_app.task("sync", timeout=0.2)
    def sync(ctx: TaskContext) -> None:
        while not ctx.cancelled:
            time.sleep(0.01)

    @dtq_app.task("async", timeout=0.2)
    async def asynchronous() -> None:
        await asyncio.Event().wait()

    for task in (sync, asynchronous):
        task.submit()
        with pytest.raises(HandlerFailed, match="TimedOut"):
            dtq.run_all()


def test_an_async_handler_that_swallows_its_end_is_left_behind_and_has_ended_when_the_kit_has(dtq, dtq_app):
    ended = []

    @dtq_app.task("stubborn", timeout=0.2, max_attempts=1)
    async def stubborn() -> None:
        for _ in range(5):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                continue
        ended.append("at last")

    handle = stubborn.submit()
    dtq.run_all(raise_failures=False)
    assert handle.status() == TaskStatus.DEAD_LETTERED
    assert ended == []
    dtq.__exit__(None, None, None)
    assert ended == ["at last"]


@pytest.mark.parametrize("inline", [False, True])
def test_a_handler_keeps_its_lease_while_it_moves_the_clock(dtq, dtq_app, inline):
    @dtq_app.task("slow", timeout=3600)
    def slow() -> str:
        for _ in range(5):
            dtq.advance(60)
        return "done"

    dtq.inline = inline
    handle = slow.submit()
    dtq.run_all()
    assert handle.result() == "done"
    assert handle.info().attempt == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancel_reaches_the_handler(dtq, dtq_app, is_async):
    handles: list[Handle[Any]] = []

    @dtq_app.task("sync")
    def sync(ctx: TaskContext) -> None:
        assert not ctx.cancelled
        assert handles[0].cancel() is CancelOutcome.REQUESTED
        if ctx.cancelled:
            raise TimeoutError("gave way")

    @dtq_app.task("async")
    async def asynchronous() -> None:
        handles[0].cancel()
        await asyncio.sleep(30)

    handles.append((asynchronous if is_async else sync).submit())
    dtq.run_all()
    assert handles[0].status() == TaskStatus.CANCELLED


def test_a_task_that_waits_can_be_cancelled(dtq, dtq_app):
    @dtq_app.task("never")
    def never() -> None:
        raise AssertionError("it was cancelled")

    handle = never.options(delay=60).submit()
    assert handle.cancel() is CancelOutcome.CANCELLED
    dtq.advance(60)
    assert dtq.run_all() == []


def test_a_worker_that_dies_leaves_its_tasks_to_their_leases(dtq, dtq_app):
    runs = []

    @dtq_app.task("work", max_attempts=2, retry_base_delay=0)
    def work(ctx: TaskContext) -> int:
        runs.append(ctx.attempt)
        return ctx.attempt

    handle = work.submit()
    (ran,) = dtq.run_and_crash()
    assert ran.status == handle.status() == TaskStatus.RUNNING
    dtq.advance(29)
    assert dtq.run_all() == []
    dtq.advance(2)
    assert [error.type for error in handle.info().errors] == ["LeaseExpired"]
    dtq.run_all()
    assert (handle.result(), runs) == (2, [1, 2])


def test_a_task_that_kills_each_worker_becomes_a_dead_letter(dtq, dtq_app):
    @dtq_app.task("poison", retry_base_delay=0)
    def poison() -> None:
        """Whatever it does, it is the last thing its worker does."""

    handle = poison.submit()
    for _ in range(3):
        dtq.run_and_crash()
        dtq.advance(31)
    assert (handle.status(), handle.info().reason) == (TaskStatus.DEAD_LETTERED, "worker_lost")


def test_the_retry_callback_decides_about_lost_workers(dtq, dtq_app):
    @dtq_app.task("fragile", retry=lambda error, attempt: None)
    def fragile() -> None:
        """Not to be started twice."""

    handle = fragile.submit()
    dtq.run_and_crash()
    dtq.advance(31)
    assert handle.info().reason == "permanent"


def test_other_settings_hold_for_one_test_only(dtq_app):
    @dtq_app.task("flaky")
    def flaky() -> None:
        raise OSError("no")

    before = dtq_app.settings
    for attempts in (2, 1):
        with Kit(dtq_app) as dtq:
            dtq_app.configure(replace(dtq_app.settings, max_attempts=attempts))
            handle = flaky.submit()
            assert len(dtq.run_to_end(raise_failures=False)) == attempts
            assert handle.info().retry.max_attempts == attempts
    assert dtq_app.settings is before
    with Kit(dtq_app):
        assert flaky.submit().info().retry.max_attempts == before.max_attempts

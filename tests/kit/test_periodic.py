"""Periodic tasks in a test: their ticks come as the test moves the clock, and not otherwise."""

from datetime import datetime, timedelta

import pytest

from dtq_engine import TaskContext
from dtq_engine.testing import RunawayTasks


@pytest.fixture
def ticks(dtq_app):
    """The ticks that a task of every ten minutes has run for."""
    found: list[str] = []

    @dtq_app.periodic(every=600, arguments={"word": "go"})
    @dtq_app.task("beat")
    def beat(ctx: TaskContext, word: str) -> None:
        found.append(ctx.headers["dtq-tick"] + word)

    return found


def test_advance_brings_each_tick_on_the_way(dtq, ticks):
    dtq.advance(timedelta(hours=1))
    assert [ran.type for ran in dtq.run_all()] == ["beat"] * 6
    assert ticks == sorted(set(ticks))
    assert len(ticks) == 6
    dtq.advance(599)
    dtq.advance(1)
    assert len(dtq.run_all()) == 1


def test_without_a_move_nothing_ticks_and_no_end_is_missed(dtq, ticks):
    assert dtq.run_all() == []
    assert dtq.run_to_end() == []


def test_inline_each_tick_runs_at_its_time(dtq, dtq_app):
    times: list[str] = []

    @dtq_app.periodic("0 3 * * *", tz="Europe/Berlin")
    @dtq_app.task("nightly")
    def nightly(ctx: TaskContext) -> None:
        assert dtq.now() - datetime.fromisoformat(ctx.headers["dtq-tick"]) < timedelta(seconds=30)
        times.append(ctx.headers["dtq-tick"])

    dtq.inline = True
    dtq.advance(timedelta(days=3))
    assert len(times) == 3


def test_a_task_that_fails_is_tried_again_between_ticks(dtq, dtq_app):
    attempts: list[int] = []

    @dtq_app.periodic(every=3600)
    @dtq_app.task("shaky", retry_base_delay=60)
    def shaky(ctx: TaskContext) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError

    dtq.inline, dtq.raise_failures = True, False
    dtq.advance(timedelta(hours=2))
    assert attempts[:3] == [1, 2, 1]


def test_periodic_tasks_can_be_kept_out(dtq, ticks):
    dtq.periodic = False
    dtq.advance(timedelta(days=1))
    assert dtq.run_all() == []


def test_a_pause_and_a_trigger_do_as_in_production(dtq, dtq_app, ticks):
    dtq.advance(600)
    dtq.run_all()
    dtq_app.store.periodic.pause("beat")
    dtq.advance(3600)
    assert dtq.run_all() == []
    dtq_app.store.periodic.resume("beat")
    dtq.advance(600)
    assert len(dtq.run_all()) == 1


def test_ticks_without_end_are_stopped(dtq, ticks):
    dtq.limit = 10
    with pytest.raises(RunawayTasks, match="10 times for periodic tasks have come"):
        dtq.advance(timedelta(days=1))
    dtq.clear()


def test_after_clear_they_begin_anew(dtq, ticks):
    dtq.advance(600)
    dtq.clear()
    dtq.advance(600)
    assert len(dtq.run_all()) == 1

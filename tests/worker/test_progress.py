"""What handlers say of themselves, and what becomes of it."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest

from dtq_engine import Dtq, InvalidReport, Task, TaskContext
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until

Start = Callable[..., Worker]
Ended = Callable[..., Task]

shop = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def _informed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_progress_shows_while_the_handler_runs(app: Dtq, start: Start, gate: threading.Event) -> None:
    @app.task("t")
    def count(ctx: TaskContext) -> None:
        ctx.progress(3, 10, "counting")
        gate.wait(20)

    handle = count.submit()
    start()
    progress = wait_until(lambda: app.store.inspect.get(handle.id).progress, 10)
    assert progress is not None
    assert (progress.done, progress.total, progress.note, progress.percent) == (3, 10, "counting", 30)


def test_what_was_said_last_is_there_with_the_end(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t", max_attempts=1)
    def fails(ctx: TaskContext) -> None:
        for number in range(1, 1001):
            ctx.progress(number, 1000)
        ctx.log("this is the end", level="warning")
        raise ValueError("no")

    handle = fails.submit()
    start()
    task = ended(handle)
    assert task.progress is not None
    assert task.progress.done == 1000
    (line,) = app.store.reports.logs(handle.id)
    assert (line.level, line.logger, line.message, line.attempt) == ("WARNING", "", "this is the end", 1)
    assert task.started_ms is not None
    assert 0 <= line.at_ms - task.started_ms < 5_000


def test_log_records_of_handlers_are_kept_with_their_task(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("sync")
    def sync(name: str) -> None:
        shop.info("sync %s", name)
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            shop.exception("oh")

    @app.task("coroutine")
    async def coroutine(name: str) -> None:
        shop.info("async %s", name)
        await asyncio.gather(asyncio.to_thread(shop.warning, "thread %s", name), asyncio.sleep(0))

    handles = [sync.submit("a"), sync.submit("b"), coroutine.submit("c"), coroutine.submit("d")]
    start()
    logs = []
    for handle in handles:
        ended(handle)
        logs.append([(line.level, line.logger, line.message) for line in app.store.reports.logs(handle.id)])
    for name, found in zip("ab", logs, strict=False):
        assert found[0] == ("INFO", "shop", f"sync {name}")
        assert found[1][2].startswith("oh\nTraceback")
        assert found[1][2].endswith("ZeroDivisionError: division by zero")
    for name, found in zip("cd", logs[2:], strict=True):
        assert found == [("INFO", "shop", f"async {name}"), ("WARNING", "shop", f"thread {name}")]


def test_records_below_the_level_are_not_kept_and_what_ctx_log_is_told_is(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t")
    def talk(ctx: TaskContext) -> None:
        shop.info("not this")
        shop.error("nor this, if it is off")
        ctx.log("told", level=logging.DEBUG)

    start(task_logs="OFF")
    handle = talk.submit()
    ended(handle)
    assert [line.message for line in app.store.reports.logs(handle.id)] == ["told"]


def test_a_flood_of_lines_is_bounded_and_says_how_much_is_gone(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t")
    def flood(ctx: TaskContext) -> None:
        for number in range(100_000):
            ctx.log(f"line {number}")

    start(task_log_lines=500)
    handle = flood.submit()
    ended(handle, 60)
    lines = app.store.reports.logs(handle.id)
    assert len(lines) == 500
    assert lines[-1].message == "line 99999"
    assert (lines[0].number, lines[0].missing, lines[-1].number) == (99_501, 99_500, 100_000)


@pytest.mark.parametrize(
    "wrong", [(float("nan"),), (-1,), (1, -1), ("1",), (1, 2, 3), (10**16,), (None,), (float("inf"),)]
)
def test_progress_that_is_none_is_refused(app: Dtq, start: Start, ended: Ended, wrong: tuple[object, ...]) -> None:
    @app.task("t", permanent=(InvalidReport,))
    def wrongly(ctx: TaskContext) -> None:
        ctx.progress(*wrong)  # type: ignore[arg-type]

    handle = wrongly.submit()
    start()
    assert ended(handle).errors[0].type == "InvalidReport"


def test_more_done_than_there_is_is_all_of_it(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("t")
    def overdo(ctx: TaskContext) -> None:
        ctx.progress(True)
        ctx.progress(30, 20, "n" * 1000 + "\ud800")
        ctx.log("\x1b[31m\x00 \ud800")

    handle = overdo.submit()
    start()
    progress = ended(handle).progress
    assert progress is not None
    assert (progress.done, progress.total, progress.percent, progress.note) == (30, 20, 100, "n" * 200)
    assert [line.message for line in app.store.reports.logs(handle.id)] == ["\x1b[31m\x00 \\ud800"]


def test_a_million_calls_cost_less_than_a_second_and_few_script_calls(app: Dtq, start: Start, ended: Ended) -> None:
    took: list[float] = []

    @app.task("t")
    def hot(ctx: TaskContext) -> None:
        began = time.process_time()
        for number in range(1_000_000):
            ctx.progress(number, 1_000_000, "hot")
        took.append(time.process_time() - began)

    worker = start()
    calls: list[int] = []
    send = worker.parts.store.reports.report
    worker.parts.store.reports.report = lambda *args: (calls.append(1), send(*args))[1]  # type: ignore[method-assign]
    handle = hot.submit()
    began = time.monotonic()
    task = ended(handle, 60)
    assert task.progress is not None
    assert task.progress.done == 999_999
    assert took[0] < 3  # under a second on a machine that has nothing else to do
    assert len(calls) <= 2 + 4 * (time.monotonic() - began)


def test_an_execution_that_lost_its_task_says_nothing(app: Dtq, start: Start, gate: threading.Event) -> None:
    @app.task("t")
    def slow(ctx: TaskContext) -> None:
        if ctx.fence == 1:
            while not gate.wait(0.05):
                ctx.progress(1, 100)
                ctx.log("from the grave")

    handle = slow.submit()
    worker = start()
    wait_until(lambda: app.store.inspect.get(handle.id).progress, 10)
    (execution,) = worker.parts.inflight.running()
    app.connection.call("HSET", app.store.keys.task("default", handle.id), "L", "other 1 2 0 2000")
    wait_until(lambda: execution.report.closed, 10)
    count = len(app.store.reports.logs(handle.id))
    time.sleep(0.1)
    assert len(app.store.reports.logs(handle.id)) == count
    gate.set()

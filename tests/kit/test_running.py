"""Running tasks: which, in what order, where, and until when."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dtq_engine import ConfigurationError, Dtq, ResultNotReady, Retry, Settings, Snooze, TaskContext, TaskStatus
from dtq_engine.testing import HandlerFailed, Kit, KitMisused, RunawayTasks


def test_the_most_urgent_task_runs_first(dtq, dtq_app):
    @dtq_app.task("log")
    def log(word: str) -> None:
        """Only its order matters."""

    for priority in (1, 9, 5):
        log.options(priority=priority).submit(f"p{priority}")
    order = {submitted.id: submitted.priority for submitted in dtq.submitted()}
    assert [order[each.id] for each in dtq.run_all()] == [9, 5, 1]


def test_all_queues_are_served_but_those_that_are_paused(dtq, dtq_app):
    @dtq_app.task("log")
    def log() -> None:
        """Only where it runs matters."""

    handles = [log.options(queue=queue).submit() for queue in ("mails", "default", "reports")]
    dtq_app.store.control.pause("mails")
    assert len(dtq.run_all()) == 2
    assert [handle.status() for handle in handles] == ["queued", "succeeded", "succeeded"]


@pytest.mark.parametrize("is_async", [False, True])
def test_handlers_run_in_the_thread_of_the_test_and_keep_their_context_variables(dtq, dtq_app, is_async):
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    seen = []

    def note() -> None:
        seen.append((threading.get_ident(), user.get()))
        user.set("the handler's")

    @dtq_app.task("sync")
    def sync() -> None:
        note()

    @dtq_app.task("async")
    async def asynchronous() -> None:
        await asyncio.sleep(0)
        note()

    task = asynchronous if is_async else sync
    task.submit()
    task.submit()
    user.set("the test's")
    dtq.run_all()
    assert seen == [(threading.get_ident(), "the test's")] * 2
    assert user.get() == "the test's"


def test_async_handlers_share_one_loop_as_in_a_worker(dtq, dtq_app):
    loops = []

    @dtq_app.task("note")
    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    note.submit()
    note.submit()
    dtq.run_all()
    assert loops[0] is loops[1]


def test_in_an_async_test_the_loop_of_the_test_runs_async_handlers(dtq, dtq_app):
    @dtq_app.task("signal")
    async def signal() -> None:
        bell.set()
        await asyncio.sleep(0)

    bell = asyncio.Event()

    async def test() -> None:
        handle = await signal.submit_async()
        await dtq.run_all_async()
        await asyncio.wait_for(bell.wait(), 1)
        assert handle.status() == TaskStatus.SUCCEEDED

    asyncio.run(test())


@pytest.mark.parametrize("inline", [False, True])
def test_within_a_running_loop_async_handlers_run_beside_it(dtq, dtq_app, inline):
    @dtq_app.task("note")
    async def note() -> int:
        await asyncio.sleep(0)
        return 7

    async def test() -> int:
        dtq.inline = inline
        handle = note.submit()
        if not inline:
            dtq.run_all()
        return handle.result()

    assert asyncio.run(test()) == 7


def test_what_async_handlers_leave_behind_is_cancelled_at_the_end(dtq, dtq_app, request):
    ended = []

    @dtq_app.task("spawn")
    async def spawn() -> None:
        background.append(asyncio.create_task(stay()))
        await asyncio.sleep(0)

    async def stay() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("cancelled")

    background: list[asyncio.Task[None]] = []
    spawn.submit()
    dtq.run_all()
    dtq.__exit__(None, None, None)
    assert ended == ["cancelled"]


def test_a_task_that_submits_itself_for_ever_is_stopped(dtq, dtq_app):
    @dtq_app.task("again")
    def again() -> None:
        again.submit()

    again.submit()
    with pytest.raises(
        RunawayTasks, match=r"20 executions were not enough \(20 × again; again was 20 times submitted by again\)"
    ):
        dtq.run_all(limit=20)
    assert dtq_app.store.inspect.queue("default").waiting == 1, "the one that did not run is given back"


def test_inline_it_is_stopped_too_and_not_by_pythons_stack(dtq, dtq_app):
    @dtq_app.task("again")
    def again() -> None:
        again.submit()

    dtq.inline, dtq.limit = True, 200
    with pytest.raises(RunawayTasks, match="31 executions have each led to the next"):
        again.submit()


def test_a_task_that_snoozes_for_ever_is_stopped(dtq, dtq_app):
    @dtq_app.task("poll")
    def poll(delay: float) -> None:
        raise Snooze(delay)

    poll.submit(0)
    with pytest.raises(RunawayTasks):
        dtq.run_all(limit=20)
    dtq.clear()
    poll.submit(60)
    assert len(dtq.run_all(limit=20)) == 1
    with pytest.raises(RunawayTasks):
        dtq.run_to_end(limit=20)


def endless(app: Dtq, how: str) -> Any:
    """A task that never comes to an end, by itself or with another one."""

    @app.task("other")
    def other() -> None:
        again.options(delay=5).submit()

    @app.task("again")
    def again() -> None:
        match how:
            case "submits itself":
                again.options(delay=60).submit()
            case "submits another":
                other.options(delay=60).submit()
            case _:
                raise Snooze(60)

    return again


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("submits itself", "(41 × again; again was 41 times submitted by again)"),
        ("submits another", "(21 × again, 20 × other; other was 21 times submitted by again, again was 20 times"),
        ("snoozes", "(41 × again; again was 41 times put off by itself)"),
    ],
)
def test_delayed_tasks_that_keep_coming_are_soon_stopped_and_named(dtq, dtq_app, how, said):
    endless(dtq_app, how).submit()
    with pytest.raises(RunawayTasks) as raised:
        dtq.run_to_end()
    assert "41 executions have each led to the next" in str(raised.value)
    assert said in str(raised.value)
    assert "have the test stop what keeps coming, run a part of it by run_all() and advance()" in str(raised.value)


@pytest.mark.timeout(180)
def test_attempts_come_to_an_end_by_themselves(dtq, dtq_app):
    @dtq_app.task("broken", max_attempts=60)
    def broken() -> None:
        raise OSError("down")

    broken.submit()
    assert [each.attempt for each in dtq.run_to_end(raise_failures=False)] == list(range(1, 61))


def test_inline_a_long_advance_over_tasks_that_keep_coming_is_stopped_too(dtq, dtq_app):
    dtq.inline = True
    endless(dtq_app, "submits itself").submit()
    with pytest.raises(RunawayTasks, match="41 executions have each led to the next"):
        dtq.advance(86_400)


def test_many_tasks_that_lead_to_nothing_are_not_taken_for_endless(dtq, dtq_app):
    @dtq_app.task("many")
    def many() -> None:
        for at in range(40):
            one.options(delay=at).submit()

    @dtq_app.task("one")
    def one() -> None: ...

    many.submit()
    assert len(dtq.run_to_end()) == 41


def test_tasks_that_wait_without_ever_running_are_named(dtq, dtq_app):
    dtq_app.task("known")(lambda: None)
    dtq_app.named("unknown").submit()
    with pytest.raises(RunawayTasks, match=r"nothing ran, although tasks wait: 1 × unknown \(blocked"):
        dtq.run_to_end()


def test_an_app_without_tasks_is_told_what_is_missing(dtq, dtq_app):
    dtq_app.named("elsewhere").submit()
    dtq.assert_submitted("elsewhere")
    with pytest.raises(ConfigurationError, match="no tasks that could run: import the modules"):
        dtq.run_all()


def test_a_task_of_another_app_is_blocked_as_in_production(dtq, dtq_app):
    @dtq_app.task("ours")
    def ours() -> None:
        """So that there is something to run."""

    handle = dtq_app.named("theirs").submit()
    assert dtq.run_all() == []
    with pytest.raises(ResultNotReady, match=r"\(theirs\) is blocked \(unknown_task_type:theirs\)"):
        handle.result()


def test_the_result_of_a_task_that_has_not_run_says_what_to_do(dtq, dtq_app):
    @dtq_app.task("soon")
    def soon() -> None:
        raise Retry(60)

    handle = soon.submit()
    with pytest.raises(
        ResultNotReady, match=r"is queued, and in a test nothing runs by itself: call run_all\(\) first"
    ):
        handle.result()
    dtq.run_all()
    with pytest.raises(
        ResultNotReady, match=r"is retrying, and due in (60|59\.[0-9]) s: advance the clock, and call run_all\(\)"
    ):
        handle.result(timeout=10)


@pytest.mark.parametrize("inline", [False, True])
def test_what_a_task_submits_runs_after_it(dtq, dtq_app, inline):
    seen = []

    @dtq_app.task("child")
    def child() -> None:
        seen.append("child")

    @dtq_app.task("parent")
    def parent() -> None:
        handle = child.submit()
        with pytest.raises(ResultNotReady, match="runs only after the task that waits for it here"):
            handle.result()
        seen.append("parent")

    dtq.inline = inline
    parent.submit()
    if not inline:
        dtq.run_all()
    assert seen == ["parent", "child"]


def test_a_task_cannot_run_the_others(dtq, dtq_app):
    @dtq_app.task("greedy")
    def greedy() -> None:
        dtq.run_all()

    greedy.submit()
    with pytest.raises(HandlerFailed) as failed:
        dtq.run_all()
    assert isinstance(failed.value.__cause__, KitMisused)


def test_inline_handlers_may_submit_from_threads_of_their_own(dtq, dtq_app):
    @dtq_app.task("leaf")
    async def leaf(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @dtq_app.task("tree")
    async def tree() -> None:
        with ThreadPoolExecutor(4) as pool:
            await asyncio.gather(*(asyncio.get_running_loop().run_in_executor(pool, leaf.submit, n) for n in range(8)))

    dtq.inline = True
    tree.submit()
    assert sorted(each.handle.result() for each in dtq.submitted(leaf)) == list(range(8))


def test_inline_hooks_around_a_submit_are_over_when_the_task_runs(dtq, dtq_app):
    steps = []

    @dtq_app.around_submit
    def trace(tasks):
        steps.append("submit")
        yield
        steps.append("submitted")

    @dtq_app.task("note")
    def note() -> None:
        steps.append("run")

    dtq.inline = True
    note.submit()
    dtq_app.submit_many([note.prepare(), note.prepare()])
    assert steps == ["submit", "submitted", "run", "submit", "submitted", "run", "run"]


def test_a_handler_may_close_or_configure_its_app(dtq, dtq_app):
    @dtq_app.task("close")
    def close(ctx: TaskContext) -> bool:
        dtq_app.close()
        return ctx.cancelled

    @dtq_app.task("configure")
    async def configure() -> None:
        dtq_app.configure(Settings())
        await asyncio.sleep(0.1)

    handles = [close.submit(), configure.submit(), close.submit()]
    assert len(dtq.run_all()) == 3
    assert [handle.status() for handle in handles] == ["succeeded"] * 3


def test_a_context_can_be_looked_at_when_its_run_is_over(dtq, dtq_app):
    contexts = []

    @dtq_app.task("keep")
    def keep(ctx: TaskContext) -> None:
        contexts.append(ctx)

    keep.submit()
    dtq.run_all()
    assert not contexts[0].cancelled


def test_two_apps_do_not_get_into_each_others_way(dtq, dtq_app):
    other = Dtq(Settings())
    seen = []

    @other.task("there")
    def there() -> None:
        seen.append("there")

    @dtq_app.task("here")
    def here() -> None:
        there.submit()
        seen.append("here")

    with Kit(other) as second:
        dtq.inline = second.inline = True
        here.submit()
        second.assert_submitted(there)
        dtq.assert_not_submitted(there)
    assert seen == ["there", "here"]


def test_without_pytest_a_kit_may_be_used_in_a_coroutine(dtq_app):
    @dtq_app.task("note")
    async def note() -> int:
        await asyncio.to_thread(time.sleep, 0)
        return 7

    async def test() -> int:
        with Kit(dtq_app) as kit:
            handle = note.submit()
            kit.run_all()
            return handle.result()

    assert asyncio.run(test()) == 7


def test_process_tasks_run_in_the_test_too(dtq, dtq_app):
    dtq_app.task("process", process=True)(where_am_i)
    handle = dtq_app.named("process").submit()
    dtq.run_all()
    assert handle.result() == threading.get_ident()


def where_am_i(ctx: TaskContext) -> int:
    assert not ctx.cancelled
    return threading.get_ident()


@pytest.mark.alone
def test_ten_tasks_take_no_longer_than_some_thousand_commands_of_the_redis_in_memory(dtq, dtq_app):
    @dtq_app.task("quick")
    def quick() -> None:
        """Nothing to do."""

    def ten_tasks() -> None:
        for _ in range(10):
            quick.submit()
        assert len(dtq.run_all()) == 10

    def thousand_commands() -> None:
        dtq_app.connection.call("EVAL", "for i = 1, 1000 do redis.call('HSET', KEYS[1], i, i) end", 1, "plain")
        dtq_app.connection.call("DEL", "plain")

    def took_s(work: Callable[[], None]) -> float:
        begun = time.monotonic()
        work()
        return time.monotonic() - begun

    rounds = [(took_s(ten_tasks), took_s(thousand_commands)) for _ in range(5)]
    # The best of each, as a busy machine slows down one round or another: 4 to 5 times as long, on any machine.
    tasks_s, commands_s = map(min, zip(*rounds, strict=True))
    assert tasks_s < 10 * commands_s


def test_a_kit_that_is_not_entered_touches_no_redis(dtq_app):
    kit = Kit(dtq_app)
    for use in (kit.run_all, kit.run_to_end, kit.run_and_crash, kit.clear, kit.now, lambda: kit.advance(5)):
        with pytest.raises(KitMisused, match="within `with Kit"):
            use()
    with kit:
        kit.clear()
    with pytest.raises(KitMisused, match="within `with Kit"):
        kit.clear()


def test_of_two_kits_for_one_app_the_inner_one_works(dtq, dtq_app):
    @dtq_app.task("job")
    def job() -> None: ...

    job.submit()
    with Kit(dtq_app) as inner:
        job.submit()
        assert len(inner.run_all()) == 1
        for use in (dtq.run_all, dtq.clear, lambda: dtq.advance(5)):
            with pytest.raises(KitMisused, match="Another kit has been entered"):
                use()
    assert len(dtq.run_all()) == 1


@pytest.mark.parametrize("limit", ["5", -1, 1.5])
def test_a_wrong_limit_is_refused(dtq, limit):
    with pytest.raises(KitMisused, match="use a whole number"):
        dtq.run_all(limit=limit)

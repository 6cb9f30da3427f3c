"""What handlers get, and what becomes of what they return or raise."""

import asyncio
import contextvars
import functools
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dtq_engine import Dtq, NewTask, PermanentError, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until

Start = Callable[..., Worker]
Ended = Callable[..., Task]

VALUES: list[Any] = [
    None,
    "",
    'žluťoučký 漢字 🙂 \u0000 \\ "',
    12345678901234567,
    2**63,
    -(2**63),
    0.1,
    True,
    {},
    [],
    [[], {}, [None]],
    {"a": {"b": [1, 2.5, "c"]}},
]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_values_make_the_round_trip_through_payload_and_result_unchanged(
    app: Dtq, start: Start, ended: Ended, kind: str
) -> None:
    if kind == "sync":

        @app.task("echo")
        def echo(value: Any) -> Any:
            return value
    else:

        @app.task("echo")
        async def echo(value: Any) -> Any:
            return value

    values = [*VALUES, nested(200)]
    handles = [echo.submit(value) for value in values]
    start()
    for value, handle in zip(values, handles, strict=True):
        result = handle.result(timeout=10)
        assert result == value
        assert type(result) is type(value)


@pytest.mark.drains
def test_a_handler_sees_its_execution_in_the_context(app: Dtq, start: Start, ended: Ended) -> None:
    seen: list[TaskContext] = []

    @app.task("look", max_attempts=3)
    def look(ctx: TaskContext, number: int) -> int:
        seen.append(ctx)
        return number

    handle = look.options(headers={"trace": "t1"}).submit(7)
    worker = start()
    assert handle.result(timeout=10) == 7
    ctx = seen[0]
    assert (ctx.task_id, ctx.type, ctx.queue) == (handle.id, "look", "default")
    assert (ctx.attempt, ctx.max_attempts, ctx.worker_id) == (1, 3, worker.id)
    assert dict(ctx.headers) == {"trace": "t1"}
    assert not ctx.cancelled
    assert not ctx.stopping


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_no_exception_of_a_handler_ends_the_worker(
    app: Dtq, start: Start, ended: Ended, kind: str, error: BaseException
) -> None:
    if kind == "sync":

        @app.task("fail", max_attempts=1)
        def fail() -> None:
            raise error
    else:

        @app.task("fail", max_attempts=1)
        async def fail() -> None:
            raise error

    handles = [fail.submit() for _ in range(3)]
    start(worker_concurrency=1)
    for handle in handles:
        task = ended(handle)
        assert (task.status, task.reason) == (TaskStatus.DEAD_LETTERED, "max_attempts")
        assert task.errors[-1].type == type(error).__name__


@pytest.mark.drains
def test_a_handler_that_ends_a_task_of_its_own_by_exit_leaves_the_event_loop_running(
    app: Dtq, start: Start, ended: Ended
) -> None:
    @app.task("exit", max_attempts=1)
    async def leave() -> str:
        asyncio.get_running_loop().call_soon(sys.exit)
        await asyncio.sleep(0.05)
        return "still here"

    start()
    assert leave.submit().result(timeout=10) == "still here"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.drains
def test_an_exception_without_text_ends_its_attempt_cleanly(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("fail", max_attempts=1)
    def fail() -> None:
        raise Unprintable

    task_handle = fail.submit()
    start()
    task = ended(task_handle)
    assert task.status is TaskStatus.DEAD_LETTERED
    assert task.errors[0].type == "Unprintable"
    assert "no message" in task.errors[0].message


@pytest.mark.drains
@pytest.mark.parametrize("value", [object(), float("nan"), {1: "int key"}, b"bytes", {"set"}, "\ud800", nested(300)])
def test_a_result_that_is_not_json_is_a_dead_letter_at_once(app: Dtq, start: Start, ended: Ended, value: Any) -> None:
    @app.task("make", max_attempts=5)
    def make() -> Any:
        return value

    handle = make.submit()
    start()
    task = ended(handle)
    assert (task.status, task.reason, task.attempt) == (TaskStatus.DEAD_LETTERED, "permanent", 1)
    assert task.errors[0].type == "BadResult"


@pytest.mark.drains
def test_a_payload_that_does_not_fit_its_handler_is_a_dead_letter_at_once(app: Dtq, start: Start, ended: Ended) -> None:
    called = threading.Event()

    @app.task("add", max_attempts=5)
    def add(number: int) -> None:
        called.set()

    handles = [
        app.submit(NewTask(id=f"bad-{position}", type="add", payload=payload))
        for position, payload in enumerate((b"{}", b'{"number":"one"}', b'{"number":1,"more":2}'))
    ]
    start()
    for handle in handles:
        task = ended(handle)
        assert (task.status, task.reason, task.attempt) == (TaskStatus.DEAD_LETTERED, "permanent", 1)
        assert task.errors[0].type == "BadPayload"
    assert not called.is_set()


def test_a_task_of_an_unknown_type_waits_for_a_worker_that_knows_it(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("known")
    def known() -> str:
        return "done"

    stranger = app.named("stranger").submit()
    handle = known.submit()
    start()
    assert handle.result(timeout=10) == "done"
    task = app.store.inspect.get(stranger.id)
    assert (task.status, task.attempt, task.reason) == (TaskStatus.BLOCKED, 0, "unknown_task_type:stranger")


def test_a_claimed_task_without_handler_is_given_back_as_blocked(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("known")
    def known() -> None: ...

    worker = start()
    del app.registry._handlers["known"]
    handle = known.submit()
    wait_until(lambda: app.store.inspect.get(handle.id).status is TaskStatus.BLOCKED)
    assert app.store.inspect.get(handle.id).attempt == 0
    wait_until(lambda: worker.parts.inflight.taken == 0)


@pytest.mark.drains
def test_a_large_result_is_kept_whole_and_a_too_large_one_as_a_marked_preview(
    app: Dtq, start: Start, ended: Ended
) -> None:
    @app.task("make")
    def make(size: int) -> str:
        return "x" * size

    whole, cut = make.submit(5000), make.submit(50_000)
    start(result_max_bytes=10_000)
    assert whole.result(timeout=10) == "x" * 5000
    task = ended(cut)
    assert task.status is TaskStatus.SUCCEEDED
    assert task.result_truncated
    assert task.result_size == 50_002


@pytest.mark.drains
def test_the_result_of_a_task_that_does_not_keep_it_is_none(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("make", keep_result=False)
    def make() -> str:
        return "x" * 100

    handle = make.submit()
    start()
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert handle.result(timeout=1) is None


colour = contextvars.ContextVar("colour", default="none")


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_task_sees_the_context_variables_of_another(app: Dtq, start: Start, kind: str) -> None:
    def swap(name: str) -> str:
        before = colour.get()
        colour.set(name)
        return before

    if kind == "sync":

        @app.task("swap")
        def task(name: str) -> str:
            return swap(name)
    else:

        @app.task("swap")
        async def task(name: str) -> str:
            return swap(name)

    handles = [task.submit(name) for name in ("red", "green")]
    start(worker_concurrency=1)
    assert [handle.result(timeout=10) for handle in handles] == ["none", "none"]


@pytest.mark.drains
def test_async_handlers_run_beside_each_other_on_one_thread(app: Dtq, start: Start) -> None:
    arrived: list[int] = []

    @app.task("meet")
    async def meet() -> int:
        arrived.append(1)
        while len(arrived) < 5:
            await asyncio.sleep(0.01)
        return threading.get_ident()

    handles = [meet.submit() for _ in range(5)]
    start(worker_concurrency=5)
    assert len({handle.result(timeout=10) for handle in handles}) == 1


@pytest.mark.drains
def test_sync_handlers_run_beside_each_other_in_threads(app: Dtq, start: Start) -> None:
    barrier = threading.Barrier(5)

    @app.task("meet")
    def meet() -> int:
        barrier.wait(10)
        return threading.get_ident()

    handles = [meet.submit() for _ in range(5)]
    start(worker_concurrency=5)
    assert len({handle.result(timeout=10) for handle in handles}) == 5


@pytest.mark.drains
def test_a_handler_may_submit_tasks_and_wait_for_them(app: Dtq, start: Start) -> None:
    @app.task("child")
    async def child(number: int) -> int:
        return number * 2

    @app.task("parent")
    def parent() -> int:
        return sum(child.submit(number).result(timeout=5) for number in (1, 2, 3))

    start()
    assert parent.submit().result(timeout=10) == 12


@pytest.mark.drains
def test_a_permanent_error_is_not_tried_again(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("fail", permanent=(LookupError,))
    def fail(own: bool) -> None:
        raise PermanentError("broken") if own else KeyError("missing")

    handles = [fail.submit(True), fail.submit(False)]
    start()
    for handle, kind in zip(handles, ("PermanentError", "KeyError"), strict=True):
        task = ended(handle)
        assert (task.status, task.reason, task.attempt) == (TaskStatus.DEAD_LETTERED, "permanent", 1)
        assert task.errors[0].type == kind


@pytest.mark.drains
def test_no_more_threads_are_started_than_sync_handlers_run_at_once(app: Dtq, start: Start) -> None:
    @app.task("nap")
    async def nap() -> None:
        await asyncio.sleep(0.2)

    @app.task("quick")
    def quick() -> str:
        return threading.current_thread().name

    start(worker_concurrency=20)
    for _ in range(10):
        nap.submit()
    names = {quick.submit().result(timeout=5) for _ in range(10)}
    assert len(names) <= 2


@pytest.mark.drains
def test_results_are_what_the_annotation_promises_or_the_task_has_failed(app: Dtq, start: Start, ended: Ended) -> None:
    def count() -> int:
        return "seven"  # type: ignore[return-value]

    async def fetch(url: str) -> str:
        return url

    def logged(*args: Any, **kwargs: Any) -> Any:
        return fetch(*args, **kwargs)

    def later(url: str) -> Awaitable[str]:
        return fetch(url)

    wrong = app.task("wrong")(count).submit()
    forgotten = app.task("forgotten")(functools.wraps(fetch)(logged)).submit("u")
    awaited = app.task("awaited")(later).submit("u")
    start()
    assert awaited.result(timeout=10) == "u"
    for handle, said in ((wrong, "'-> int' promises: expected int, got str"), (forgotten, "a coroutine that nobody")):
        task = ended(handle)
        assert (task.status, task.attempt, task.errors[-1].type) == (TaskStatus.DEAD_LETTERED, 1, "BadResult")
        assert said in task.errors[-1].message

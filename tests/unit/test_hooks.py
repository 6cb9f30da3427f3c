"""Hooks by themselves: how they nest, what their errors do, and what can be one."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any

import pytest

from dtq_engine import Dtq, HookFailed, InvalidHandler, NewTask, Settings, TaskContext
from dtq_engine.codec import describe_error
from dtq_engine.hooks import Hooks
from dtq_engine.model import Claim, RetryPolicy
from tests.unit.contexts import context_of

TASKS = [NewTask(id="a", type="mail"), NewTask(id="b", type="mail")]


def context() -> TaskContext:
    claim = Claim(
        task_id="t-1",
        queue="default",
        type="mail",
        payload=b"{}",
        token="x",
        entry="1-0",
        priority=5,
        attempt=1,
        fence=1,
        worker="w1",
        created_ms=0,
        started_ms=0,
        deadline_ms=1,
        timeout_ms=1,
        lease_ms=1,
        retry=RetryPolicy(),
    )
    return context_of(claim)


def generator(name: str, seen: list[str]) -> Any:
    def hook(task: TaskContext) -> Iterator[None]:
        seen.append(f"{name} before {task.task_id}")
        try:
            yield
        except Exception as error:
            seen.append(f"{name} saw {error!r}")
            raise
        seen.append(f"{name} after")

    return hook


def run(hooks: Hooks, call: Any, kind: str) -> Any:
    """Run `call` inside the hooks, as a handler of this kind."""
    if kind == "sync":
        return hooks.run(context(), call)

    async def awaited() -> Any:
        return call()

    return asyncio.run(hooks.run_async(context(), awaited))


def fail() -> None:
    raise ValueError("handler")


# Around tasks


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_first_hook_is_the_outermost(kind: str) -> None:
    hooks, seen = Hooks(), list[str]()
    hooks.around_task(generator("one", seen))
    hooks.around_task(generator("two", seen))
    assert run(hooks, lambda: seen.append("handler") or 5, kind) == 5
    assert seen == ["one before t-1", "two before t-1", "handler", "two after", "one after"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_all_hooks_see_the_handlers_error(kind: str) -> None:
    hooks, seen = Hooks(), list[str]()
    hooks.around_task(generator("one", seen))
    hooks.around_task(generator("two", seen))
    with pytest.raises(ValueError, match="handler"):
        run(hooks, fail, kind)
    assert seen[2:] == ["two saw ValueError('handler')", "one saw ValueError('handler')"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_error_that_a_hook_swallows_counts_all_the_same_and_outer_hooks_see_it(kind: str) -> None:
    hooks, seen = Hooks(), list[str]()

    def swallow(task: TaskContext) -> Iterator[None]:
        with contextlib.suppress(ValueError):
            yield

    hooks.around_task(generator("outer", seen))
    hooks.around_task(swallow)
    with pytest.raises(ValueError, match="handler"):
        run(hooks, fail, kind)
    assert seen[-1] == "outer saw ValueError('handler')"


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_an_error_of_a_hook_is_the_attempts_and_outer_hooks_see_it(kind: str, place: str) -> None:
    hooks, seen = Hooks(), list[str]()

    def broken(task: TaskContext) -> Iterator[None]:
        if place == "before":
            raise OSError("no database")
        yield
        raise OSError("commit failed")

    hooks.around_task(generator("outer", seen))
    hooks.around_task(broken)
    with pytest.raises(OSError, match=r"no database|commit failed"):
        run(hooks, lambda: seen.append("handler"), kind)
    assert ("handler" in seen) is (place == "after")
    assert seen[-1].startswith("outer saw OSError")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_hook_may_put_another_error_in_place_of_the_handlers(kind: str) -> None:
    hooks = Hooks()

    def translate(task: TaskContext) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise OSError("translated") from error

    hooks.around_task(translate)
    with pytest.raises(OSError, match="translated"):
        run(hooks, fail, kind)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_context_managers_of_all_kinds_can_be_hooks(kind: str) -> None:
    hooks, seen = Hooks(), list[str]()

    class Whole:
        def __init__(self, task: TaskContext) -> None:
            self.task = task

        def __enter__(self) -> None:
            seen.append(f"class {self.task.type}")

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            seen.append("class after")

    class Callable:
        def __call__(self, task: TaskContext) -> Iterator[None]:
            seen.append("object")
            yield

    @contextlib.contextmanager
    def decorated(task: TaskContext) -> Iterator[None]:
        seen.append("decorated")
        yield

    def partially(name: str, task: TaskContext) -> Iterator[None]:
        seen.append(name)
        yield

    for hook in (Whole, Callable(), decorated, functools.partial(partially, "partial")):
        hooks.around_task(hook)
    run(hooks, lambda: None, kind)
    assert seen == ["class mail", "object", "decorated", "partial", "class after"]


def test_async_hooks_wrap_async_handlers_only() -> None:
    hooks, seen = Hooks(), list[str]()

    async def plain(task: TaskContext) -> AsyncIterator[None]:
        seen.append("async before")
        yield
        seen.append("async after")

    @contextlib.asynccontextmanager
    async def decorated(task: TaskContext) -> AsyncIterator[None]:
        seen.append("decorated")
        yield

    class Whole:
        def __init__(self, task: TaskContext) -> None: ...

        async def __aenter__(self) -> None:
            seen.append("class")

        async def __aexit__(self, *error: object) -> None: ...

    for hook in (plain, generator("sync", seen), decorated, Whole):
        hooks.around_task(hook)
    run(hooks, lambda: None, "sync")
    assert seen == ["sync before t-1", "sync after"]
    seen.clear()
    run(hooks, lambda: None, "async")
    assert seen == ["async before", "sync before t-1", "decorated", "class", "sync after", "async after"]


def test_an_async_handler_that_is_cancelled_leaves_its_hooks_in_order() -> None:
    hooks, seen = Hooks(), list[str]()

    async def hook(task: TaskContext) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            seen.append("cancelled")
            # Swallowed here, and cancelled all the same.

    hooks.around_task(hook)

    async def cancel_it() -> None:
        task = asyncio.ensure_future(hooks.run_async(context(), lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_it())
    assert seen == ["cancelled"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_hook_that_returns_nothing_to_enter_is_named(kind: str) -> None:
    hooks = Hooks()
    hooks.around_task(lambda task: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(HookFailed, match=r"around_task .*<lambda> returned None for the task mail \(t-1\)"):
        run(hooks, lambda: None, kind)


def never(task: Any) -> Iterator[None]:
    if task is None:
        yield


def twice(task: Any) -> Iterator[None]:
    yield
    yield


def again(task: Any) -> Iterator[None]:
    with contextlib.suppress(ValueError):
        yield
    yield


async def never_async(task: TaskContext) -> AsyncIterator[None]:
    if task is None:  # pyright: ignore[reportUnnecessaryComparison]
        yield


async def twice_async(task: TaskContext) -> AsyncIterator[None]:
    yield
    yield


async def again_async(task: TaskContext) -> AsyncIterator[None]:
    with contextlib.suppress(ValueError):
        yield
    yield


@pytest.mark.parametrize(
    ("hook", "call", "kinds", "said"),
    [
        (never, int, ("sync", "async"), "did not yield"),
        (never_async, int, ("async",), "did not yield"),
        (twice, int, ("sync", "async"), "yielded a second time"),
        (twice_async, int, ("async",), "yielded a second time"),
        (again, fail, ("sync", "async"), "yielded again after an error"),
        (again_async, fail, ("async",), "yielded again after an error"),
    ],
)
def test_a_hook_that_does_not_yield_exactly_once_is_named_with_its_task(
    hook: Any, call: Any, kinds: tuple[str, ...], said: str
) -> None:
    for kind in kinds:
        hooks = Hooks()
        hooks.around_task(hook)
        with pytest.raises(HookFailed) as failed:
            run(hooks, call, kind)
        assert str(failed.value) == (
            f"the hook around_task tests.unit.test_hooks.{hook.__name__} {said} for the task mail (t-1): "
            f"let it yield exactly once."
        )


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("where", ["before", "after", "instead"])
def test_what_a_hook_raises_says_which_hook_it_was_and_the_handlers_own_error_does_not(kind: str, where: str) -> None:
    hooks = Hooks()

    def broken(task: TaskContext) -> Iterator[None]:
        if where == "before":
            raise OSError("no database")
        try:
            yield
        except ValueError as error:
            raise OSError("no database") from error
        raise OSError("no database")

    hooks.around_task(generator("outer", []))
    hooks.around_task(broken)
    with pytest.raises(OSError, match="no database") as failed:
        run(hooks, fail if where == "instead" else int, kind)
    (note,) = failed.value.__notes__
    assert note.startswith("Raised by the hook around_task tests.unit.test_hooks.")
    assert note.endswith(".broken for the task mail (t-1).")
    assert note in describe_error(failed.value).traceback

    hooks = Hooks()
    hooks.around_task(generator("outer", []))
    with pytest.raises(ValueError, match="handler") as of_handler:
        run(hooks, fail, kind)
    assert not hasattr(of_handler.value, "__notes__")


# Around submits


def test_what_hooks_around_submits_do_wrong_says_which_hook_and_which_tasks(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks()
    hooks.around_submit(never)
    with pytest.raises(HookFailed, match=r"around_submit tests\.unit\.test_hooks\.never did not yield for"):
        hooks.send(TASKS, list)

    hooks = Hooks()
    hooks.around_submit(twice)
    assert hooks.send(TASKS[:1], list) == TASKS[:1]
    assert (
        "the hook around_submit tests.unit.test_hooks.twice failed after the submit of the task mail (a)" in caplog.text
    )
    assert "yielded a second time" in caplog.text


def test_a_hook_around_submits_may_change_the_tasks_and_the_next_one_sees_that() -> None:
    hooks = Hooks()

    def first(tasks: list[NewTask]) -> Iterator[list[NewTask]]:
        yield [task.with_headers({"a": "1", "b": "1"}) for task in tasks]

    def second(tasks: list[NewTask]) -> Iterator[list[NewTask]]:
        yield [task.with_headers({"b": task.headers["a"] + "2"}) for task in tasks]

    def third(tasks: list[NewTask]) -> Iterator[None]:
        yield

    for hook in (first, second, third):
        hooks.around_submit(hook)
    sent = hooks.send(TASKS, list)
    assert [task.id for task in sent] == ["a", "b"]
    assert [task.headers for task in sent] == [{"a": "1", "b": "12"}] * 2


def test_what_a_hook_raises_before_the_tasks_are_sent_keeps_them_out() -> None:
    hooks, sent = Hooks(), list[NewTask]()

    def refuse(tasks: list[NewTask]) -> Iterator[None]:
        raise PermissionError("not today")
        yield

    hooks.around_submit(refuse)
    with pytest.raises(PermissionError, match="not today"):
        hooks.send(TASKS, sent.extend)
    assert sent == []


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_hook_raises_after_the_tasks_were_sent_is_only_logged(
    caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    hooks = Hooks()

    def broken(tasks: list[NewTask]) -> Iterator[None]:
        try:
            yield
        finally:
            raise OSError("metrics are away")

    def send(tasks: list[NewTask]) -> str:
        if fails:
            raise ValueError("refused")
        return "accepted"

    hooks.around_submit(broken)
    if fails:
        with pytest.raises(ValueError, match="refused"):
            hooks.send(TASKS, send)
    else:
        assert hooks.send(TASKS, send) == "accepted"
    assert "metrics are away" in caplog.text


def test_a_hook_cannot_make_a_refused_submit_look_accepted() -> None:
    hooks = Hooks()

    def swallow(tasks: list[NewTask]) -> Iterator[None]:
        with contextlib.suppress(ValueError):
            yield

    hooks.around_submit(swallow)
    with pytest.raises(ValueError, match="handler"):
        hooks.send(TASKS, lambda tasks: fail())


@pytest.mark.parametrize("changed", [[], TASKS[:1], TASKS[::-1], [*TASKS, TASKS[0]], ["a", "b"], TASKS[0], 5])
def test_a_hook_that_yields_other_tasks_is_named_and_nothing_is_sent(changed: Any) -> None:
    hooks, sent = Hooks(), list[NewTask]()

    def other(tasks: list[NewTask]) -> Iterator[Any]:
        yield changed

    hooks.around_submit(other)
    with pytest.raises(HookFailed, match=r"the hook around_submit .*other yielded other tasks"):
        hooks.send(TASKS, sent.extend)
    assert sent == []


# What can be a hook


def test_decorators_give_back_the_function_and_a_function_is_registered_once() -> None:
    app, calls = Dtq(Settings()), list[NewTask]()

    @app.around_submit
    @app.around_submit
    def count(tasks: list[NewTask]) -> Iterator[None]:
        calls.extend(tasks)
        yield

    assert list(count([])) == [None]
    app.registry.hooks.send(TASKS, list)
    assert calls == TASKS


async def coroutine(task: Any) -> None: ...


async def stream(task: Any) -> AsyncIterator[None]:
    yield


def nothing() -> Iterator[None]:
    yield


def two(one: Any, other: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("kind", "wrong", "problem"),
    [
        ("around_task", coroutine, "wraps nothing: let it yield once"),
        ("around_task", nothing, "one argument, the TaskContext"),
        ("around_task", two, "one argument, the TaskContext"),
        ("around_task", 5, "it is no function"),
        ("around_submit", stream, "it is async, and submitting is not"),
        ("around_submit", nothing, "one argument, the list of tasks"),
        ("on_failure", nothing, "it yields"),
        ("on_failure", two, "it yields"),
        ("on_failure", lambda: None, "one argument, the Failure"),
        ("on_worker_start", stream, "it yields"),
        ("on_worker_start", lambda: None, "one argument, the WorkerInfo"),
        ("on_worker_stop", None, "it is no function"),
    ],
)
def test_what_cannot_be_a_hook_is_refused_when_it_is_registered(kind: str, wrong: Any, problem: str) -> None:
    with pytest.raises(InvalidHandler, match=problem) as refused:
        getattr(Dtq(Settings()), kind)(wrong)
    assert kind in str(refused.value)

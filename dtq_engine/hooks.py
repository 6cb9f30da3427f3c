"""What an app runs around its work: at the start and the end of a worker, around tasks and submits, after failures."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from dtq_engine import around
from dtq_engine.around import Around, name_of
from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidHandler
from dtq_engine.model import AttemptError, NewTask, WorkerInfo
from dtq_engine.signature import underlying

T = TypeVar("T")

# In this form a decorator gives back the function as it was.
WorkerHook = TypeVar("WorkerHook", bound=Callable[[WorkerInfo], object])
FailureHook = TypeVar("FailureHook", bound="Callable[[Failure], object]")
TaskHook = TypeVar("TaskHook", bound="Callable[[TaskContext], Wrapping]")
SubmitHook = TypeVar("SubmitHook", bound="Callable[[list[NewTask]], Sending]")

Wrapping = (
    Iterator[object] | AbstractContextManager[object] | AsyncIterator[object] | AbstractAsyncContextManager[object]
)
"""What a hook around tasks returns: it is a generator function that yields once, or returns a context manager."""
Sending = Iterator[Sequence[NewTask] | None] | AbstractContextManager[Sequence[NewTask] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One attempt that failed, as Redis has recorded it.

    `final` says that no other attempt follows, and `reason` why (max_attempts, permanent, worker_lost, …); else the
    next one starts after `retry_in_s` seconds. `error` describes what went wrong; `exception` is the exception itself,
    None if the worker was lost, if the attempt was ended from outside (as at its timeout), or ran in another process.
    """

    task_id: str
    type: str
    queue: str
    attempt: int
    max_attempts: int
    error: AttemptError
    final: bool
    reason: str | None = None
    retry_in_s: float | None = None
    exception: BaseException | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Hooks:
    """The hooks of one app, each kind in the order of registration. Wrapping hooks nest: the first is outermost.

    What they promise about errors: a hook around tasks fails the attempt, and cannot make a failure a success. A hook
    around submits keeps the tasks out if it fails before they are sent; afterwards its errors are only logged.
    """

    worker_start: "tuple[Callable[[WorkerInfo], object], ...]" = ()
    worker_stop: "tuple[Callable[[WorkerInfo], object], ...]" = ()
    failure: "tuple[Callable[[Failure], object], ...]" = ()
    task: "tuple[Around, ...]" = ()
    sync_task: "tuple[Around, ...]" = ()
    """Those of `task` that can wrap a handler in a thread."""
    submit: "tuple[Around, ...]" = ()

    def on_worker_start(self, fn: Callable[[WorkerInfo], object]) -> None:
        """Add a hook. Raises InvalidHandler if it cannot be called with a WorkerInfo."""
        self.worker_start = _with(self.worker_start, _calling(fn, "on_worker_start", "the WorkerInfo"))

    def on_worker_stop(self, fn: Callable[[WorkerInfo], object]) -> None:
        """Add a hook. Raises InvalidHandler if it cannot be called with a WorkerInfo."""
        self.worker_stop = _with(self.worker_stop, _calling(fn, "on_worker_stop", "the WorkerInfo"))

    def on_failure(self, fn: Callable[[Failure], object]) -> None:
        """Add a hook. Raises InvalidHandler if it cannot be called with a Failure."""
        self.failure = _with(self.failure, _calling(fn, "on_failure", "the Failure"))

    def around_task(self, fn: Callable[[TaskContext], Wrapping]) -> None:
        """Add a hook. Raises InvalidHandler if it cannot wrap an execution."""
        self.task = _with(self.task, _wrapping(fn, "around_task", "the TaskContext"))
        self.sync_task = tuple(each for each in self.task if not each.is_async)

    def around_submit(self, fn: Callable[[list[NewTask]], Sending]) -> None:
        """Add a hook. Raises InvalidHandler if it cannot wrap a submit."""
        wrapping = _wrapping(fn, "around_submit", "the list of tasks")
        if wrapping.is_async:
            _refuse(fn, "around_submit", "it is async, and submitting is not: yield from a plain generator")
        self.submit = _with(self.submit, wrapping)

    def run(self, context: TaskContext, call: Callable[[], T]) -> T:
        """What `call` returns, called inside the hooks around a sync handler."""
        return around.run(self.sync_task, context, call)

    async def run_async(self, context: TaskContext, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` returns, awaited inside the hooks around an async handler."""
        return await around.run_async(self.task, context, call)

    def send(self, tasks: list[NewTask], send: Callable[[list[NewTask]], T]) -> T:
        """What `send` returns, called inside the hooks around a submit with the tasks as they changed them."""
        return around.send(self.submit, tasks, send)


def _with(hooks: tuple[T, ...], hook: T) -> tuple[T, ...]:
    """The hooks and this one, once: a module that is imported under two names registers its hooks twice."""
    return hooks if hook in hooks else (*hooks, hook)


def _calling(fn: Callable[[T], object], kind: str, argument: str) -> Callable[[T], object]:
    if not callable(fn):
        _refuse(fn, kind, "it is no function")
    function = underlying(fn)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(fn, kind, "it yields, and there is nothing to wrap: return instead")
    _check_argument(fn, kind, argument)
    return fn


def _wrapping(fn: Callable[..., Any], kind: str, argument: str) -> Around:
    if not callable(fn):
        _refuse(fn, kind, "it is no function")
    function = underlying(fn) if not inspect.isclass(fn) else fn
    _check_argument(fn, kind, argument)
    if inspect.iscoroutinefunction(function):
        _refuse(fn, kind, "it is a coroutine function, which wraps nothing: let it yield once")
    if inspect.isasyncgenfunction(function):
        return Around(fn, kind, True, asynccontextmanager(fn))
    if inspect.isgeneratorfunction(function):
        return Around(fn, kind, False, contextmanager(fn))
    return Around(fn, kind, _makes_async(fn), fn)


def _check_argument(fn: Callable[..., object], kind: str, argument: str) -> None:
    try:
        inspect.signature(fn).bind(None)
    except TypeError:
        _refuse(fn, kind, f"it is called with one argument, {argument}: let it take that")
    except ValueError:  # a builtin function that does not say what it takes
        pass


def _makes_async(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives an asynchronous context manager only."""
    if inspect.isclass(fn):
        return hasattr(fn, "__aexit__") and not hasattr(fn, "__exit__")
    return inspect.isasyncgenfunction(inspect.unwrap(fn))


def _refuse(fn: object, kind: str, problem: str) -> NoReturn:
    raise InvalidHandler(f"{name_of(fn)} cannot be used as a hook {kind}: {problem}.")

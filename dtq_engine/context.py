"""What a handler may know of the execution that it is, and what it may say of it."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from dtq_engine.model import Claim, Input
from dtq_engine.report import Report, level_name
from dtq_engine.steps import Steps, decoded, refuse_awaitable

P = ParamSpec("P")
R = TypeVar("R")


class Execution(Protocol):
    """What stands behind a context; both are made when they are first asked for, since few handlers need them."""

    @property
    def report(self) -> Report:
        """What it says of itself."""
        ...

    @property
    def steps(self) -> Steps:
        """What it and earlier ones have saved."""
        ...


class TaskContext:
    """The execution a handler runs in: passed as its first parameter, if that is annotated with this class.

    A thread cannot be interrupted, so a long-running handler looks at `cancelled` now and then and returns
    or raises when it is set; an async handler is cancelled by itself.
    """

    __slots__ = ("_cancelled", "_claim", "_execution", "_report", "_stopping")

    def __init__(
        self, *, claim: Claim, cancelled: threading.Event, stopping: threading.Event, execution: Execution
    ) -> None:
        self._claim = claim
        self._cancelled = cancelled
        self._stopping = stopping
        self._execution = execution
        self._report: Report | None = None

    @property
    def task_id(self) -> str:
        """The task's id, the same in every attempt."""
        return self._claim.task_id

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._claim.queue

    @property
    def type(self) -> str:
        """The task type: the name its handler is registered under."""
        return self._claim.type

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the task has in all."""
        return self._claim.retry.max_attempts

    @property
    def fence(self) -> int:
        """A number that rises with each execution of the task, for systems that can refuse stale writers.

        After a failover of Redis it may repeat.
        """
        return self._claim.fence

    @property
    def headers(self) -> Mapping[str, str]:
        """What the submitter sent beside the arguments, such as a trace context."""
        return self._claim.headers

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What became of the tasks that this one waited for, in the order in which it names them."""
        return self._claim.inputs

    @property
    def worker_id(self) -> str:
        """The worker that runs this."""
        return self._claim.worker

    @property
    def deadline(self) -> datetime:
        """When the attempt times out, by Redis' clock."""
        return datetime.fromtimestamp(self._claim.deadline_ms / 1000, UTC)

    @property
    def cancelled(self) -> bool:
        """Whether to give up: someone cancelled the task, or it is past its deadline."""
        return self._cancelled.is_set()

    @property
    def stopping(self) -> bool:
        """Whether the worker is shutting down and waits for this execution, for a while."""
        return self._stopping.is_set()

    # What it says of itself

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far it is: `done` of `total`, and what it does, for whoever looks at the task.

        Cheap enough for the innermost loop: only the latest is sent, about twice a second, and before the outcome. A
        crash loses what was said in the last half second. Raises InvalidReport for what is no number from 0 to 1e15.
        """
        if self._report is None:
            self._report = self._execution.report
        self._report.progress(done, total, note)

    def log(self, message: str, level: str | int = "info") -> None:
        """Add a line to the log of the task, beside the records of the `logging` module that the handler makes.

        Sent as progress is. Raises InvalidReport for an unknown level.
        """
        self._execution.report.log(level_name(level), "", str(message))

    # What later executions of the task find

    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` and remember its value, which has to be JSON; a later attempt gets the value without the call.

        A value comes back in the type that `fn` is annotated to return, as results do. If the worker dies before the
        value is saved, the step runs again; if `fn` raises it may be called again at once. Raises InvalidStep for a
        name that was used before in this attempt, and for what cannot be kept; ClaimLost if the task has moved on to
        another execution, and RedisUnavailable if it cannot be saved until the deadline: let both end the handler.
        """
        found = self._execution.steps.begin(name)
        if found is not None:
            result: R = decoded(name, fn, found)
            return result
        with self._attempt_at(name):
            value = fn(*args, **kwargs)
        refuse_awaitable(name, value)
        ended: R = self._execution.steps.end(name, fn, value)
        return ended

    @overload
    async def step_async(self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def step_async(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def step_async(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `step`, for async handlers: `fn` may be async, and the event loop goes on while its value is saved."""
        found = self._execution.steps.begin(name)
        if found is not None:
            return decoded(name, fn, found)
        with self._attempt_at(name):
            value = fn(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
        return await asyncio.to_thread(self._execution.steps.end, name, fn, value)

    @contextmanager
    def _attempt_at(self, name: str) -> Generator[None]:
        try:
            yield
        except BaseException:
            self._execution.steps.fail(name)
            raise

    @property
    def cursor(self) -> Any:
        """Where the latest `checkpoint` said to go on, by this attempt or an earlier one; None if none has."""
        return self._execution.steps.cursor

    def checkpoint(self, cursor: Any) -> None:
        """Remember where to go on, a JSON value. Each call is one to Redis: make them every few seconds of work.

        Raises as `step` does.
        """
        self._execution.steps.checkpoint(cursor)

    async def checkpoint_async(self, cursor: Any) -> None:
        """The same for async handlers."""
        await asyncio.to_thread(self._execution.steps.checkpoint, cursor)

    def once(self, key: str) -> bool:
        """True the first time that any execution of the task asks for this key, False ever after.

        So what is done only on True is done at most once, and not at all if the worker dies between the two.
        Raises as `step` does.
        """
        return self._execution.steps.once(key)

    async def once_async(self, key: str) -> bool:
        """The same for async handlers."""
        return await asyncio.to_thread(self._execution.steps.once, key)

    def cancel(self) -> None:
        """Ask the handler to give up: `cancelled` becomes True."""
        self._cancelled.set()

    def __repr__(self) -> str:
        return f"<TaskContext {self.type} {self.task_id} attempt {self.attempt}/{self.max_attempts}>"

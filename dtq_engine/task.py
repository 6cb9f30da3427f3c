"""Handlers as their callers see them: to submit, to prepare, or simply to call."""

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from dtq_engine import ids
from dtq_engine.after import After, parents_of, runs_anyway
from dtq_engine.config import Settings
from dtq_engine.context import TaskContext
from dtq_engine.deduplication import DeduplicationOptions, check_key
from dtq_engine.flow import Call
from dtq_engine.handle import App, Handle
from dtq_engine.model import NewTask
from dtq_engine.options import Duration, Options, check_names, read_options, rule_of, task_maker
from dtq_engine.registry import Handler

__all__ = ["Handle", "Submitter", "Task", "TaskContext"]

P = ParamSpec("P")
Q = ParamSpec("Q")
C = ParamSpec("C")
R_co = TypeVar("R_co", covariant=True)
O_co = TypeVar("O_co", covariant=True)


class Submitter(Generic[P, R_co]):
    """Submits tasks of one type under one set of options; the arguments are those of the handler, without context."""

    def __init__(self, app: App, handler: Handler, options: Options | None = None) -> None:
        self._app = app
        self._handler = handler
        self._options = options or Options()
        self._maker: tuple[Settings, Callable[..., NewTask]] | None = None

    @property
    def name(self) -> str:
        """The task type."""
        return self._handler.name

    def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """Have the handler called with these arguments by a worker.

        Raises InvalidTask (wrong arguments), QueueFull, MemoryFull, IdempotencyMismatch, IdempotencyConflict, and
        RedisUnavailable (not accepted) or SubmitUncertain (perhaps accepted) when Redis is away.
        """
        return self._app.submit(self.prepare(*args, **kwargs))

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """The same as `submit`, by the name that other task queues made familiar."""
        return self._app.submit(self.prepare(*args, **kwargs))

    async def submit_async(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """The same as `submit`, without blocking the event loop.

        Cancelling it does not take back what is already on its way: the task may be accepted all the same.
        """
        return await asyncio.to_thread(self._app.submit, self.prepare(*args, **kwargs))

    def prepare(self, /, *args: P.args, **kwargs: P.kwargs) -> NewTask:
        """The task that `submit` would send, to be sent later or with others by `Dtq.submit_many`.

        Raises InvalidTask if the arguments are wrong.
        """
        return self._prepare(args, kwargs)

    def _prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, fed: bool = False) -> NewTask:
        payload = self._handler.encode_arguments(args, kwargs, fed=fed)
        settings = self._app.settings
        maker = self._maker
        if maker is None or maker[0] is not settings:
            maker = self._prepare_maker(settings)
        limits = self._handler.buckets(payload)
        return maker[1](id=self._options.id or ids.new_id(), payload=payload, limits=limits)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, takes_result: bool) -> Call[R_co]:
        make = partial(self._prepare, args, kwargs)
        return Call(self._app, make, takes_result=takes_result, run_anyway=self._options.run_anyway or False)

    def _with_links(self, given: Options, after: After | Iterable[After] | None, policy: str | None) -> Options:
        if policy is not None:
            given = replace(given, run_anyway=runs_anyway(policy))
        run_anyway = given.run_anyway if given.run_anyway is not None else self._options.run_anyway or False
        if after is not None:
            return replace(given, after=parents_of(self._app, after, run_anyway=run_anyway, child=given.id))
        earlier = self._options.after or ()
        return replace(given, after=tuple(replace(each, run_anyway=run_anyway) for each in earlier) or None)

    @overload
    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]: ...
    @overload
    def s(self: "Submitter[Concatenate[Any, Q], R_co]", /, *args: Q.args, **kwargs: Q.kwargs) -> Call[R_co]: ...
    def s(self, /, *args: Any, **kwargs: Any) -> Call[R_co]:
        """A call with these arguments, to be part of a workflow, behind the result of what comes before it there."""
        return self._call(args, kwargs, takes_result=True)

    def si(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call with just these arguments: an immutable one, which takes nothing of what comes before it."""
        return self._call(args, kwargs, takes_result=False)

    def options(
        self,
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        idempotency_key: str | None = None,
        expires_in: Duration | None = None,
        timeout: Duration | None = None,
        max_attempts: int | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        after: After | Iterable[After] | None = None,
        on_parent_failure: Literal["cancel", "run"] | None = None,
        **deduplication: Unpack[DeduplicationOptions],
    ) -> "Submitter[P, R_co]":
        """A submitter with other options; None leaves an option as it is. Raises InvalidTask.

        Durations are seconds or timedeltas. `delay` (by Redis' clock) or `run_at` (an aware datetime) says when to
        start, `expires_in` within which time it must have started, `timeout` how long an attempt may run.
        `priority` goes from 0 to 9, most urgent. A second task with the same `idempotency_key` in the same queue
        is not accepted; its handle is that of the first. `headers` are strings that the handler finds in its context.
        `deduplication` are options as in DeduplicationOptions, over those of the type.
        The task waits until those in `after` have succeeded, and finds their results in `ctx.inputs`; if one fails for
        good it is cancelled, unless `on_parent_failure` is "run".
        """
        check_names(deduplication, self.options)
        given = read_options(
            delay=delay, run_at=run_at, priority=priority, queue=queue, idempotency_key=idempotency_key,
            expires_in=expires_in, timeout=timeout, max_attempts=max_attempts, headers=headers, id=id,
            same=deduplication,
        )  # fmt: skip
        given = self._with_links(given, after, on_parent_failure).over(self._options)
        check_key(rule_of(self._handler.defaults, given), self._handler.signature)
        return Submitter(self._app, self._handler, given)

    def _prepare_maker(self, settings: Settings) -> tuple[Settings, Callable[..., NewTask]]:
        # Not before the first task, for an app is imported without its environment; and anew under other settings.
        handler = self._handler
        make = task_maker(self.name, handler.defaults, self._options, settings, handler.bind_payload)
        self._maker = maker = settings, make
        return maker

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Task(Submitter[P, R_co], Generic[P, R_co, C, O_co]):
    """A registered handler: calling it calls the function, here and now; `submit` has a worker call it."""

    def __init__(self, app: App, handler: Handler, fn: Callable[C, O_co]) -> None:
        super().__init__(app, handler)
        self._fn = fn
        functools.update_wrapper(self, fn, updated=())

    @property
    def handler(self) -> Handler:
        """The function and what was said about it at registration."""
        return self._handler

    def __call__(self, /, *args: C.args, **kwargs: C.kwargs) -> O_co:
        """Call the function itself; no task is made."""
        return self._fn(*args, **kwargs)

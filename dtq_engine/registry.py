"""Handlers by the name of their task type."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from dtq_engine import codec
from dtq_engine.arguments import DIALECT, Arguments
from dtq_engine.deduplication import check_key, encode_function
from dtq_engine.errors import InvalidHandler, InvalidLimit, InvalidTask
from dtq_engine.hooks import Hooks
from dtq_engine.isolation import Isolation, check_reachable
from dtq_engine.limits import Declared, Limit, bound, buckets_of, check_home, check_known
from dtq_engine.model import TaskSchema
from dtq_engine.options import Defaults
from dtq_engine.periodic import Definition
from dtq_engine.results import Results
from dtq_engine.signature import Signature, read_signature, underlying

RetryCallback = Callable[[BaseException, int], float | None]
"""(error, attempt) -> seconds until the next attempt; None: no further one."""


class Handler:
    """A function that runs the tasks of one type, and what it says about them.

    `retry` and `permanent` are asked after an exception: `permanent` lists those that end the task at once.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        defaults: Defaults | None = None,
        retry: RetryCallback | None = None,
        permanent: tuple[type[BaseException], ...] = (),
        isolation: Isolation | None = None,
    ) -> None:
        """Raises InvalidHandler if `fn` cannot be called with named JSON arguments, or not where `isolation` says."""
        _check_reactions(name, retry, permanent)
        if isolation is not None:
            check_reachable(name, fn)
        self.name = name
        self.fn = fn
        self.defaults = defaults or Defaults()
        self.retry = retry
        self.permanent = permanent
        self.isolation = isolation
        self.signature: Signature = read_signature(name, fn)
        _check_key(name, self.defaults, self.signature)
        if self.defaults.limits:
            uses = bound(name, self.defaults.limits, self.signature.defaults)
            self.defaults = replace(self.defaults, limits=uses)
        self._arguments = Arguments(self.signature)
        self._results = Results(self.signature.returns)

    @property
    def is_async(self) -> bool:
        """Whether a call gives something to await."""
        return self.signature.is_async

    @property
    def takes_context(self) -> bool:
        """Whether the first argument of a call is a TaskContext."""
        return self.signature.context is not None

    @property
    def schema(self) -> str:
        """What tells these parameters from those of another build of the handler."""
        return self._arguments.digest

    def published(self) -> TaskSchema:
        """What other processes may know of this handler."""
        defaults = codec.decode(msgspec.json.encode(self.defaults, enc_hook=encode_function))
        return TaskSchema(
            type=self.name,
            digest=self.schema,
            parameters=self._arguments.schema(),
            result={"$schema": DIALECT} | msgspec.json.schema(self.signature.returns),
            description=inspect.getdoc(underlying(self.fn)) or "",
            defaults={name: value for name, value in defaults.items() if value is not None},
        )

    def encode_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, fed: bool = False) -> bytes:
        """The payload of a call, context left out, and if it is `fed` its first argument, which is yet to come.

        Raises InvalidTask, which names the argument that is wrong.
        """
        return (self._fed_arguments if fed else self._arguments).encode(args, kwargs)

    def buckets(self, payload: bytes) -> tuple[str, ...]:
        """The buckets of the limits for a task with these arguments. Raises InvalidTask if they cannot name one."""
        return buckets_of(self.defaults.limits, payload)

    def bind_payload(self, payload: bytes, fed: bytes | None = None) -> dict[str, Any]:
        """The keyword arguments to call `fn` with; `fed` is the first one, as JSON, where the payload lacks it.

        Raises InvalidTask if they do not fit the signature.
        """
        return self._arguments.decode(payload if fed is None else self.signature.fill(payload, fed))

    @functools.cached_property
    def _fed_arguments(self) -> Arguments:
        return Arguments(self.signature.fed())

    def encode_result(self, value: object) -> bytes | None:
        """A result as JSON, None for None. Raises NotJson if it could not be read back as what was promised."""
        return self._results.encode(value)

    def decode_result(self, result: bytes | None) -> Any:
        """A result in the type that the handler's annotation promises. Raises ResultMismatch if it does not fit."""
        return None if result is None else self._results.decode(result)

    def is_same_as(self, other: "Handler") -> bool:
        """Whether both register one function in one way."""
        return (self.fn, self.defaults, self.retry, self.permanent, self.isolation) == (
            other.fn,
            other.defaults,
            other.retry,
            other.permanent,
            other.isolation,
        )


def _place(handler: Handler) -> str:
    function = underlying(handler.fn)
    return f"{function.__module__}.{function.__qualname__}"


def _check_key(name: str, defaults: Defaults, signature: Signature) -> None:
    try:
        check_key(defaults.deduplication, signature)
    except InvalidTask as error:
        raise InvalidHandler(f"task {name!r} cannot be registered: {error}") from None


def _check_reactions(name: str, retry: object, permanent: object) -> None:
    if retry is not None and not callable(retry):
        raise InvalidHandler(f"task {name!r} cannot be registered: retry must be a function of error and attempt.")
    kinds = cast("tuple[object, ...]", permanent) if isinstance(permanent, tuple) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise InvalidHandler(f"task {name!r} cannot be registered: permanent must be a tuple of exception classes.")


@dataclass(slots=True)
class Registry:
    """The handlers of one app, those that run at times, and its hooks."""

    hooks: Hooks = field(default_factory=Hooks)
    _handlers: dict[str, Handler] = field(default_factory=dict[str, Handler])
    _periodic: dict[str, Definition] = field(default_factory=dict[str, Definition])
    _limits: dict[tuple[str, str | None], Limit] = field(default_factory=dict[tuple[str, str | None], Limit])
    _homes: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, handler: Handler) -> None:
        """Register a handler. Raises InvalidHandler if its name is taken by another function or other options.

        Raises InvalidLimit for a limit that was not made, or that is counted in another queue.
        """
        check_known(handler.name, handler.defaults.limits, [name for name, queue in self._limits if queue is None])
        for use in handler.defaults.limits:
            check_home(handler.name, use, handler.defaults.queue, self._homes.get(use.name))
        known = self._handlers.setdefault(handler.name, handler)
        if not known.is_same_as(handler):
            raise InvalidHandler(
                f"the task name {handler.name!r} is taken by {_place(known)}: give {_place(handler)} another name."
            )
        self._homes.update((use.name, handler.defaults.queue) for use in handler.defaults.limits)

    def limit(self, limit: Limit) -> None:
        """Have a limit for tasks to name, or a queue's own. Raises InvalidLimit if it is there with other numbers."""
        known = self._limits.setdefault((limit.name, limit.queue), limit)
        if known != limit:
            label = f"limit {limit.name!r}" if limit.queue is None else f"limit of the queue {limit.queue!r}"
            raise InvalidLimit(f"the {label} is there already, with other numbers: make each limit once.")

    def declared(self) -> Declared:
        """The limits, as workers declare them."""
        return Declared(tuple(self._limits.values()), dict(self._homes))

    def schedule(self, definition: Definition) -> None:
        """Have a registered handler run at times. Raises InvalidHandler if the name is taken by another definition."""
        known = self._periodic.setdefault(definition.name, definition)
        if known != definition:
            raise InvalidHandler(
                f"the periodic task {definition.name!r} is there already ({known.schedule}): give this one a name=… of "
                f"its own."
            )

    def periodic(self) -> tuple[Definition, ...]:
        """What runs at times, by name, without what the settings decide; `timetable.definitions` adds that."""
        return tuple(self._periodic[name] for name in sorted(self._periodic))

    def get(self, name: str) -> Handler | None:
        """The handler of a task type, None if this app has none."""
        return self._handlers.get(name)

    def redacted(self, name: str) -> tuple[str, ...]:
        """The names whose values in tasks of a type are shown to nobody; none for a type that is not known here."""
        handler = self.get(name)
        return () if handler is None else handler.defaults.redact

    def types(self) -> tuple[str, ...]:
        """The task types that have handlers, sorted."""
        return tuple(sorted(self._handlers))

    @property
    def isolates(self) -> bool:
        """Whether a handler wants a process of its own."""
        return any(handler.isolation is not None for handler in self._handlers.values())

    def schemas(self) -> dict[str, str]:
        """By task type, what tells its parameters from those of another build."""
        return {name: self._handlers[name].schema for name in self.types()}

    def published(self) -> tuple[TaskSchema, ...]:
        """What other processes may know of the handlers, by type."""
        return tuple(self._handlers[name].published() for name in self.types())

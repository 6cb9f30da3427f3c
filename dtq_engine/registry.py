"""Handlers by the name of their task type."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from dtq_engine import codec
from dtq_engine.arguments import Arguments
from dtq_engine.errors import InvalidHandler
from dtq_engine.options import Defaults
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
    ) -> None:
        """Raises InvalidHandler if `fn` cannot be called with named JSON arguments."""
        _check_reactions(name, retry, permanent)
        self.name = name
        self.fn = fn
        self.defaults = defaults or Defaults()
        self.retry = retry
        self.permanent = permanent
        self.signature: Signature = read_signature(name, fn)
        self.is_async = inspect.iscoroutinefunction(underlying(fn))
        self._arguments = Arguments(self.signature)
        self._results = msgspec.json.Decoder(self.signature.returns)

    @property
    def takes_context(self) -> bool:
        """Whether the first argument of a call is a TaskContext."""
        return self.signature.context is not None

    @property
    def schema(self) -> str:
        """What tells these parameters from those of another build of the handler."""
        return self._arguments.digest

    def encode_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The payload of a call, context left out. Raises InvalidTask, which names the argument that is wrong."""
        return self._arguments.encode(args, kwargs)

    def bind_payload(self, payload: bytes) -> dict[str, Any]:
        """The keyword arguments to call `fn` with. Raises InvalidTask if the payload does not fit the signature."""
        return self._arguments.decode(payload)

    def encode_result(self, value: object) -> bytes | None:
        """A result as JSON, None for None. Raises NotJson if it could not be read back as it is."""
        if value is None:
            return None
        result = codec.write(value, "the result")
        arrived = codec.decode(result)
        if not codec.is_same(value, arrived):
            codec.refuse_loss(value, self.decode_result(result), "the result")
        return result

    def decode_result(self, result: bytes | None) -> Any:
        """A result in the type that the handler's annotation promises, or as plain JSON if it did not keep to it."""
        if result is None:
            return None
        try:
            return self._results.decode(result)
        except msgspec.ValidationError:
            return codec.decode(result)

    def is_same_as(self, other: "Handler") -> bool:
        """Whether both register one function in one way."""
        return (self.fn, self.defaults, self.retry, self.permanent) == (
            other.fn,
            other.defaults,
            other.retry,
            other.permanent,
        )


def _check_reactions(name: str, retry: object, permanent: object) -> None:
    if retry is not None and not callable(retry):
        raise InvalidHandler(f"task {name!r} cannot be registered: retry must be a function of error and attempt.")
    kinds = cast("tuple[object, ...]", permanent) if isinstance(permanent, tuple) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise InvalidHandler(f"task {name!r} cannot be registered: permanent must be a tuple of exception classes.")


@dataclass(slots=True)
class Registry:
    """The handlers of one app."""

    _handlers: dict[str, Handler] = field(default_factory=dict[str, Handler])

    def add(self, handler: Handler) -> None:
        """Register a handler. Raises InvalidHandler if its name is taken by another function or other options."""
        known = self._handlers.setdefault(handler.name, handler)
        if not known.is_same_as(handler):
            raise InvalidHandler(
                f"the task name {handler.name!r} is taken by {known.fn!r}: give {handler.fn!r} another name."
            )

    def get(self, name: str) -> Handler | None:
        """The handler of a task type, None if this app has none."""
        return self._handlers.get(name)

    def types(self) -> tuple[str, ...]:
        """The task types that have handlers, sorted."""
        return tuple(sorted(self._handlers))

    def schemas(self) -> dict[str, str]:
        """By task type, what tells its parameters from those of another build."""
        return {name: self._handlers[name].schema for name in self.types()}

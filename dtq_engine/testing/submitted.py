"""What was submitted in a test, and whether that is what the test wanted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from dtq_engine import codec
from dtq_engine.engine import Dtq
from dtq_engine.errors import InvalidTask, NotJson
from dtq_engine.handle import Handle
from dtq_engine.model import NewTask, Receipt
from dtq_engine.registry import Registry
from dtq_engine.task import Submitter
from dtq_engine.testing.errors import KitMisused

OPTIONS = (
    "id",
    "queue",
    "priority",
    "delay",
    "run_at",
    "expires_in",
    "timeout",
    "max_attempts",
    "idempotency_key",
    "headers",
)
SHOWN = ("queue", "priority", "delay", "run_at", "expires_in", "idempotency_key", "headers")
PLAIN: Mapping[str, object] = {"queue": "default", "priority": 5, "delay": 0, "headers": {}}


@dataclass(frozen=True, slots=True)
class Submitted:
    """A task that was accepted: what it is to do, and the options it was given. Durations are seconds."""

    type: str
    arguments: Mapping[str, Any]
    """By name, in the types that the handler gets, or as plain JSON if the app has no such handler."""
    payload: bytes
    id: str
    queue: str
    priority: int
    delay: float
    run_at: datetime | None
    expires_in: float | None
    timeout: float
    max_attempts: int
    idempotency_key: str | None
    headers: Mapping[str, str]
    handle: Handle[Any]

    @classmethod
    def of(cls, app: Dtq, task: NewTask, receipt: Receipt) -> "Submitted":
        """The record of a task and of the answer to it."""
        return cls(
            type=task.type,
            arguments=_arguments(app.registry, task),
            payload=task.payload,
            id=receipt.id,
            queue=receipt.queue,
            priority=task.priority,
            delay=task.delay_ms / 1000,
            run_at=None if task.run_at_ms is None else datetime.fromtimestamp(task.run_at_ms / 1000, UTC),
            expires_in=None if task.expires_in_ms is None else task.expires_in_ms / 1000,
            timeout=task.timeout_ms / 1000,
            max_attempts=task.retry.max_attempts,
            idempotency_key=task.idempotency_key,
            headers=dict(task.headers),
            handle=Handle(app, receipt.id, receipt.queue),
        )

    def __str__(self) -> str:
        options = {name: getattr(self, name) for name in SHOWN}
        unusual = {name: value for name, value in options.items() if value != PLAIN.get(name)}
        return _call(self.type, self.arguments) + "".join(f" {name}={_shown(value)}" for name, value in unusual.items())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a test looks for: a type (None: any), some of the arguments, some of the options."""

    type: str | None
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        registry: Registry,
        task: "str | Submitter[..., Any] | None",
        args: Sequence[Any],
        arguments: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> "Wanted":
        """Raises KitMisused for unknown options and for positional arguments that have no name."""
        if unknown := sorted(options.keys() - set(OPTIONS)):
            raise KitMisused(f"{unknown[0]} is not an option of a task: use {', '.join(OPTIONS)}.")
        if not isinstance(task, Submitter | str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KitMisused(f"{task!r} is no task: name its type, or pass what @app.task(…) made of the function.")
        name = task.name if isinstance(task, Submitter) else task
        handler = registry.get(name) if name else None
        positions = handler.signature.positions if handler else ()
        if len(args) > len(positions):
            raise KitMisused(
                f"{name} takes {len(positions)} positional arguments, as far as is known: name the others."
            )
        return cls(name, dict(zip(positions, args, strict=False)) | dict(arguments), dict(options))

    def check(self, registry: Registry, *, spelt: bool) -> None:
        """Raise KitMisused for what no submit could match: a misspelt type, an argument that the type has not.

        `spelt`: the type was given as a word, and not by a function, which may be another app's.
        """
        handler = registry.get(self.type) if self.type else None
        if handler is None:
            if spelt and (near := get_close_matches(self.type or "", registry.types(), n=1)):
                raise KitMisused(f"{self.type} is no task of the app: did you mean {near[0]}?")
            return
        unknown = sorted(self.arguments.keys() - handler.signature.types.keys())
        if unknown and not handler.signature.takes_others:
            raise KitMisused(f"{self.type} has no argument {unknown[0]}, so that this says nothing: correct it.")

    def misspelt(self, registry: Registry) -> Iterator[str]:
        """What is wrong with the names of the arguments, for a message."""
        handler = registry.get(self.type) if self.type else None
        if handler is not None and not handler.signature.takes_others:
            known = list(handler.signature.types)
            for name in self.arguments:
                if name not in known:
                    near = get_close_matches(name, known, n=1)
                    yield f"{self.type} has no argument {name}" + (f"; did you mean {near[0]}?" if near else ".")

    def among(self, submitted: Iterable[Submitted]) -> list[Submitted]:
        """Those that match, in the order in which they were submitted."""
        return [each for each in submitted if self._matches(each)]

    def _matches(self, found: Submitted) -> bool:
        if self.type is not None and found.type != self.type:
            return False
        plain = codec.decode_object(found.payload)
        return all(
            name in plain and _is_argument(value, found.arguments.get(name), plain[name])
            for name, value in self.arguments.items()
        ) and all(_is_option(value, getattr(found, name)) for name, value in self.options.items())

    def __str__(self) -> str:
        options = "".join(f" {name}={_shown(value)}" for name, value in self.options.items())
        return (_call(self.type, self.arguments) if self.type or self.arguments else "a task") + options


def _arguments(registry: Registry, task: NewTask) -> Mapping[str, Any]:
    handler = registry.get(task.type)
    try:
        return handler.bind_payload(task.payload) if handler else codec.decode_object(task.payload)
    except (InvalidTask, NotJson):
        return codec.decode_object(task.payload)


def _is_argument(wanted: Any, typed: Any, plain: Any) -> bool:
    """Whether a value is the one wanted: as the handler gets it, or as it travels."""
    if wanted in (typed, plain):
        return True
    try:
        return bool(codec.decode(codec.write(wanted)) == plain)
    except NotJson:
        return False


def _is_option(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, timedelta):
        wanted = wanted.total_seconds()
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return wanted.items() <= found.items()  # hooks may add headers of their own
    return bool(wanted == found)


def _call(type: str | None, arguments: Mapping[str, Any]) -> str:
    return f"{type or 'any task'}({', '.join(f'{name}={_shown(value)}' for name, value in arguments.items())})"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."

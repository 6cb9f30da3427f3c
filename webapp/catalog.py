"""The task types that workers have published: what their payloads look like, and what is to be masked in them."""

import difflib
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import msgspec

from dtq_engine import Dtq, InvalidTask, TaskSchema

FRESH_S = 5.0
"""How long what was read is taken for true."""

_log = logging.getLogger("dtq.web")


@dataclass(frozen=True, slots=True)
class Published:
    """One task type: its schemas (several while releases differ), and what judges payloads by each."""

    name: str
    schemas: tuple[TaskSchema, ...]
    validators: tuple[Any, ...]

    @property
    def is_alive(self) -> bool:
        """Whether a living worker has it."""
        return any(schema.workers for schema in self.schemas)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """What the type decides for its tasks."""
        return self.schemas[-1].defaults

    def check(self, payload: bytes) -> None:
        """Raise InvalidTask, which names the argument, unless a payload fits one of the schemas."""
        if not self.validators:
            return
        value = msgspec.json.decode(payload)
        if not any(validator.is_valid(value) for validator in self.validators):
            error = next(iter(self.validators[-1].iter_errors(value)))
            raise _refusal(self.name, self.schemas[-1], error)


class Catalog:
    """The published types of an app, read from Redis when they are needed, at most every few seconds."""

    def __init__(self, app: Dtq) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._types: Mapping[str, Published] | None = None
        self._redacted: dict[str, tuple[float, frozenset[str]]] = {}
        self._stale_at = 0.0

    def find(self, name: str) -> Published | None:
        """A type by its name; None if neither a living worker nor this process has it. Raises as reading Redis does."""
        return self.types().get(name)

    def redacted(self, name: str) -> frozenset[str]:
        """The names whose values in tasks of a type are shown to nobody, whether or not a worker lives."""
        now = time.monotonic()
        stale_at, names = self._redacted.get(name, (0.0, frozenset[str]()))
        if now >= stale_at:
            names = self._app.store.schemas.redacted(name)
            self._redacted[name] = now + FRESH_S, names
        return names

    def types(self) -> Mapping[str, Published]:
        """All types by name."""
        types = self._types
        if types is not None and time.monotonic() < self._stale_at:
            return types
        # One thread reads; the others go on with what is there, and wait only if nothing is.
        if self._lock.acquire(blocking=types is None):
            try:
                if time.monotonic() >= self._stale_at or self._types is None:
                    self._types = self._read()
                    self._stale_at = time.monotonic() + FRESH_S
            finally:
                self._lock.release()
        return self._types or {}

    def _read(self) -> Mapping[str, Published]:
        known = self._types or {}
        by_name: dict[str, list[TaskSchema]] = {}
        for schema in self._app.store.schemas.list():
            by_name.setdefault(schema.type, []).append(schema)
        for schema in self._app.registry.published():  # where the web process is part of an app that has handlers
            by_name.setdefault(schema.type, [schema])
        return {name: _published(name, schemas, known.get(name)) for name, schemas in by_name.items()}


def _published(name: str, schemas: Sequence[TaskSchema], before: Published | None) -> Published:
    if before is not None and [each.digest for each in before.schemas] == [each.digest for each in schemas]:
        return Published(name, tuple(schemas), before.validators)
    validators = [_validator(each) for each in schemas]
    # What one release cannot say, it may accept.
    return Published(name, tuple(schemas), () if None in validators else tuple(validators))


def _validator(schema: TaskSchema) -> Any:
    try:
        return jsonschema_rs.Draft202012Validator(dict(schema.parameters), mask="it")
    except (ValueError, jsonschema_rs.ValidationError) as error:
        _log.warning("payloads of %s are not checked, because its schema cannot be used: %s", schema.type, error)
        return None


def _refusal(name: str, schema: TaskSchema, error: Any) -> InvalidTask:
    path = [str(step) for step in error.instance_path]
    if not path and (unknown := re.search(r"\('(.*)' was unexpected\)", error.message)):
        known = sorted(schema.parameters.get("properties", {}))
        near = difflib.get_close_matches(unknown[1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known) or 'none'}."
        return InvalidTask(f"payload.{unknown[1]}", f"{name} has no argument {unknown[1][:64]}; {hint}")
    if not path and (missing := re.fullmatch(r'"(.*)" is a required property', error.message)):
        return InvalidTask(f"payload.{missing[1]}", f"{name} needs the argument {missing[1]}: pass it.")
    where = ".".join(["payload", *path])
    return InvalidTask(where, f"{name}: {where}: {error.message[:300]}.")

"""Unique tasks, throttling and debouncing, as task types and calls ask for them.

A key says which tasks are alike; `unique_keys` makes it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, cast

import msgspec

from dtq_engine import codec, validate
from dtq_engine.errors import InvalidTask
from dtq_engine.model import Deduplication, NewTask, Unique
from dtq_engine.signature import Signature
from dtq_engine.unique_keys import Bind, UniqueKey, key_of, names_in, read_key
from dtq_engine.words import nearest


class DeduplicationOptions(TypedDict, total=False):
    """What `Dtq.task` and `Submitter.options` take of this; None leaves an option as it is.

    `unique`: no second task while one with the same key waits for its first start ("waiting") or has not ended
    ("until_done"); "no" ignores, in a call, what the type says. `unique_key`: what makes tasks alike, instead of all
    arguments. `at_most` tasks are accepted `per` so many seconds, at whatever time one looks. `debounce`: a task starts
    so many seconds after the last submit of its key, with what that said, but no later than `debounce_max` seconds
    after the first. All within one queue.
    """

    unique: Literal["waiting", "until_done", "no"] | None
    unique_key: UniqueKey | None
    at_most: int | None
    per: float | timedelta | None
    debounce: float | timedelta | None
    debounce_max: float | timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a type or a call says; `off` takes back what the type says."""

    unique: Unique | None = None
    key: UniqueKey | None = None
    at_most: int | None = None
    per_ms: int | None = None
    debounce_ms: int | None = None
    debounce_max_ms: int | None = None
    off: bool = False

    def over(self, earlier: "Rule | None") -> "Rule":
        """What this rule says, else the earlier one; `off` leaves only the key of that."""
        if earlier is None:
            return self
        base = Rule(key=earlier.key) if self.off else earlier
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        given |= {"off": self.off or earlier.off}
        return replace(base, **{name: value for name, value in given.items() if value is not None})

    def plain(self) -> Deduplication | None:
        """What tasks say, but for the key; None if that is nothing. Raises InvalidTask for what is at odds."""
        found = Deduplication(
            unique=self.unique,
            at_most=self.at_most,
            per_ms=self.per_ms,
            debounce_ms=self.debounce_ms,
            debounce_max_ms=self.debounce_max_ms,
        )
        if found == Deduplication():
            if self.key is not None and not self.off:
                raise InvalidTask("unique_key", "unique_key alone means nothing: give unique, at_most or debounce too.")
            return None
        validate.check_deduplication(found)
        return found

    def maker(self, make: Callable[..., NewTask], bind: Bind = codec.decode_object) -> Callable[..., NewTask]:
        """`make`, which makes a task of an id and a payload, for tasks that say what this rule says.

        `bind` gives the arguments for a function that makes the key. Raises InvalidTask, at once for what is at odds.
        """
        plain, key = self.plain(), self.key
        if plain is None or key is None:
            return functools.partial(make, deduplication=plain)

        def keyed(**given: Any) -> NewTask:
            task = make(**given)
            return replace(task, deduplication=replace(plain, key=key_of(key, task, bind)))

        return keyed


def read_rule(
    *,
    unique: object = None,
    unique_key: object = None,
    at_most: object = None,
    per: object = None,
    debounce: object = None,
    debounce_max: object = None,
) -> Rule | None:
    """A rule as given, None for none. Raises InvalidTask, which names the option that is wrong."""
    if all(each is None for each in (unique, unique_key, at_most, per, debounce, debounce_max)):
        return None
    if unique not in (None, "no", *Unique):
        raise InvalidTask("unique", f"unique cannot be {validate.shown(unique)}: use 'waiting', 'until_done' or 'no'.")
    return Rule(
        unique=None if unique is None or unique == "no" else Unique(cast(str, unique)),
        key=None if unique_key is None else read_key(unique_key),
        at_most=None if at_most is None else validate.at_most(at_most),
        per_ms=_milliseconds("per", per),
        debounce_ms=_milliseconds("debounce", debounce),
        debounce_max_ms=_milliseconds("debounce_max", debounce_max),
        off=unique == "no",
    )


def check_key(rule: Rule | None, signature: Signature) -> None:
    """Raise InvalidTask, which names `unique_key`, unless the key can be made of a handler's parameters."""
    if rule is None or rule.key is None:
        return
    for name in names_in(rule.key):
        if name not in signature.types and not signature.takes_others:
            hint = nearest(name, signature.types, f"it has {', '.join(signature.types) or 'none'}.")
            raise InvalidTask("unique_key", f"unique_key names {name}, which is no parameter of the handler; {hint}")


def encode_function(value: object) -> object:
    """How a function in a rule is published: by its name, as others cannot call it."""
    if callable(value):
        return {"function": getattr(value, "__qualname__", type(value).__name__)}
    raise NotImplementedError(f"{value!r} cannot be published")


def read_published(type: str, found: object) -> Rule | None:
    """A type's rule as a worker has published it; None for none, and for one that cannot be read here."""
    if found is None:
        return None
    try:
        return msgspec.convert(found, _Published).rule(type)
    except msgspec.ValidationError:
        return None


class _Published(msgspec.Struct):
    unique: Unique | None = None
    key: list[str] | str | dict[str, str] | None = None
    at_most: int | None = None
    per_ms: int | None = None
    debounce_ms: int | None = None
    debounce_max_ms: int | None = None

    def rule(self, type: str) -> Rule:
        key = _Elsewhere(type) if isinstance(self.key, dict) else self.key
        return Rule(
            unique=self.unique,
            key=tuple(key) if isinstance(key, list) else key,
            at_most=self.at_most,
            per_ms=self.per_ms,
            debounce_ms=self.debounce_ms,
            debounce_max_ms=self.debounce_max_ms,
        )


class _Elsewhere:
    """Stands for the function of a type whose handler this process does not have."""

    def __init__(self, type: str) -> None:
        self._type = type

    def __call__(self, **_arguments: object) -> object:
        raise InvalidTask(
            "unique_key",
            f"the unique key of {self._type} is made by a function, which only processes that have the handler can "
            f"call: give a unique_key, or unique 'no'.",
        )


def _milliseconds(field: str, value: object) -> int | None:
    return None if value is None else validate.duration_ms(field, value, low_ms=1)

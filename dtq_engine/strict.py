"""JSON from strangers, read into a class: whatever is wrong with it is said in one sentence that names the field."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from dtq_engine import codec, losses
from dtq_engine.errors import InvalidTask, NotJson
from dtq_engine.words import taken

T = TypeVar("T")

_PLACE = re.compile(r" - at `\$?\.?(?P<place>.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`$", re.DOTALL)
_OTHER = re.compile(r"Invalid enum value (?P<value>.*)$|Expected `str` matching regex", re.DOTALL)
_STEP = re.compile(r"\[[^\]]*\]|[^.\[]+")


class Reader(Generic[T]):
    """Reads one class of msgspec's; made once, used by all threads."""

    def __init__(self, kind: type[T], noun: str = "the body") -> None:
        self._kind = kind
        self._noun = noun
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, data: bytes) -> T:
        """The value in `data`. Raises NotJson for what is no JSON or ambiguous, InvalidTask for what does not fit."""
        found = self.read_part(data)
        refuse_repeated_names(data)
        return found

    def read_part(self, data: bytes) -> T:
        """As `read`, for a part of what was read as a whole, where no name is repeated."""
        try:
            found = self._decoder.decode(data)
            losses.refuse_depth(data)
        except msgspec.ValidationError as error:
            codec.decode(data)  # first of all it must be JSON within its limits
            raise misfit(str(error), self._kind, self._noun) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise codec.unreadable(error, data) from None
        return found


def misfit(problem: str, kind: Any, noun: str) -> InvalidTask:
    """What msgspec says of a value that is no `kind`, as an error that names the field."""
    place = found["place"] if (found := _PLACE.search(problem)) else ""
    what = problem[: found.start()] if found else problem
    if unknown := _UNKNOWN.match(what):
        name = unknown["name"]
        hint = taken(name, names_of(kind))
        return InvalidTask(_joined(place, name), f"{noun} has no field {_short(name)}; {hint}")
    if missing := _MISSING.match(what):
        field = _joined(place, missing["name"])
        return InvalidTask(field, f"{noun} lacks the field {field}: add it.")
    if (other := _OTHER.match(what)) and (takes := _taken(kind, place)):
        got = f", not {_short(other['value'])}" if other["value"] else ""
        return InvalidTask(place or "body", f"{place or noun}: it takes {takes}{got}.")
    sentence = what.replace("`", "")
    return InvalidTask(place or "body", f"{place or noun}: {sentence[:1].lower()}{sentence[1:]}.")


def names_of(kind: Any) -> tuple[str, ...]:
    """The fields that a class reads; none for what is no class of msgspec's."""
    return getattr(kind, "__struct_encode_fields__", ())


def _taken(kind: Any, place: str) -> str:
    """In words, what a class takes at a place: of a pattern its description says so. Empty where nobody does."""
    found = [_type_of(kind)]
    for step in _STEP.findall(place):
        found = [inner for each in found for plain, _ in _plain(each) for inner in _inside(plain, step)]
    words = [word for each in found for plain, said in _plain(each) for word in _words(plain, said)]
    *most, last = words or [""]
    return f"{', '.join(most)} or {last}" if most else last


@lru_cache(maxsize=128)
def _type_of(kind: Any) -> inspect.Type:
    """What msgspec knows of a class; it takes longer to tell than to read most bodies."""
    return inspect.type_info(kind)


def _plain(found: inspect.Type, said: str = "") -> Iterator[tuple[inspect.Type, str]]:
    """The types that a type stands for, each with its description."""
    match found:
        case inspect.Metadata():
            schema: dict[str, Any] = cast(Any, found).extra_json_schema or {}
            yield from _plain(found.type, schema.get("description", said))
        case inspect.UnionType():
            for each in found.types:
                yield from _plain(each, said)
        case _:
            yield found, said


def _inside(found: inspect.Type, step: str) -> Iterator[inspect.Type]:
    match found:
        case inspect.StructType():
            yield from (field.type for field in found.fields if field.encode_name == step)
        case inspect.ListType():
            yield found.item_type
        case inspect.DictType():
            yield found.value_type
        case _:
            return


def _words(found: inspect.Type, said: str) -> Iterator[str]:
    match found:
        case inspect.LiteralType():
            yield from map(repr, found.values)
        case inspect.EnumType():
            yield from (repr(member.value) for member in found.cls)
        case inspect.StrType() if found.pattern and said:
            yield said[:1].lower() + said[1:].rstrip(".").replace("`", "")
        case inspect.IntType() | inspect.FloatType():
            yield "a number"
        case inspect.StructType() | inspect.DictType():
            yield "an object"
        case _:
            return


def refuse_repeated_names(data: bytes) -> None:
    """Raise NotJson if an object in `data`, which must be JSON, has a name twice: which of the two was meant?"""
    try:
        # msgspec cannot tell: it keeps the last one without a word.
        _looking.decode(data.decode())
    except (RecursionError, ValueError) as error:
        raise codec.unreadable(error, data) from None


def _look(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) > len(names := dict(pairs)):
        twice = next(name for name in names if sum(name == each for each, _ in pairs) > 1)
        raise NotJson("the value", f"it has the name {_short(twice)!r} twice in one object: leave one out.")


# Numbers are not looked at, and so need not be made.
_looking = json.JSONDecoder(object_pairs_hook=_look, parse_int=len, parse_float=len)


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _short(text: str) -> str:
    return text if len(text) <= 64 else f"{text[:63]}…"

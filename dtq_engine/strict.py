"""JSON from strangers, read into a class: whatever is wrong with it is said in one sentence that names the field."""

import difflib
import json
import re
from typing import Any, Generic, TypeVar

import msgspec

from dtq_engine import codec, losses
from dtq_engine.errors import InvalidTask, NotJson

T = TypeVar("T")

_PLACE = re.compile(r" - at `\$?\.?(?P<place>.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`$", re.DOTALL)


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
        near = difflib.get_close_matches(name, names_of(kind), n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names_of(kind)) or 'none'}."
        return InvalidTask(_joined(place, name), f"{noun} has no field {_short(name)}; {hint}")
    if missing := _MISSING.match(what):
        field = _joined(place, missing["name"])
        return InvalidTask(field, f"{noun} lacks the field {field}: add it.")
    sentence = what.replace("`", "")
    return InvalidTask(place or "body", f"{place or noun}: {sentence[:1].lower()}{sentence[1:]}.")


def names_of(kind: Any) -> tuple[str, ...]:
    """The fields that a class reads; none for what is no class of msgspec's."""
    return getattr(kind, "__struct_encode_fields__", ())


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

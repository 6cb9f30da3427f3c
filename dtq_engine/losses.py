"""What a value would lose on its way through JSON, and where. It is walked only once something is known to be wrong."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, time
from typing import Any, cast

import msgspec

from dtq_engine.errors import NotJson

MAX_DEPTH = 256
"""How many objects and arrays may lie within each other."""

TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep, or contains itself: send it flatter"

_BRACKETS = b"[]{}"
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(each for each in range(256) if each not in _BRACKETS)

Pair = tuple[str, object, object]


def refuse_loss(value: object, arrived: object, path: str) -> None:
    """Raise NotJson if `value`, read back as `arrived`, lost anything on the way.

    Equal parts are fine, a list may arrive for a tuple, and what was JSON to begin with may arrive as the
    richer type that its reader asked for; only bytes are not made of text that merely looks like base64.
    """
    waiting = [(value, arrived, path)]
    while waiting:
        part, other, where = waiting.pop()
        if is_same(part, other):
            continue
        pairs = _pairs(part, other, where)
        if pairs is None:
            _refuse_other(part, other, where)
        else:
            waiting.extend((inner, outer, where + step) for step, inner, outer in pairs)


def refuse_what_is_not_json(value: object, path: str) -> None:
    """Raise NotJson for the first part of `value` that JSON cannot hold as it is; a tuple may stand for an array."""
    _refuse_first(_problem, value, path)


def refuse_what_is_no_number(value: object, path: str) -> None:
    """Raise NotJson for the first NaN or infinity: they are written as null, which would puzzle whoever passed them."""
    _refuse_first(lambda part: _problem(part) if isinstance(part, float) else None, value, path)


def refuse_what_cannot_be_written(value: object, path: str, encode: Callable[[object], bytes]) -> None:
    """Raise NotJson for the first part of `value` that `encode` fails on."""

    def problem(part: object) -> str | None:
        # Those with parts are judged by their parts, and by their keys.
        if _parts_of(part) is not None:
            return _unwritable_key(cast("dict[object, object]", part)) if isinstance(part, dict) else None
        return (_problem(part) or "cannot be written as JSON: convert it first") if fails(part) else None

    def fails(part: object) -> bool:
        try:
            encode(part)
        except Exception:
            return True
        return False

    def _unwritable_key(part: dict[object, object]) -> str | None:
        return next((_key_said(key) for key in part if fails({key: None})), None)

    _refuse_first(problem, value, path)


def refuse_depth(data: bytes, path: str = "") -> None:
    """Raise NotJson if objects and arrays in `data`, which must be JSON, lie within each other too deeply.

    A reader deeper in its own stack than the writer would fail on what the writer could still handle.
    """
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_TO_SQUARE, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise NotJson(named(path), f"{named(path)} {TOO_DEEP}.")


def is_same(left: object, right: object) -> bool:
    """Whether two values are equal; not, if comparing fails."""
    try:
        return bool(left == right)
    except Exception:
        return False


def named(path: str) -> str:
    """A place within a value, for people."""
    path = path.lstrip(".") or "the value"
    return path if len(path) <= 120 else f"{path[:60]}…{path[-59:]}"


def _refuse(path: str, problem: str) -> None:
    raise NotJson(named(path), f"{named(path)} {problem}.")


def _refuse_first(problem_of: Callable[[object], str | None], value: object, path: str) -> None:
    waiting = [(value, path, 1)]
    while waiting:
        part, where, depth = waiting.pop()
        problem = TOO_DEEP if depth > MAX_DEPTH + 1 else problem_of(part)
        if problem:
            _refuse(where, problem)
        waiting.extend((inner, where + step, depth + 1) for step, inner in _parts_of(part) or ())


def _refuse_other(part: object, other: object, path: str) -> None:
    """Two values that differ as a whole: fine if the one is JSON, and the other what its reader makes of it."""
    if type(part) is type(other):
        if repr(part) != repr(other):  # those of NaN are the same
            _refuse(path, _odd_offset(part) or f"would arrive as {_short(other)}: send it in another form")
    elif isinstance(part, str) and isinstance(other, bytes):
        _refuse(path, "is text where bytes are expected: pass bytes")
    elif isinstance(part, int) and isinstance(other, float):
        _refuse(path, f"is {_short(part)}, which no float is equal to: send an int, or a smaller number")
    else:
        refuse_what_is_not_json(part, path)


def _odd_offset(part: object) -> str | None:
    offset = part.utcoffset() if isinstance(part, datetime | time) else None
    if offset is None or not offset.total_seconds() % 60:
        return None
    return f"is {offset} away from UTC, and JSON has no form for the seconds of that: convert it to UTC first"


def _problem(part: object) -> str | None:
    match part:
        case None | bool() | list() | tuple():
            return None
        case str():
            return None if _is_encodable(part) else "holds a lone surrogate, which is not Unicode text: remove it"
        case float():
            return None if math.isfinite(part) else f"is {part}, which JSON has no form for: use None or a string"
        case int():
            return None if _is_printable(part) else "is an integer of too many digits: send it as a string"
        case dict():
            keys = cast("dict[object, object]", part)
            bad = [key for key in keys if not isinstance(key, str) or not _is_encodable(key)]
            return _key_said(bad[0]) if bad else None
        case _:
            name = type(part).__name__
            return f"is of type {name}, which JSON has no form for: convert it first, or annotate its type"


def _key_said(key: object) -> str:
    return f"has the key {_short(key)}, and JSON allows only valid text as keys: convert it first"


def _parts_of(part: object) -> Iterator[tuple[str, object]] | None:
    """What a value is made of, with the step that leads there; None if it has no parts."""
    if isinstance(part, dict):
        return ((f".{key}", inner) for key, inner in cast("dict[object, object]", part).items())
    if isinstance(part, list | tuple):
        return ((f"[{at}]", inner) for at, inner in enumerate(cast("Sequence[object]", part)))
    fields = _fields(part)
    return None if fields is None else ((f".{name}", inner) for name, inner in fields.items())


def _fields(part: object) -> dict[str, object] | None:
    """The fields of an object by their names in JSON; None for what is no such object."""
    if isinstance(part, msgspec.Struct):
        names = dict(zip(part.__struct_encode_fields__, part.__struct_fields__, strict=True))
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        names = {each.name: each.name for each in dataclasses.fields(part)}
    elif hasattr(type(part), "__attrs_attrs__"):
        names = {each.name: each.name for each in cast("Any", type(part)).__attrs_attrs__}
    else:
        return None
    return {name: getattr(part, attribute, None) for name, attribute in names.items()}


def _pairs(part: object, other: object, path: str) -> Sequence[Pair] | None:
    """The parts of two values of the same shape side by side; None if the shapes differ."""
    match part, other:
        case dict(), dict():
            return _pairs_of_objects(cast("dict[object, object]", part), cast("dict[object, object]", other), path)
        case dict(), _:
            fields = _fields(other)
            return None if fields is None else _pairs_by_name(cast("dict[object, object]", part), fields)
        case list() | tuple(), list() | tuple():
            ours, theirs = cast("Sequence[object]", part), cast("Sequence[object]", other)
            return [(f"[{at}]", *each) for at, each in enumerate(zip(ours, theirs, strict=False))]
        case _:
            return _pairs_of_fields(part, other)


def _pairs_of_fields(part: object, other: object) -> list[Pair] | None:
    fields = _fields(part) if type(part) is type(other) else None
    return None if fields is None else _pairs_by_name(fields, _fields(other) or {})


def _pairs_by_name(ours: Mapping[Any, object], theirs: Mapping[str, object]) -> list[Pair]:
    return [(f".{name}", inner, theirs[name]) for name, inner in ours.items() if name in theirs]


def _pairs_of_objects(ours: dict[object, object], theirs: dict[object, object], path: str) -> list[Pair] | None:
    """The members of two objects; None if some were lost, as when two keys are one to their reader."""
    if len(ours) != len(theirs):
        return None
    # JSON keeps the order, and a key may arrive as the richer type that its reader asked for.
    for key, arrived in zip(ours, theirs, strict=True):
        if not is_same(key, arrived) and (not isinstance(key, str) or isinstance(arrived, bytes)):
            _refuse(path, _key_said(key))
    return [(f".{key}", inner, outer) for (key, inner), outer in zip(ours.items(), theirs.values(), strict=True)]


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or _is_printable(value) else "an integer"
    return text if len(text) <= 100 else f"{text[:99]}…"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_printable(number: int) -> bool:
    try:
        str(number)
    except ValueError:
        return False
    return True

"""JSON in and out, exactly: what is read back equals what was written, or writing is refused.

msgspec does the work; this module closes its gaps. It would write NaN as null, a set as an array, bytes as
base64 and the key 1 as "1", all of which come back as something else. So a value is read back and compared
first; only when that differs is it walked, to name the culprit.

Exceptions, which have no JSON form, are described instead.
"""

import dataclasses
import json
import math
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from dtq_engine.errors import NotJson
from dtq_engine.model import AttemptError

MAX_DEPTH = 256
"""How many objects and arrays may lie within each other."""

MESSAGE_MAX_BYTES = 1024
TRACEBACK_MAX_BYTES = 4096

_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep, or contains itself: send it flatter"
_BRACKETS = b"[]{}"
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(each for each in range(256) if each not in _BRACKETS)

_encoder = msgspec.json.Encoder()
_sorting_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()
_object_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(value: object, path: str = "") -> bytes:
    """A JSON value as UTF-8 bytes that decode to an equal one. Raises NotJson, which says where it is not JSON.

    A tuple may stand for an array. Keys must be strings. NaN, infinities, bytes, sets and other objects are
    refused, because JSON has no form for them.
    """
    data = write(value, path)
    refuse_loss(value, decode(data), path)
    return data


def write(value: object, path: str = "") -> bytes:
    """Like `encode`, but whatever msgspec can write is written: dataclasses, datetimes, UUIDs, NaN as null, …"""
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        refuse_what_is_not_json(value, path)
        raise NotJson(_named(path), f"{_named(path)} cannot be written as JSON: {error}.") from None
    refuse_depth(data, path)
    return data


def decode(data: bytes) -> Any:
    """The JSON value in `data`. Raises NotJson if there is none."""
    try:
        value = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, data) from None
    refuse_depth(data)
    return value


def decode_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises NotJson if it is anything else."""
    try:
        value = _object_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, data) from None
    refuse_depth(data)
    return value


def canonical(data: bytes) -> bytes:
    """The same JSON value written in the one way that all equal values share, for fingerprints.

    Sorted keys, no blanks, numbers in their shortest form. Raises NotJson.
    """
    return _sorting_encoder.encode(decode(data))


def refuse_loss(value: object, arrived: object, path: str) -> None:
    """Raise NotJson if `value`, read back as `arrived`, lost anything on the way.

    Equal parts are fine, a list may arrive for a tuple, and what was JSON to begin with may arrive as the
    richer type that its reader asked for.
    """
    waiting = [(value, arrived, path)]
    while waiting:
        part, other, where = waiting.pop()
        if is_same(part, other):
            continue
        pairs = _pairs(part, other)
        if pairs is None:
            refuse_what_is_not_json(part, where)
        else:
            waiting.extend((inner, outer, where + step) for step, inner, outer in pairs)


def refuse_what_is_not_json(value: object, path: str) -> None:
    """Raise NotJson for the first part of `value` that JSON cannot hold as it is; a tuple may stand for an array."""
    waiting = [(value, path, 1)]
    while waiting:
        part, where, depth = waiting.pop()
        problem = _TOO_DEEP if depth > MAX_DEPTH + 1 else _problem(part)
        if problem:
            raise NotJson(_named(where), f"{_named(where)} {problem}.")
        waiting.extend((inner, where + step, depth + 1) for step, inner in _parts(part))


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
    raise NotJson(_named(path), f"{_named(path)} {_TOO_DEEP}.")


def is_same(left: object, right: object) -> bool:
    """Whether two values are equal; not, if comparing fails."""
    try:
        return bool(left == right)
    except Exception:
        return False


def unreadable(error: Exception, data: bytes) -> NotJson:
    """What is wrong with `data`, which msgspec could not read, as a NotJson."""
    if isinstance(error, RecursionError):
        return NotJson(_named(""), f"it {_TOO_DEEP}.")
    if isinstance(error, msgspec.ValidationError) and "out of range" not in str(error):
        return NotJson(_named(""), f"it is of the wrong kind: {str(error).replace('`', '').lower()}.")
    return NotJson(_named(""), f"it {_fault(data) or f'is not JSON: {_said(error)}'}.")


def _fault(data: bytes) -> str | None:
    """What well-formed JSON holds that is refused all the same; None if it is not well-formed."""
    faults: list[str] = []

    def look(literal: str) -> None:
        if not _is_in_range(literal):
            shown = literal if len(literal) <= 40 else f"{literal[:39]}…"
            faults.append(f"holds the number {shown}, which is out of range: send it as a string")

    def refuse(literal: str) -> None:
        faults.append(f"holds {literal}, which JSON has no form for: send null, or a string")

    try:
        json.loads(data.decode(), parse_int=look, parse_float=look, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    # The one other thing that Python's reader accepts and msgspec does not.
    return faults[0] if faults else "holds a lone surrogate such as \\ud800, which is not Unicode text: remove it"


def _said(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in str(error):
        return "it is not valid UTF-8"
    return str(error).removeprefix("JSON is malformed: ").replace("Input data was truncated", "its end is missing")


def describe_error(error: BaseException) -> AttemptError:
    """What is kept of an exception: class name, message of at most 1 KiB, last 4 KiB of the traceback.

    Never raises, whatever the exception's own methods do. A group's message lists its members; the traceback
    shows causes and members too.
    """
    return AttemptError(type(error).__name__, _head(_message(error)), _tail(_traceback(error)))


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
            return _key_problem(cast("dict[object, object]", part))
        case _:
            name = type(part).__name__
            return f"is of type {name}, which JSON has no form for: convert it first, or annotate its type"


def _key_problem(part: dict[object, object]) -> str | None:
    bad = [key for key in part if not isinstance(key, str) or not _is_encodable(key)]
    return f"has the key {bad[0]!r}, and JSON allows only valid text as keys: convert it first" if bad else None


def _parts(part: object) -> Iterator[tuple[str, object]]:
    if isinstance(part, dict):
        return ((f".{key}", inner) for key, inner in cast("dict[object, object]", part).items())
    if isinstance(part, list | tuple):
        return ((f"[{at}]", inner) for at, inner in enumerate(cast("Sequence[object]", part)))
    if isinstance(part, msgspec.Struct):
        return ((f".{name}", getattr(part, name)) for name in part.__struct_fields__)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return ((f".{each.name}", getattr(part, each.name)) for each in dataclasses.fields(part))
    return iter(())


def _pairs(part: object, other: object) -> list[tuple[str, object, object]] | None:
    """The parts of two values of the same shape side by side; None if the shapes differ."""
    if type(part) is not type(other) and not (_is_array(part) and _is_array(other)):
        return None
    ours, theirs = dict(_parts(part)), dict(_parts(other))
    if ours.keys() != theirs.keys() or _keys(part) != _keys(other):
        return None
    return [(step, inner, theirs[step]) for step, inner in ours.items()]


def _keys(part: object) -> set[object]:
    """The keys as they are: the steps of a path do not tell 1 from "1"."""
    return set(cast("dict[object, object]", part)) if isinstance(part, dict) else set()


def _is_array(part: object) -> bool:
    return isinstance(part, list | tuple)


def _named(path: str) -> str:
    path = path.lstrip(".") or "the value"
    return path if len(path) <= 120 else f"{path[:60]}…{path[-59:]}"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_in_range(literal: str) -> bool:
    try:
        if literal.strip("-0123456789"):
            return math.isfinite(float(literal))
        int(literal)
    except ValueError:  # an integer of more digits than Python reads
        return False
    return True


def _is_printable(number: int) -> bool:
    try:
        str(number)
    except ValueError:
        return False
    return True


def _message(error: BaseException) -> str:
    # A handler's exception may do anything in __str__, even raise SystemExit; the worker has to go on.
    try:
        text = str(error)
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            members = "; ".join(f"{type(each).__name__}: {_message(each)}" for each in group.exceptions[:10])
            return f"{text}: {members}"
        return text
    except BaseException as failure:
        return f"(no message: str() of this exception raised {type(failure).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as failure:
        return f"(no traceback: formatting it raised {type(failure).__name__})"


def _head(text: str) -> str:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MESSAGE_MAX_BYTES:
        return data.decode()
    return data[: MESSAGE_MAX_BYTES - 3].decode("utf-8", "ignore") + "…"


def _tail(text: str) -> str:
    return text.encode("utf-8", "backslashreplace")[-TRACEBACK_MAX_BYTES:].decode("utf-8", "ignore")

"""JSON in and out, exactly: what is read back equals what was written, or writing is refused.

msgspec does the work; this module closes its gaps. It would write NaN as null, a set as an array, bytes as
base64 and the key 1 as "1", all of which come back as something else. So a value is read back and compared
first; only when that differs is it walked, to name the culprit (`losses`).

Exceptions, which have no JSON form, are described instead.
"""

import json
import math
import traceback
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, cast

import msgspec

from dtq_engine import losses
from dtq_engine.errors import NotJson
from dtq_engine.model import AttemptError

MESSAGE_MAX_BYTES = 1024
TRACEBACK_MAX_BYTES = 4096


def _plain(value: object) -> object:
    """What msgspec writes for an object of a class derived from one that it knows. Raises TypeError for others."""
    match value:
        case str():  # as Django's SafeString and numpy's str_
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():  # as numpy's float64
            return float.__float__(value)
        case bytes():
            return bytes(value)
        case date() | time():  # as pandas' Timestamp; a datetime is a date
            return value.isoformat()
        case timedelta():
            return timedelta(value.days, value.seconds, value.microseconds)
        case Decimal():
            return str(value)
        case _:
            raise TypeError(f"objects of type {type(value).__name__} have no form in it")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_sorting_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()
_object_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(value: object, path: str = "") -> bytes:
    """A JSON value as UTF-8 bytes that decode to an equal one. Raises NotJson, which says where it is not JSON.

    A tuple may stand for an array. Keys must be strings. NaN, infinities, bytes, sets and other objects are
    refused, because JSON has no form for them.
    """
    data = write(value, path)
    losses.refuse_loss(value, decode(data), path)
    return data


def write(value: object, path: str = "") -> bytes:
    """Like `encode`, but whatever msgspec can write is written: dataclasses, datetimes, UUIDs, NaN as null, …"""
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        losses.refuse_what_cannot_be_written(value, path, _encoder.encode)
        raise NotJson(losses.named(path), f"{losses.named(path)} cannot be written as JSON: {error}.") from None
    losses.refuse_depth(data, path)
    return data


def decode(data: bytes) -> Any:
    """The JSON value in `data`. Raises NotJson if there is none."""
    try:
        value = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, data) from None
    losses.refuse_depth(data)
    return value


def decode_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises NotJson if it is anything else."""
    try:
        value = _object_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, data) from None
    losses.refuse_depth(data)
    return value


def canonical(data: bytes) -> bytes:
    """The same JSON value written in the one way that all equal values share, for fingerprints.

    Sorted keys, no blanks, numbers in their shortest form. Raises NotJson.
    """
    return _sorting_encoder.encode(decode(data))


def unreadable(error: Exception, data: bytes) -> NotJson:
    """What is wrong with `data`, which msgspec could not read, as a NotJson."""
    if isinstance(error, RecursionError):
        return NotJson(losses.named(""), f"it {losses.TOO_DEEP}.")
    if isinstance(error, msgspec.ValidationError) and "out of range" not in str(error):
        return NotJson(losses.named(""), f"it is of the wrong kind: {str(error).replace('`', '').lower()}.")
    return NotJson(losses.named(""), f"it {_fault(data) or f'is not JSON: {_said(error)}'}.")


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


def _is_in_range(literal: str) -> bool:
    try:
        if literal.strip("-0123456789"):
            return math.isfinite(float(literal))
        int(literal)
    except ValueError:  # an integer of more digits than Python reads
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

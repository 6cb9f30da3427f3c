"""What people type, read into values: durations, instants and payloads."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from dtq_engine import codec
from dtq_engine.errors import NotJson
from dtq_engine.strict import refuse_repeated_names

_UNITS_S: Mapping[str, float] = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d|)")
_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SHORT = 40
_EXAMPLES = "such as 30, 30s, 5m, 2h or 1d"


def duration_s(text: str) -> float:
    """Seconds of a duration such as `30`, `30s`, `1.5m`, `2h` or `1d`. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip().lower().replace(" ", ""))
    if found is None:
        raise ValueError(f"{text!r} is not a duration {_EXAMPLES}")
    return float(found[1]) * _UNITS_S[found[2]]


def instant(text: str) -> datetime:
    """An ISO 8601 date and time; without an offset it is local time. Raises ValueError."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at.astimezone() if at.tzinfo is None else at
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not a date and time such as 2026-10-31T08:00 or 2026-10-31T08:00:00Z") from None


def payload_of(words: Sequence[str]) -> bytes:
    """The payload that the words after TYPE describe, as JSON: one JSON object, or `key=value` pairs.

    A value that is JSON counts as JSON (`n=3`, `on=true`, `tags=["a"]`), anything else as text; but one that
    looks like JSON and cannot be used as such is refused. Raises ValueError.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _json_object(words[0])
    pairs: dict[str, msgspec.Raw] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ValueError(f"{word!r} is neither a JSON object nor key=value")
        if key in pairs:
            raise ValueError(f"{key!r} is given twice")
        pairs[key] = _value(key, value)
    return _encoded("an argument's name", pairs)


def _json_object(text: str) -> bytes:
    try:
        return _compact(text, codec.decode_object)
    except NotJson as error:
        raise ValueError(f"the JSON object is refused: {str(error).removesuffix('.')}") from None


def _value(key: str, text: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(_compact(text, codec.decode))
    except NotJson as error:
        if not _looks_like_json(text):
            return msgspec.Raw(_encoded(f"the value of {key}", text))
        reason = str(error).removesuffix(".")
        raise ValueError(
            f"{key} looks like JSON, but {reason}; to send it as text, write {_as_text(key, text)}"
        ) from None


def _compact(text: str, decode: Callable[[bytes], object]) -> bytes:
    """JSON text on one line, its numbers digit by digit as they are. Raises NotJson if `decode` or a worker would."""
    data = text.encode("utf-8", "surrogateescape")
    decode(data)
    refuse_repeated_names(data)
    return msgspec.json.format(data, indent=-1)


def _looks_like_json(text: str) -> bool:
    text = text.strip()
    return text.startswith(("{", "[", '"')) or text in _NO_NUMBERS or _NUMBER.fullmatch(text) is not None


def _as_text(key: str, text: str) -> str:
    """How a shell passes `text` as a JSON string; of a long one the pattern."""
    if len(text) > _SHORT or not text.isprintable():
        return f"{key}='\"…\"' with the text in place of …"
    return shlex.quote(f"{key}={msgspec.json.encode(text).decode()}")


def _encoded(name: str, value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid UTF-8 text") from None

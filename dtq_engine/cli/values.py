"""What people type, read into values: durations, instants and payloads."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

_UNITS_S: Mapping[str, float] = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d|)")
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

    A value that is JSON counts as JSON (`n=3`, `on=true`, `tags=["a"]`), anything else as text.
    Raises ValueError.
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
        pairs[key] = _value(value)
    return msgspec.json.encode(pairs)


def _json_object(text: str) -> bytes:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return msgspec.json.format(text.encode(), indent=-1)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"the payload is not a JSON object: {error}") from None


def _value(text: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(text))

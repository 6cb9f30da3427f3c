"""The kinds of values that settings take: how each is read from text, and which values are right.

A kind is put beside its setting as dataclass metadata, so that reading, checking and the settings page
of the documentation all come from one table.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qsl, urlsplit

KIND = "kind"

QUEUE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")

URL_OPTIONS = frozenset(
    {"db", "username", "password", "client_name", "sentinel_username", "sentinel_password"}
    | {"ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"}
)
"""What may follow the `?` of an address; everything else about connections is decided by dtq."""

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Kind:
    """How one setting is read and checked.

    `parse` raises ValueError for text it cannot read; `accepts` judges any value; `expects` completes the
    sentence "set it to …". The values of a `secret` kind are never shown. `aliases` are environment
    variables that stand in, in this order, when the setting's own is not set.
    """

    doc: str
    expects: str
    parse: Callable[[str], object]
    accepts: Callable[[object], bool]
    aliases: tuple[str, ...] = ()
    secret: bool = False


Metadata = Mapping[str, Kind]


def whole(doc: str, low: int, high: int) -> Metadata:
    """A whole number from `low` to `high`."""

    def accepts(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return {KIND: Kind(doc, f"a whole number from {low} to {high}", _parse_whole, accepts)}


def number(doc: str, low: float, high: float) -> Metadata:
    """A finite number from `low` to `high`."""

    def accepts(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high

    return {KIND: Kind(doc, f"a number from {low:g} to {high:.15g}", _parse_number, accepts)}


def switch(doc: str) -> Metadata:
    """On or off."""
    return {KIND: Kind(doc, "1 or 0 (true, false, yes, no, on, off)", _parse_switch, lambda v: isinstance(v, bool))}


def choice(doc: str, *allowed: str, ignore_case: bool = False) -> Metadata:
    """One of a few words."""
    parse = str.upper if ignore_case else str
    return {KIND: Kind(doc, f"one of {', '.join(allowed)}", parse, lambda value: value in allowed)}


def text(doc: str, pattern: str, expects: str, *, optional: bool = False, aliases: tuple[str, ...] = ()) -> Metadata:
    """Text that matches a pattern as a whole; None too where `optional`."""
    compiled = re.compile(pattern)

    def accepts(value: object) -> bool:
        return optional if value is None else isinstance(value, str) and compiled.fullmatch(value) is not None

    return {KIND: Kind(doc, expects, str, accepts, aliases)}


def queue_names(doc: str, *, optional: bool = False) -> Metadata:
    """Queue names, comma-separated in text, none of them twice; None too where `optional`."""

    def accepts(value: object) -> bool:
        return (
            optional
            if value is None
            else isinstance(value, tuple) and _are_queue_names(cast(tuple[object, ...], value))
        )

    expects = f"different queue names, separated by commas, each matching ^{QUEUE_NAME.pattern}$"
    return {KIND: Kind(doc, expects, _parse_names, accepts)}


def redis_url(doc: str, *aliases: str) -> Metadata:
    """The address of a Redis or Valkey deployment."""
    expects = (
        f"an address such as redis://127.0.0.1:6379/0; the schemes are {', '.join(REDIS_SCHEMES)}, "
        f"the options after '?' {', '.join(sorted(URL_OPTIONS))}"
    )
    return {KIND: Kind(doc, expects, str, _is_redis_url, aliases, secret=True)}


def as_written(value: object) -> str:
    """A value as it is given in text, for a sentence about it."""
    return ",".join(map(str, cast(tuple[object, ...], value))) if isinstance(value, tuple) else str(value)


def _parse_whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise ValueError(text)
    return int(text)


def _parse_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _parse_switch(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _are_queue_names(names: tuple[object, ...]) -> bool:
    right = all(isinstance(name, str) and QUEUE_NAME.fullmatch(name) for name in names)
    return right and 0 < len(names) == len(set(names))


def _is_redis_url(value: object) -> bool:
    if not isinstance(value, str) or re.search(r"[\s\x00-\x1f]", value):
        return False
    try:
        parts = urlsplit(value)
        if not {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} <= URL_OPTIONS:
            return False
        if parts.scheme in {"redis", "rediss"}:
            return bool(parts.hostname) and parts.port != 0 and re.fullmatch(r"/?|/[0-9]+", parts.path) is not None
        return parts.scheme in REDIS_SCHEMES and bool(parts.path if parts.scheme == "unix" else parts.netloc)
    except ValueError:
        return False

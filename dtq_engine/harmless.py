"""Text of unknown origin, made harmless where people read it: on a terminal and in logs."""

import unicodedata
from collections.abc import Iterable

JOINERS = "\u200c\u200d"
"""Invisible, but part of how words and emoji are written."""

_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def safe(text: str, *, keep: str = "") -> str:
    """The text with everything a terminal could act on shown as an escape (`\\x1b`), but for what is in `keep`.

    That is control characters, line and paragraph separators, lone surrogates, and the invisible
    characters that reorder text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each in keep or not _harmful(each) else _escaped(each) for each in text)


def safe_json(text: str) -> str:
    """JSON text as the same value, with what a terminal could act on as `\\u` escapes."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return "".join(_json_escaped(each) if each != "\n" and _harmful(each) else each for each in text)


def _harmful(each: str) -> bool:
    return unicodedata.category(each) in _HARMFUL and each not in JOINERS


def _escaped(each: str) -> str:
    return each.encode("unicode_escape", "surrogatepass").decode("ascii")


def _json_escaped(each: str) -> str:
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in _pairs(each.encode("utf-16-be", "surrogatepass")))


def _pairs(units: bytes) -> Iterable[tuple[int, int]]:
    return zip(units[::2], units[1::2], strict=True)

"""Numbers as people say them, and names as they may have meant them."""

import difflib
from collections.abc import Iterable


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`, `1,200 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """`did you mean colour?`, if one of the known names is much like this one; else what is to be said otherwise."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def taken(name: str, known: Iterable[str]) -> str:
    """The nearest of the names that something takes, else all of them."""
    names = list(known)
    return nearest(name, names, f"it takes {', '.join(names) or 'none'}.")


def span(ms: float | None) -> str:
    """A length of time, short: `350 ms`, `2.5 s`, `3m 20s`, `5h 10m`, `12d`; `-` for None."""
    if ms is None:
        return "-"
    if ms < 1_000:
        return f"{max(0, round(ms))} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    return _long_span(round(ms / 1000))


def _long_span(seconds: int) -> str:
    if seconds < 3_600:
        return f"{seconds // 60}m {seconds % 60:02}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02}m"
    return f"{seconds // 86_400}d {seconds % 86_400 // 3600}h" if seconds < 864_000 else f"{seconds // 86_400}d"

"""Values as people read them: numbers, lengths of time, instants, and text from anywhere made harmless to look at."""

import re
from datetime import UTC, datetime

from dtq_engine.instants import at

# Control characters and what turns the direction of text would hide or forge what stands beside them; a lone half of
# a surrogate pair cannot be sent at all.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_DAY_MS = 86_400_000


def clean(text: str) -> str:
    """Text with what cannot be seen made visible: `\\u202e` instead of the character."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def cut(text: str, length: int = 120) -> str:
    """The beginning of a text on one line, with an ellipsis if there is more."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else line[:length].rstrip() + "…"


def number(value: float) -> str:
    """12345 as `12,345`."""
    return f"{value:,.0f}"


def size(count: int) -> str:
    """Bytes in the unit that keeps them short."""
    value, unit = float(count), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, bigger
    return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.1f} {unit}"


def span(ms: float) -> str:
    """A length of time in its two largest units: `3 min 4 s`."""
    ms = max(0, ms)
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    for place, (unit_ms, unit) in enumerate(_UNITS):
        if ms >= unit_ms:
            whole, rest = divmod(int(ms), unit_ms)
            small_ms, small = _UNITS[min(place + 1, 3)]
            few = rest // small_ms if place < 3 and whole < 10 else 0
            return f"{whole} {unit} {few} {small}" if few else f"{whole} {unit}"
    return f"{ms:.0f} ms"


_CHANGES = {
    "pause": "queue paused",
    "resume": "queue resumed",
    "pause_periodic": "periodic {} paused",
    "resume_periodic": "periodic {} resumed",
    "define": "periodic {} defined",
    "withdraw": "periodic {} removed",
    "declare_limit": "limit {} declared",
    "set_limit": "limit {} set",
    "clear_limit": "limit {} cleared",
}


def change(detail: str | None) -> str:
    """What was changed about a queue, from the detail of its event; as it is where a newer release has said it."""
    verb, _, name = (detail or "").partition(":")
    return _CHANGES.get(verb, detail or "").replace("{}", name)


def blocked(reason: str | None) -> str:
    """Why a blocked task does not run."""
    kind, _, name = (reason or "").partition(":")
    match kind:
        case "waits_for_parents":
            return "Waits for other tasks"
        case "limit":
            return f"Waits for a place under the limit {name}"
        case "unknown_task_type":
            return f"No living worker knows the type {name}"
        case _:
            return f"Blocked by {reason or 'nothing that is known'}"


class Moments:
    """Instants as seen from one moment, which is Redis' clock when the page was made."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def iso(self, ms: int) -> str:
        """For machines; empty for what is no time."""
        return at(ms) or ""

    def ago(self, ms: int) -> str:
        """`3 min ago`, `in 3 min` or `now`: one unit, rounded down."""
        gap = self.now_ms - ms
        if abs(gap) < 1000:
            return "now"
        words = _short(abs(gap))
        return f"{words} ago" if gap > 0 else f"in {words}"

    def clock(self, ms: int) -> str:
        """The time in UTC, with as much of the date as tells it from today."""
        try:
            moment, today = (datetime.fromtimestamp(each / 1000, UTC) for each in (ms, self.now_ms))
        except (OverflowError, ValueError, OSError):
            return "an impossible time"
        if moment.date() == today.date():
            return f"{moment:%H:%M:%S}"
        return f"{moment.day} {moment:%b %H:%M}" if moment.year == today.year else f"{moment.day} {moment:%b %Y %H:%M}"


def _short(ms: int) -> str:
    unit_ms, unit = next(((unit_ms, unit) for unit_ms, unit in _UNITS if ms >= unit_ms), (1000, "s"))
    return f"{ms // unit_ms} {unit}"

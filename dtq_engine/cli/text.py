"""How values look to people: harmless, aligned, relative in time, coloured by status."""

import unicodedata
from dataclasses import dataclass

from dtq_engine.harmless import JOINERS, safe
from dtq_engine.model import AttemptError, TaskStatus

_COLOURS = {
    TaskStatus.SUCCEEDED: "green",
    TaskStatus.FAILED: "red",
    TaskStatus.DEAD_LETTERED: "red",
    TaskStatus.RUNNING: "cyan",
    TaskStatus.RETRYING: "yellow",
    TaskStatus.BLOCKED: "magenta",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell: its text, and how to show it."""

    text: str
    colour: str | None = None
    dim: bool = False
    right: bool = False


def width(text: str) -> int:
    """How many columns a terminal uses for the text."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(each: str) -> int:
    if unicodedata.combining(each) or each in JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(each) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """The text in at most this many columns, ending in `…` if it was longer."""
    if width(text) <= columns:
        return text
    while text and width(text) >= columns:
        text = text[:-1]
    return text + "…"


def clip_middle(text: str, columns: int) -> str:
    """The text in at most this many columns, with `…` in its middle if it was longer."""
    if width(text) <= columns:
        return text
    tail = text[len(text) - (columns - 1) // 2 :]
    while tail and width(tail) > (columns - 1) // 2:
        tail = tail[1:]
    return clip(text, columns - width(tail)) + tail


def error_line(error: AttemptError) -> str:
    """What an attempt failed with, on one line: `ValueError: no such file`."""
    return safe(f"{error.type}: {error.message}" if error.message else error.type)


def status_cell(status: TaskStatus) -> Cell:
    """A status as `--status` takes it, in its colour."""
    dim = status in {TaskStatus.CANCELLED, TaskStatus.EXPIRED}
    return Cell(str(status), colour=_COLOURS.get(status), dim=dim)


def status_words(status: TaskStatus) -> str:
    """`dead lettered` for `dead_lettered`."""
    return status.replace("_", " ")


def number_cell(number: int, *, colour: str | None = None) -> Cell:
    """A count, at the right; a zero stays in the background."""
    return Cell(f"{number:,}", colour=colour if number else None, dim=not number, right=True)


def ago(then_ms: int | None, now_ms: int) -> str:
    """An instant as seen from now: `5s ago`, `in 3m`, `now`; `-` for None."""
    if then_ms is None:
        return "-"
    seconds = round((now_ms - then_ms) / 1000)
    if seconds == 0:
        return "now"
    return f"{_rough(seconds)} ago" if seconds > 0 else f"in {_rough(-seconds)}"


def _rough(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"

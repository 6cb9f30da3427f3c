"""How values look to people: harmless, aligned, relative in time, coloured by status."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from dtq_engine.model import TaskStatus

GAP = "  "

_JOINERS = "\u200c\u200d"
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
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
    return unicodedata.category(each) in _HARMFUL and each not in _JOINERS


def _escaped(each: str) -> str:
    return each.encode("unicode_escape", "surrogatepass").decode("ascii")


def _json_escaped(each: str) -> str:
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in _pairs(each.encode("utf-16-be", "surrogatepass")))


def _pairs(units: bytes) -> Iterable[tuple[int, int]]:
    return zip(units[::2], units[1::2], strict=True)


def width(text: str) -> int:
    """How many columns a terminal uses for the text."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(each: str) -> int:
    if unicodedata.combining(each) or each in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(each) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """The text in at most this many columns, ending in `…` if it was longer."""
    if width(text) <= columns:
        return text
    while text and width(text) >= columns:
        text = text[:-1]
    return text + "…"


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], *, columns: int | None = None) -> str:
    """Rows under headers, aligned; the last column is clipped where a line would pass `columns`."""
    heads = [Cell(head, dim=True, right=_is_right(rows, place)) for place, head in enumerate(headers)]
    lines = [heads, *rows]
    widths = [max(width(line[place].text) for line in lines) for place in range(len(headers))]
    if columns is not None:
        widths[-1] = max(8, min(widths[-1], columns - sum(widths[:-1]) - len(GAP) * (len(widths) - 1)))
    return "\n".join(GAP.join(_cells(line, widths)).rstrip() for line in lines)


def _is_right(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return any(row[place].right for row in rows)


def _cells(line: Sequence[Cell], widths: Sequence[int]) -> Iterable[str]:
    last = len(line) - 1
    for place, (cell, columns) in enumerate(zip(line, widths, strict=True)):
        shown = clip(cell.text, columns)
        space = " " * (columns - width(shown))
        painted = (
            click.style(shown, fg=cell.colour, dim=cell.dim or None) if shown and (cell.colour or cell.dim) else shown
        )
        yield space + painted if cell.right else painted + (space if place < last else "")


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


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`, `1,200 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

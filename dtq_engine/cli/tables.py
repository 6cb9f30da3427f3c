"""Tables that fit the terminal: what says least goes first, what is long is shortened."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from dtq_engine.cli.text import Cell, clip, clip_middle, width

GAP = "  "
LEAST = 3

_NOTHING = frozenset({"", "-", "0"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column's head, and what may be done to it where the terminal is too narrow for all.

    One with `spare` is left out, the lowest first, and before that those in which every cell says nothing.
    One with `least` is then shortened, to no less than that as long as this is enough.
    """

    head: str
    spare: int = 0
    least: int | None = None


def table(headers: Sequence[Column | str], rows: Sequence[Sequence[Cell]], *, columns: int | None = None) -> str:
    """Rows under headers, aligned; no line is longer than `columns` where what the headers allow can achieve it."""
    heads = [each if isinstance(each, Column) else Column(each) for each in headers]
    lines = [[Cell(each.head, dim=True, right=_is_right(rows, place)) for place, each in enumerate(heads)], *rows]
    widths = {place: max(width(line[place].text) for line in lines) for place in range(len(heads))}
    if columns is not None:
        _leave_out(heads, rows, widths, columns)
        _shorten(heads, widths, columns)
    return "\n".join(GAP.join(_cells(line, widths)).rstrip() for line in lines)


def _is_right(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return any(row[place].right for row in rows)


def _leave_out(heads: Sequence[Column], rows: Sequence[Sequence[Cell]], widths: dict[int, int], columns: int) -> None:
    """Remove from `widths` the columns without which the others fit."""
    silent = {place for place in widths if all(row[place].text in _NOTHING for row in rows)}
    order = sorted((place not in silent, heads[place].spare, place) for place in widths if heads[place].spare)
    for _, _, place in order:
        least = {each: min(size, heads[each].least or size) for each, size in widths.items()}
        if _total(least) <= columns:
            return
        del widths[place]


def _shorten(heads: Sequence[Column], widths: dict[int, int], columns: int) -> None:
    """Narrow in `widths` the columns that may be, the widest first."""
    for floors in (
        {place: head.least for place, head in enumerate(heads) if head.least is not None},
        {place: LEAST for place, head in enumerate(heads) if head.least is not None},
    ):
        while _total(widths) > columns:
            wide = [place for place in floors.keys() & widths.keys() if widths[place] > floors[place]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _cells(line: Sequence[Cell], widths: Mapping[int, int]) -> Iterable[str]:
    last = max(widths)
    for place, columns in widths.items():
        cell = line[place]
        # The beginning of a sentence says most, and of a name its end as much as its beginning.
        shown = clip(cell.text, columns) if place == len(line) - 1 else clip_middle(cell.text, columns)
        space = " " * (columns - width(shown))
        painted = (
            click.style(shown, fg=cell.colour, dim=cell.dim or None) if shown and (cell.colour or cell.dim) else shown
        )
        yield space + painted if cell.right else painted + (space if place < last else "")

"""Lines over time as SVG, drawn here: no script, a few hundred bytes, and every number in a table beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

WIDTH, HEIGHT = 600, 120

Points = Sequence[tuple[int, float | None]]
"""Instants with a value, or without one where nothing is known."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: `path` is what an SVG path draws, `area` the same closed along the bottom."""

    name: str
    path: str
    area: str
    latest: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its words: `top` labels the highest value, `rows` are all numbers for those who see no picture."""

    title: str
    lines: Sequence[Line]
    top: str
    from_ms: int
    to_ms: int
    rows: Sequence[tuple[int, Sequence[str]]]

    @property
    def summary(self) -> str:
        """What the picture shows, in a sentence."""
        if not self.rows:
            return f"{self.title}: nothing is known yet."
        latest = ", ".join(f"{line.name} {line.latest}" for line in self.lines)
        return f"{self.title}: at most {self.top}; at the end {latest}."


@dataclass(frozen=True, slots=True)
class Frame:
    """What all lines of a chart share: its span of time, its highest value, and how values are written."""

    from_ms: int
    to_ms: int
    words: Callable[[float], str]
    top: float = 1.0

    def place(self, at_ms: int, value: float) -> str:
        """Where a value is drawn."""
        x = WIDTH * (at_ms - self.from_ms) / max(1, self.to_ms - self.from_ms)
        return f"{max(0.0, x):.0f} {HEIGHT - 2 - (HEIGHT - 6) * value / self.top:.1f}"

    def said(self, value: float | None) -> str:
        """A value in words."""
        return "–" if value is None else self.words(value)


def chart(title: str, lines: Sequence[tuple[str, Points]], frame: Frame) -> Chart:
    """A chart of lines."""
    values = [value for _, points in lines for _, value in points if value is not None]
    frame = replace(frame, top=max([*values, 0.0]) or 1.0)
    drawn = [_line(name, points, frame) for name, points in lines]
    instants = sorted({at_ms for _, points in lines for at_ms, _ in points})
    by_line = [dict(points) for _, points in lines]
    rows = [(at_ms, [frame.said(of.get(at_ms)) for of in by_line]) for at_ms in instants]
    return Chart(title, drawn, frame.said(max(values, default=None)), frame.from_ms, frame.to_ms, rows)


def _line(name: str, points: Points, frame: Frame) -> Line:
    known = [(at_ms, value) for at_ms, value in points if value is not None]
    path = "M" + "L".join(frame.place(*each) for each in known) if known else ""
    area = f"{path}V{HEIGHT}H{frame.place(*known[0]).partition(' ')[0]}Z" if len(known) > 1 else ""
    return Line(name, path, area, frame.said(known[-1][1] if known else None))

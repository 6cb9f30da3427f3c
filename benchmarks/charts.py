"""Bar charts as SVG: small, with their numbers as text, readable on a light page and on a dark one."""

from collections.abc import Sequence
from html import escape

WIDTH, ROW, TOP, NAMES, NUMBERS = 720, 26, 44, 120, 90
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600}.b{fill:#8c959f}.o{fill:#0969da}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#848d97}.o{fill:#4493f8}}"
)


def bars(title: str, rows: Sequence[tuple[str, float]], ours: str) -> str:
    """A chart of named values, in the order given; that of `ours` stands out by its colour and a bold name."""
    most = max((value for _, value in rows), default=0) or 1
    height = TOP + ROW * len(rows) + 6
    said = "; ".join(f"{name} {number(value)}" for name, value in rows)
    body = "".join(
        _row(TOP + ROW * at, name, value, value / most, name == ours) for at, (name, value) in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img" aria-labelledby="t d">\n<title id="t">{escape(title)}</title>\n'
        f'<desc id="d">{escape(said)}</desc>\n'
        f'<style>{STYLE}</style>\n<text class="t" x="0" y="18">{escape(title)}</text>\n{body}</svg>\n'
    )


def _row(top: int, name: str, value: float, share: float, is_ours: bool) -> str:
    length = max(1, round((WIDTH - NAMES - NUMBERS) * share))
    bold, colour = (' class="t"', "o") if is_ours else ("", "b")
    return (
        f'<text{bold} x="{NAMES - 10}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'
        f'<rect class="{colour}" x="{NAMES}" y="{top}" width="{length}" height="{ROW - 8}" rx="2"/>'
        f'<text{bold} x="{NAMES + length + 8}" y="{top + 13}">{number(value)}</text>\n'
    )


def number(value: float) -> str:
    """A number with as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

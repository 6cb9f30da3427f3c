"""Writes docs/benchmarks.md and its charts from the figures that were kept: `python -m benchmarks.report`."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import wording
from benchmarks.aims import Aim, Kept, aims
from benchmarks.charts import bars, number
from benchmarks.figures import Figure, Machine, Part, Results, load

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
STORY = DOCS / "performance.md"
CHARTS = DOCS / "charts"
KINDS = ("bench", "peers", "growth", "http", "anatomy")
OURS = "dtq"

FIGURES = re.compile(r"(<!-- figures: (\w+) (\w+) -->\n)(?:.*?)(<!-- end -->)", re.DOTALL)
"""A place in docs/performance.md for the figures of one part of one kind."""

# What the comparison shows of each system: the figure, the head of its column, whether less is better, its chart.
COLUMNS: tuple[tuple[str, str, bool, str], ...] = (
    ("drain async", "drain, async handlers, tasks/s", False, "drain-async"),
    ("bare", "of the bare loop beside it, %", False, ""),
    ("drain sync", "drain, sync handlers, tasks/s", False, "drain-sync"),
    ("submit single", "submit, one by one, tasks/s", False, "submit-single"),
    ("submit bulk", "submit, many, tasks/s", False, "submit-bulk"),
    ("idle start, p50", "idle start, p50, ms", True, "start-p50"),
    ("idle start, p99", "idle start, p99, ms", True, ""),
    ("server", "Redis, µs of CPU per task", True, "server-cpu"),
    ("worker", "worker, µs of CPU per task", True, ""),
    ("memory", "worker, MiB", True, ""),
    ("waiting, 40 bytes", "10,000 waiting of 40 bytes, KiB", True, "waiting-40"),
    ("waiting, 300 bytes", "10,000 waiting of 300 bytes, KiB", True, "waiting-300"),
)
OF_A_DRAIN = {"server": "server", "worker": "worker", "memory": "worker's memory"}


def pages() -> dict[Path, str]:
    """All files that are made from what was kept."""
    kept = {kind: load(kind) for kind in KINDS}
    peers = kept["peers"]
    charts = {CHARTS / f"{name}.svg": chart for name, chart in charts_of(peers).items()} if peers else {}
    return {PAGE: page(kept), STORY: with_figures(STORY.read_text(), kept), **charts}


def write_pages() -> None:
    """Write them."""
    CHARTS.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)


def page(kept: dict[str, Results | None]) -> str:
    """docs/benchmarks.md."""
    others = max((part.others for results in kept.values() if results for part in results.parts), default=0.0)
    disturbed = [wording.DISTURBED.format(others=others)] if others > wording.QUIET else []
    parts = [wording.HEAD, machines(kept.values()), *disturbed, *reached(aims(Kept(**kept)))]
    if peers := kept["peers"]:
        parts += compared(peers)
    parts.append(wording.OURS)
    for kind in ("bench", "growth", "http"):
        if results := kept[kind]:
            parts += [section(part) for part in results.parts]
    return "\n\n".join((*parts, wording.FOOT)) + "\n"


def with_figures(text: str, kept: dict[str, Results | None]) -> str:
    """A page with the figures of today in the places that it has for them."""

    def fill(place: re.Match[str]) -> str:
        results = kept[place[2]]
        part = next((part for part in results.parts if part.name == place[3]), None) if results else None
        shown = "Not measured yet." if part is None else body(part)
        return f"{place[1]}\n{shown}\n\n{place[4]}"

    return FIGURES.sub(fill, text)


def machines(kept: Iterable[Results | None]) -> str:
    """Where it was measured; more than one line only if that differs."""
    return "\n".join(dict.fromkeys(f"- {described(results.machine)}" for results in kept if results))


def described(machine: Machine) -> str:
    """A machine in one line."""
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}; {machine.server}, "
        f"Python {machine.python}, redis-py {machine.redis_py}"
    )


def reached(found: Sequence[Aim]) -> tuple[str, ...]:
    """What is aimed at, beside what came out; those that are not reached come first."""
    order = {False: 0, None: 1, True: 2}
    words = {False: "**no**", None: "not measured", True: "yes"}
    ordered = sorted(found, key=lambda aim: order[aim.is_reached])
    rows = [
        (
            aim.what,
            f"{'≥' if aim.at_least else '≤'} {number(aim.bound)} {aim.unit}",
            "–" if aim.found is None else f"{number(aim.found)} {aim.unit}",
            words[aim.is_reached],
        )
        for aim in ordered
    ]
    count = sum(aim.is_reached is True for aim in found)
    said = f"{count} of {len(found)} are reached; what is not comes first."
    return wording.AIMS, said, table(("what", "aim", "measured", "reached"), rows)


def compared(peers: Results) -> list[str]:
    """The table of all systems, the charts, who is ahead of dtq and in what."""
    rows = [
        (row_name(part), *(shown(value_of(part, name)) for name, *_ in COLUMNS))
        for part in sorted(peers.parts, key=lambda part: -(value_of(part, "drain async") or 0))
    ]
    pictures = [f"![{head}](charts/{file}.svg)" for name, head, _, file in COLUMNS if file and any(values(peers, name))]
    ahead = [line for name, head, less, _ in COLUMNS if (line := who_is_ahead(peers, name, head, less=less))]
    failures = [f"- {part.name} was not measured: {part.failure}" for part in peers.parts if part.failure]
    settings = [
        f"- {part.name} {part.notes['version']}: {part.notes['settings']}" for part in peers.parts if part.notes
    ]
    said = ["\n".join(failures)] if failures else []
    return [
        *(wording.PEERS, circumstances(peers.parts), table(("system", *(head for _, head, *_ in COLUMNS)), rows)),
        *(*said, *pictures, wording.AHEAD, "\n".join(ahead) or "Nobody was.", wording.SETTINGS, "\n".join(settings)),
    ]


def row_name(part: Part) -> str:
    """A system with its release."""
    name = f"{part.name} {part.notes.get('version', '')}".strip()
    return f"**{name}**" if part.name == OURS else name


def value_of(part: Part, name: str) -> float | None:
    """A column's value; what a drain cost is that of async handlers, of sync ones where there are no others."""
    if name == "bare":
        drain = part.get("drain async") or part.get("drain sync")
        return drain.ratio * 100 if drain and drain.ratio else None
    if name in OF_A_DRAIN:
        figures = [part.get(f"drain {kind}, {OF_A_DRAIN[name]}") for kind in ("async", "sync")]
        return next((figure.median for figure in figures if figure), None)
    figure = part.get(name)
    return figure.median if figure else None


def values(peers: Results, name: str) -> list[tuple[str, float]]:
    """A column, by system."""
    return [(part.name, value) for part in peers.parts if (value := value_of(part, name)) is not None]


def who_is_ahead(peers: Results, name: str, head: str, *, less: bool) -> str:
    """Those that are better than dtq in a column; nothing where nobody is."""
    found = dict(values(peers, name))
    ours = found.pop(OURS, None)
    if ours is None:
        return ""
    ahead = [f"{peer} {number(value)}" for peer, value in found.items() if (value < ours if less else value > ours)]
    return f"- {head}: {', '.join(ahead)} (dtq {number(ours)})" if ahead else ""


def charts_of(peers: Results) -> dict[str, str]:
    """A chart for each column that has one, the best first."""
    return {
        file: bars(
            f"{head} ({'less' if less else 'more'} is better)",
            sorted(values(peers, name), key=lambda row: row[1] if less else -row[1]),
            OURS,
        )
        for name, head, less, file in COLUMNS
        if file and values(peers, name)
    }


def section(part: Part) -> str:
    """One part of our own benchmarks."""
    heading = f"### {wording.TITLES.get(part.name, part.name.capitalize())}"
    text = wording.TEXTS.get(part.name, "")
    return "\n\n".join(each for each in (heading, text, body(part)) if each)


def body(part: Part) -> str:
    """The circumstances and the figures of a part, or why there are none."""
    if part.failure:
        return f"Not measured: {part.failure}"
    is_crossed = all(": " in figure.name for figure in part.figures)
    return f"{circumstances((part,))}\n\n{crossed(part) if is_crossed else listed(part)}"


def listed(part: Part) -> str:
    """A part's figures, a line each."""
    rows = [row(figure) for figure in part.figures]
    heads: tuple[str, ...] = ("", "median", "least", "most", wording.BESIDE.get(part.name, ""))
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    if all(len(figure.runs) == 1 for figure in part.figures):
        heads, rows = ("", "measured", *heads[4:]), [(row[0], row[1], *row[4:]) for row in rows]
    return table(heads, rows)


def crossed(part: Part) -> str:
    """Figures named “column: row” as one table of their medians."""
    found = {tuple(figure.name.split(": ", 1)): figure.median for figure in part.figures}
    columns, lines = (list(dict.fromkeys(name[at] for name in found)) for at in (0, 1))
    rows = [(line, *(shown(found.get((column, line))) for column in columns)) for line in lines]
    return table((part.figures[0].unit, *columns), rows)


def row(figure: Figure) -> tuple[str, ...]:
    """A figure's line."""
    numbers = (figure.median, min(figure.runs), max(figure.runs))
    ratio = "" if figure.ratio is None else f"{figure.ratio:.0%}"
    return f"{figure.name}, {figure.unit}", *map(number, numbers), ratio


def circumstances(parts: Sequence[Part]) -> str:
    """When, of which commit, and how much others disturbed it."""
    first, others = parts[0], max(part.others for part in parts)
    commits = ", ".join(dict.fromkeys(part.commit for part in parts))
    disturbed = "**" if others > wording.QUIET else ""
    return (
        f"{first.at[:10]}, commit {commits}; {first.runs} {'run' if first.runs == 1 else 'runs'} of {first.tasks:,} "
        f"tasks; load average {first.load:g} at the start, {disturbed}other processes and machines took up to "
        f"{others:.0%} of the machine meanwhile{disturbed}."
    )


def shown(value: float | None) -> str:
    """A value of a table, or that there is none."""
    return "–" if value is None else number(value)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = (heads, ("---",) * len(heads), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    write_pages()

"""Run the parts of a benchmark one after the other, print what each measured, and keep it where that is asked for."""

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks import machine
from benchmarks.figures import Figure, Machine, Part, keep, load
from benchmarks.report import write_pages

LEAST = 500
"""Fewer tasks than this take no time that could be measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    runs: int
    tasks: int
    full: bool = False


Figures = tuple[Figure, ...]
Measure = Callable[[Plan], Figures | tuple[Figures, dict[str, str]]]
"""Figures, perhaps with notes on what was measured."""


def main(kind: str, about: str, parts: Mapping[str, Measure], tasks: int, full: str = "") -> None:
    """The command line of a benchmark: `kind` names the file of its results, `full` says what --full adds."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--runs", type=int, default=3, help="runs of each measurement (default 3)")
    parser.add_argument("--tasks", type=int, default=tasks, help=f"tasks per run (default {tasks})")
    parser.add_argument("--only", default="", help=f"some parts, with commas between: {', '.join(parts)}")
    parser.add_argument("--save", action="store_true", help="keep the figures and write docs/benchmarks.md anew")
    if full:
        parser.add_argument("--full", action="store_true", help=full)
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or list(parts)
    if options.runs < 1 or options.tasks < LEAST:
        parser.error(f"--runs must be at least 1, and --tasks at least {LEAST}.")
    if unknown := set(chosen) - parts.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}: there are {', '.join(parts)}.")
    plan = Plan(options.runs, options.tasks, full=bool(full and options.full))
    here, at_start = machine.describe(), round(os.getloadavg()[0], 2)
    print(f"{here.processor}, {here.cores} cores, {here.server}, Python {here.python}; load average {at_start}")
    failed = False
    for name in chosen:
        part = measured(name, parts[name], plan, at_start)
        failed = failed or bool(part.failure)
        if options.save:
            save(kind, here, part)
    if options.save:
        write_pages()
    sys.exit(1 if failed else 0)


def measured(name: str, measure: Measure, plan: Plan, at_start: float) -> Part:
    """Run one part and print its figures; what it raises is its failure, and does not stop the others."""
    print(f"\n{name:40}{'median':>12}{'least':>12}{'most':>12}{'to bare':>9}", flush=True)
    at, failure = datetime.now(UTC), ""
    figures: Figures = ()
    notes: dict[str, str] = {}
    with machine.watching_others() as others:
        try:
            figures, notes = split(measure(plan))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    for figure in figures:
        print(line(figure), flush=True)
    print(f"  {failure or f'others used {others.share:.0%} of the machine meanwhile'}", flush=True)
    return Part(
        name=name,
        at=at.isoformat(timespec="seconds"),
        commit=machine.commit(),
        load=at_start,
        others=others.share,
        runs=max((len(figure.runs) for figure in figures), default=0),
        tasks=plan.tasks,
        figures=figures,
        notes=notes,
        failure=failure,
    )


def split(found: Figures | tuple[Figures, dict[str, str]]) -> tuple[Figures, dict[str, str]]:
    """Figures and notes, where there may be none."""
    match found:
        case (tuple() as figures, dict() as notes):
            return figures, notes
        case _:
            return found, {}


def save(kind: str, here: Machine, part: Part) -> None:
    """Keep a part; one that failed does not take the place of what was measured before."""
    before = load(kind)
    if part.failure and before and any(part.name == each.name and not each.failure for each in before.parts):
        return
    keep(kind, here, [part])


def line(figure: Figure) -> str:
    """A figure as one line of the table."""
    numbers = (statistics.median(figure.runs), min(figure.runs), max(figure.runs))
    ratio = "" if figure.ratio is None else f"{figure.ratio:.0%}"
    return (
        f"  {figure.name + ', ' + figure.unit:38}" + "".join(f"{short(each):>12}" for each in numbers) + f"{ratio:>9}"
    )


def short(number: float) -> str:
    """A number with as many digits as mean something."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"

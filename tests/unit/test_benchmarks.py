"""What the benchmarks keep, judge and write; they themselves are run by hand."""

import ast
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import msgspec
import pytest

from benchmarks import report
from benchmarks.aims import Aim, Kept, aims
from benchmarks.charts import bars
from benchmarks.figures import Figure, Machine, Part, Results, keep, load
from benchmarks.report import CHARTS, pages, reached

MACHINE = Machine("cpu", 2, 24.0, "Linux 6", "3.11.7", "8.1", "Valkey 9")
MODULES = sorted(Path(report.__file__).parent.rglob("*.py"))


def part(name: str, *figures: Figure, failure: str = "") -> Part:
    return Part(name, "2026-11-30T03:00:00+00:00", "abc", 0.5, 0.01, 3, 100, figures, failure=failure)


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_the_page_and_its_charts_are_what_the_report_makes_of_the_figures(path):
    assert path.read_text() == pages()[path], "run: python -m benchmarks.report"


def test_every_chart_is_shown_on_the_page():
    text = report.PAGE.read_text()
    assert {path.name for path in CHARTS.glob("*.svg")} == {path.name for path in pages() if path.suffix == ".svg"}
    assert all(f"(charts/{path.name})" in text for path in CHARTS.glob("*.svg"))


def test_a_chart_has_its_numbers_as_text_and_hostile_names_cannot_leave_it():
    chart = ElementTree.fromstring(bars("<Rate> & more", [("dtq", 12345.6), ('"><script>', 0.0)], "dtq"))
    texts = [each.text for each in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["<Rate> & more", "dtq", "12,346", '"><script>', "0"]
    assert chart.get("role") == "img"
    assert chart.findtext("{http://www.w3.org/2000/svg}desc") == 'dtq 12,346; "><script> 0'


def test_a_ratio_is_that_of_the_runs_side_by_side():
    assert Figure("a", "x", (10.0, 30.0, 50.0), (10.0, 10.0, 100.0)).ratio == 1.0
    assert Figure("a", "x", (10.0,)).ratio is None


def test_a_part_measured_again_takes_the_place_of_the_earlier_one_and_leaves_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.figures.RESULTS", tmp_path)
    keep("bench", MACHINE, [part("a", Figure("x", "s", (1.0,))), part("b", Figure("y", "s", (2.0,)))])
    keep("bench", MACHINE, [part("a", Figure("x", "s", (3.0,)))])
    kept = load("bench")
    assert kept is not None
    assert [(each.name, each.figures[0].runs) for each in kept.parts] == [("a", (3.0,)), ("b", (2.0,))]


def test_parts_of_another_machine_do_not_stay_beside_those_of_this_one(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.figures.RESULTS", tmp_path)
    keep("bench", MACHINE, [part("a")])
    keep("bench", msgspec.structs.replace(MACHINE, cores=64), [part("b")])
    kept = load("bench")
    assert kept is not None
    assert [each.name for each in kept.parts] == ["b"]


def test_an_aim_that_is_missed_is_said_first_and_in_bold():
    text = reached(
        [Aim("fast", 2.0, 1.0, "s"), Aim("small", 2.0, 1.0, "MiB", at_least=False), Aim("new", None, 1, "s")]
    )
    rows = text[-1].splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == ["small", "new", "fast"]
    assert rows[0].endswith("| **no** |")
    assert text[1].startswith("1 of 3")


def test_aims_are_judged_within_one_run_and_unknown_where_nothing_was_measured():
    peers = Results(
        MACHINE,
        (
            part("dtq", Figure("drain async", "tasks/s", (90.0,))),
            part("bullmq", Figure("drain async", "tasks/s", (60.0,))),
            part("arq", Figure("drain async", "tasks/s", (10.0,))),
            part("saq", failure="PeerFailed: no"),
        ),
    )
    found = {aim.what: aim for aim in aims(Kept(peers=peers))}
    assert found["drain, async, beside BullMQ"].is_reached is True
    assert found["drain, async, beside the best in Python"].found == 9.0
    assert found["drain, threads"].is_reached is None


def test_who_is_better_than_dtq_is_named_and_so_is_who_could_not_be_measured():
    peers = Results(
        MACHINE,
        (
            part("dtq", Figure("idle start, p50", "ms", (2.0,))),
            part("quick", Figure("idle start, p50", "ms", (1.0,))),
            part("gone", failure="PeerFailed: there is no node here"),
        ),
    )
    text = "\n".join(report.compared(peers))
    assert "quick 1 (dtq 2)" in text
    assert "gone was not measured: PeerFailed: there is no node here" in text


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_benchmarks_are_as_short_as_the_product(path):
    tree = ast.parse(path.read_text())
    lengths = [
        (node.end_lineno or 0) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(path.read_text().splitlines()) <= 300
    assert max(lengths, default=0) <= 40
    assert median(lengths or [0]) <= 16

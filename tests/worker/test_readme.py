"""What the README shows works as shown."""

import re
import sys
from pathlib import Path

import click
import pytest

from dtq_engine.cli.root import root
from tests.support.readme import CONSOLE_LINES, DEV, EXAMPLE, PYTHON_BLOCKS, README, ROOT, TOUR, follow_readme

ELSEWHERE = {
    "make run": "test_demo runs what it runs",
    "make test": "is what runs this test",
}
"""Lines that are not run here, and why."""


def test_the_example_has_twelve_lines():
    assert len(EXAMPLE.splitlines()) == 12


@pytest.mark.timeout(120)
def test_the_example_and_the_tour_work_as_shown(tmp_path):
    answers = follow_readme(Path(sys.executable).parent, tmp_path)
    assert answers["python reports.py"] == "report of 2026-10 for account 7, attempt 1\n"
    assert "report of 2026-10 for account 7, attempt 1" in answers[TOUR[1]]


def test_whatever_is_shown_is_run_or_named_with_the_reason_why_not():
    assert PYTHON_BLOCKS == [EXAMPLE]
    assert set(CONSOLE_LINES) == {DEV, *TOUR} | ELSEWHERE.keys()


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_all_commands_are_in_the_overview_and_none_that_does_not_exist():
    overview = README.partition("## Command line")[2].partition("\n## ")[0]
    verbs = "list|requeue|discard|pause|resume|trigger|set|clear"
    named = {tuple(words.split()) for words in re.findall(rf"`dtq ([a-z-]+(?: (?:{verbs}))?)", overview)}
    real: set[tuple[str, ...]] = set()
    for name, command in root.commands.items():
        real |= {(name, each) for each in command.commands} if isinstance(command, click.Group) else {(name,)}
    assert named == real


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets

"""What the README shows works as shown."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dtq_engine.cli.root import root
from tests.support.environ import environ_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]


def test_the_example_has_twelve_lines():
    assert len(EXAMPLE.splitlines()) == 12


def test_the_example_runs_against_a_worker_of_its_app(settings, tmp_path):
    (tmp_path / "reports.py").write_text(EXAMPLE)
    environ = environ_of(settings)
    worker = subprocess.Popen(
        [sys.executable, "-m", "dtq_engine.cli", "worker", "--app", "reports:app"], cwd=tmp_path, env=environ
    )
    try:
        answer = subprocess.run(
            [sys.executable, "reports.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=40
        )
        assert answer.stdout == "report of 2026-10 for account 7, attempt 1\n", answer.stderr
    finally:
        worker.terminate()
        assert worker.wait(30) == 0


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_all_commands_are_in_the_overview_and_none_that_does_not_exist():
    overview = README.partition("## Command line")[2].partition("\n## ")[0]
    named = {tuple(words.split()) for words in re.findall(r"`dtq ([a-z]+(?: list| requeue| discard)?)", overview)}
    real: set[tuple[str, ...]] = set()
    for name, command in root.commands.items():
        real |= {(name, each) for each in command.commands} if isinstance(command, click.Group) else {(name,)}
    assert named == real


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets

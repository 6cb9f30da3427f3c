"""What the pages name exists: settings, commands and their options."""

import re
from pathlib import Path

import click
import pytest

from dtq_engine.cli.root import root
from dtq_engine.config import SETTINGS, variable

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
OF_TESTS = re.compile(r"DTQ_(TEST_\w+|CRASH)")


def by_name(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_setting_that_is_named_exists(page):
    named = set(re.findall(r"\bDTQ_[A-Z][A-Z_]*[A-Z]\b", page.read_text()))
    unknown = {name for name in named - {variable(each) for each in SETTINGS} if not OF_TESTS.fullmatch(name)}
    assert unknown == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_command_that_is_named_exists_and_has_the_options(page):
    text = page.read_text()
    in_blocks = re.findall(r"^(?:\$ |    )?(dtq [a-z].*)$", "\n".join(BLOCK.findall(text)), re.MULTILINE)
    in_text = re.findall(r"`(dtq [a-z][^`]*)`", BLOCK.sub("", text))
    for line in [*in_blocks, *in_text]:
        command: click.Command = root
        words = re.split(r"\s+", line.partition("  #")[0])[1:]
        while isinstance(command, click.Group):
            assert words, line
            name = words.pop(0)
            assert name in command.commands, line
            command = command.commands[name]
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
        assert {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known, line

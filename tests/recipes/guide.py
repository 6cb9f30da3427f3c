"""The snippets of docs/tasks.md."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "tasks.md"

_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (?P<name>\w+\.py)\n")


def blocks(kind: str) -> list[str]:
    """The blocks of one kind, in order."""
    return [found["text"] for found in _BLOCK.finditer(GUIDE.read_text()) if found["kind"] == kind]


def kinds() -> set[str]:
    """Which kinds of blocks there are."""
    return {found["kind"] for found in _BLOCK.finditer(GUIDE.read_text())}


def files() -> dict[str, str]:
    """The files that blocks of Python begin with the names of, each put together from all its blocks."""
    found: dict[str, str] = {}
    for block in blocks("python"):
        named = _FILE.match(block)
        assert named, f"a block that no file name begins is run by nobody:\n{block}"
        found[named["name"]] = found.get(named["name"], "") + block
    return found

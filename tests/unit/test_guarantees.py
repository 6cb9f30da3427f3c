"""Every promise in docs/guarantees.md names tests, and every test it names exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if not line.startswith("| ---")]


def existing() -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("test_*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def named(text: str) -> list[str]:
    return re.findall(r"`(test_\w+)`", text)


def test_every_test_that_is_named_exists():
    assert set(named(PAGE)) - existing() == set()


def test_every_promise_names_a_test():
    promises = [row for row in rows() if row[-1] != "shown by"]
    assert len(promises) > 30
    assert [row[0] for row in promises if not named(row[-1])] == []

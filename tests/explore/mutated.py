"""Scripts with one of them broken. As a pytest plugin (`-p tests.explore.mutated`): the one that MUTANT names."""

import os
from collections.abc import Callable
from functools import cache

from dtq_engine import scripts
from tests.explore.mutations import MUTATIONS, Mutation


def source_of(mutation: Mutation) -> str | None:
    """The broken text of the file; None when the mutation does not fit it."""
    text = scripts.read(mutation.script)
    return text.replace(mutation.find, mutation.replace) if text.count(mutation.find) == 1 else None


def with_source(mutation: Mutation) -> Callable[[str], scripts.Script]:
    """`scripts.load` with one file broken."""
    broken = source_of(mutation)

    @cache
    def load(name: str) -> scripts.Script:
        return scripts.Script(name, lambda part: broken if part == mutation.script and broken else scripts.read(part))

    return load


def pytest_configure() -> None:
    """Break the script for the whole test run."""
    scripts.load = with_source(next(each for each in MUTATIONS if each.name == os.environ["MUTANT"]))  # type: ignore[assignment]

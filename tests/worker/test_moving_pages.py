"""docs/from-celery.md and docs/from-rq.md: our snippets do what they show, and what they name exists."""

import ast
import doctest
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from dtq_engine import Settings
from dtq_engine.worker import Worker

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("from-celery.md", "from-rq.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str, kind: str) -> list[str]:
    """The blocks of one kind, in order."""
    return [text for of_kind, text in BLOCK.findall((DOCS / page).read_text()) if of_kind == kind]


def modules(page: str) -> dict[str, str]:
    """Our snippets by the name of their module, which is in their first line."""
    ours = [block for block in blocks(page, "python") if ".py\n" in block[:40]]
    return {block.partition("\n")[0].removeprefix("# ").removesuffix(".py"): block for block in ours}


@contextmanager
def worked(module: ModuleType, settings: Settings) -> Iterator[None]:
    """A worker for the app of a module."""
    module.app.configure(replace(settings, worker_queues=("default", "mail")))
    worker = Worker(module.app, module.app.settings)
    worker.start()
    try:
        yield
    finally:
        worker.stop()
        worker.join(10)
        module.app.close()
        del sys.modules[module.__name__]


@pytest.mark.parametrize("page", PAGES)
def test_what_is_typed_into_the_shell_answers_as_shown(page, quick: Settings, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ON_DTQ", "")
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for (name, source), block in zip(modules(page).items(), blocks(page, "pycon"), strict=True):
        (tmp_path / f"{name}.py").write_text(source)
        with worked(importlib.import_module(name), quick):
            runner.run(doctest.DocTestParser().get_doctest(block, {}, name, page, 0), out=said.append)
    assert said == []
    assert runner.summarize(verbose=False).attempted >= 8


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_is_the_other_systems_code_and_is_python(page):
    others = [block for block in blocks(page, "python") if block not in modules(page).values()]
    assert [block.partition("\n")[0] for block in others] == [f"# {'Celery' if 'celery' in page else 'RQ'}"]
    for block in others:
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES)
def test_every_row_says_what_an_option_becomes_or_why_there_is_none(page):
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (DOCS / page).read_text(), re.MULTILINE)
    assert len(rows) > 40
    for theirs, ours in rows:
        assert not re.fullmatch(r"(none|–|-)?", ours.strip()), theirs
        assert not ours.startswith("none") or re.match(r"none( in [a-z ]+)?(, because|:)", ours), (theirs, ours)

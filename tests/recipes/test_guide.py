"""docs/tasks.md does what it says."""

import doctest
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from dtq_engine import Dtq, Settings
from dtq_engine.deduplication import DeduplicationOptions
from dtq_engine.task import Submitter
from dtq_engine.timetable import Timetable
from dtq_engine.worker import Worker
from tests.recipes import guide


@pytest.fixture
def tasks(tmp_path: Path, quick: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The guide's module `tasks`, with a worker beside it."""
    (tmp_path / "tasks.py").write_text(guide.files()["tasks.py"])
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("tasks")
    module.app.configure(replace(quick, retry_base_delay_s=0))
    worker = Worker(module.app, module.app.settings)
    worker.start()
    yield module
    worker.stop()
    assert worker.join(10) == 0
    module.app.close()
    del sys.modules["tasks"]


@pytest.mark.drains
def test_what_is_typed_into_the_shell_answers_as_shown(tasks: ModuleType) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    shell: dict[str, object] = {}
    said: list[str] = []
    for number, block in enumerate(guide.blocks("pycon")):
        test = doctest.DocTestParser().get_doctest(block, shell, f"block {number}", str(guide.GUIDE), 0)
        runner.run(test, out=said.append, clear_globs=False)
        shell.update(test.globs)
    assert said == []
    assert runner.summarize(verbose=False).attempted > 25


def test_every_block_is_run_by_a_test() -> None:
    assert guide.kinds() == {"python", "pycon"}
    tested = {path.stem.removeprefix("test_") + "_tasks.py" for path in Path(__file__).parent.glob("test_*.py")}
    assert set(guide.files()) - {"tasks.py"} <= tested


@pytest.mark.parametrize("name", [name for name in guide.files() if name != "django_tasks.py"])  # it needs settings
def test_importing_tasks_opens_no_connection_and_reads_no_settings(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(guide.files()[name])
    environ = {"DTQ_PRIORTY": "a setting that does not exist", "DTQ_REDIS_URL": "http://no.redis"}
    code = NO_SOCKETS.format(name=name.removesuffix(".py"))
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert ran.stdout == "imported\n", ran.stderr


NO_SOCKETS = """
import sys

def refuse(event, arguments):
    if event in {{"socket.connect", "socket.getaddrinfo", "sqlite3.connect"}}:
        raise AssertionError((event, arguments))

sys.addaudithook(refuse)
import {name}
assert {name}.app.registry.types()
print("imported")
"""


@pytest.mark.parametrize("method", [Dtq.task, Submitter.options, Timetable.__call__])
def test_every_option_is_in_the_guide(method: object) -> None:
    options = set(inspect.signature(method).parameters) - {"self", "name"}  # type: ignore[arg-type]
    if "deduplication" in options:
        options = options - {"deduplication"} | DeduplicationOptions.__annotations__.keys()
    text = guide.GUIDE.read_text()
    assert {option for option in options if f"`{option}" not in text} == set()

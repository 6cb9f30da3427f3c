"""`--reload`: a worker that follows changes of its code."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from dtq_engine import Dtq, Settings
from tests.support.environ import environ_of
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
APP = """
import os, time
from pathlib import Path
from dtq_engine import Dtq
import helper
app = Dtq()

@app.task("which")
def which() -> str:
    return helper.NAME

@app.task("slow")
def slow(name: str) -> int:
    while not Path(name).exists():
        time.sleep(0.02)
    return os.getpid()
"""


class Reloading:
    """`dtq worker --reload` in a folder with an app of two modules, or another command."""

    def __init__(self, folder: Path, settings: Settings, options: Sequence[str]) -> None:
        self.folder = folder
        self._log = folder / "log"
        command = [sys.executable, "-m", "dtq_engine.cli", "worker", "--app", "work:app", "--reload", *options]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environ_of(settings) | {"PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        """What it and its workers have said."""
        return self._log.read_text()

    @property
    def starts(self) -> int:
        """How many workers were ready so far."""
        return self.log.count("is ready")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until it has said this so often."""
        wait_until(lambda: self.log.count(text) >= times or self.process.poll() is not None, 20)
        assert self.log.count(text) == times, self.log

    def write(self, module: str, source: str) -> None:
        """Save a module, as an editor does."""
        (self.folder / module).write_text(source)

    def workers(self) -> list[int]:
        """The processes that it has started and that are not gone, dead or alive."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(each) for each in task.read_text().split()]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to end; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            finally:
                self.process.kill()


@pytest.fixture
def reloading(tmp_path: Path, quick: Settings) -> Iterator[Callable[..., Reloading]]:
    """Start one, and wait until its first worker is ready: `reloading("--concurrency", "2")`."""
    started: list[Reloading] = []
    (tmp_path / "work.py").write_text(APP)
    (tmp_path / "helper.py").write_text("NAME = 'one'\n")

    def make(*options: str, ready: bool = True) -> Reloading:
        started.append(Reloading(tmp_path, quick, options).__enter__())
        if ready:
            started[-1].wait_for("is ready")
        return started[-1]

    yield make
    for each in started:
        each.__exit__(None, None, None)


def test_a_change_of_any_module_of_the_app_starts_the_worker_anew(reloading, app: Dtq):
    worker = reloading()
    which = app.named("which")
    assert which.submit().result(timeout=10) == "one"
    worker.write("helper.py", "NAME = 'two'\n")
    worker.wait_for("is ready", 2)
    assert which.submit().result(timeout=10) == "two"
    assert "helper.py changed: the worker starts anew" in worker.log
    assert worker.end() == 0
    assert worker.starts == 2
    assert [line for line in worker.log.splitlines() if not line.startswith("20")] == []


def test_what_runs_is_finished_before_the_new_worker_starts(reloading, app: Dtq):
    worker = reloading()
    slow = app.named("slow").submit(name="go")
    wait_until(lambda: slow.status() == "running", 10)
    (pid,) = worker.workers()
    worker.write("helper.py", "NAME = 'two'\n")
    worker.wait_for("waits up to 2 s for 1 running tasks")
    assert worker.starts == 1
    (worker.folder / "go").touch()
    assert slow.result(timeout=10) == pid
    worker.wait_for("is ready", 2)
    assert app.store.inspect.get(slow.id).attempt == 1


def test_several_processes_start_anew_together(reloading, app: Dtq):
    worker = reloading("--processes", "2", ready=False)
    worker.wait_for("is ready", 2)
    assert app.named("which").submit().result(timeout=10) == "one"
    worker.write("helper.py", "NAME = 'two'\n")
    worker.wait_for("is ready", 4)
    assert {app.named("which").submit().result(timeout=10) for _ in range(4)} == {"two"}
    assert worker.end() == 0
    assert worker.log.count("starts 2 worker processes") == 2


def test_a_burst_of_changes_starts_it_anew_once(reloading):
    worker = reloading()
    for number in range(10):
        worker.write("helper.py", f"NAME = 'change {number}'\n")
        worker.write(f"other{number}.py", "")
    worker.wait_for("is ready", 2)
    assert worker.end() == 0
    assert (worker.starts, worker.log.count("starts anew")) == (2, 1)
    assert "and 8 more changed" in worker.log


def test_a_change_while_it_starts_is_not_overlooked(reloading, tmp_path, app: Dtq):
    """The module changes while it is imported: nobody watches it yet, and what was imported is out of date."""
    source = "NAME = 'old'\nopen(__file__, 'w').write(\"NAME = 'new'\\n\")\n"
    (tmp_path / "helper.py").write_text(source)
    worker = reloading(ready=False)
    worker.wait_for("helper.py changed: the worker starts anew")
    assert app.named("which").submit().result(timeout=20) == "new"


def test_a_syntax_error_is_told_in_a_line_and_mended_by_the_next_change(reloading, app: Dtq):
    worker = reloading()
    worker.write("helper.py", "NAME = (\n")
    worker.wait_for("it starts again when a file changes")
    told = [line for line in worker.log.splitlines() if "SyntaxError" in line]
    assert len(told) == 1
    assert (
        "work:app cannot be loaded: importing it raised SyntaxError: '(' was never closed (helper.py, line 1)"
        in told[0]
    )
    assert "Traceback" not in worker.log
    assert worker.workers() == []
    worker.write("helper.py", "NAME = 'mended'\n")
    worker.wait_for("is ready", 2)
    assert app.named("which").submit().result(timeout=10) == "mended"


def test_an_app_that_cannot_be_imported_at_first_is_waited_for(reloading, tmp_path):
    (tmp_path / "helper.py").unlink()
    worker = reloading(ready=False)
    worker.wait_for("it starts again when a file changes")
    assert "ModuleNotFoundError: No module named 'helper'" in worker.log
    worker.write("helper.py", "NAME = 'late'\n")
    worker.wait_for("is ready")


def test_a_handler_that_ends_the_process_is_started_again_with_the_next_change(reloading):
    worker = reloading()
    (pid,) = worker.workers()
    os.kill(pid, signal.SIGKILL)
    worker.wait_for("the worker has ended (exit code -9); it starts again when a file changes")
    worker.write("helper.py", "NAME = 'two'\n")
    worker.wait_for("is ready", 2)


def test_what_is_no_python_or_in_another_folder_changes_nothing(reloading):
    worker = reloading()
    (worker.folder / "data").mkdir()
    worker.write("data/mine.py", "")
    worker.write("notes.txt", "")
    worker.write("helper.py", "NAME = 'two'\n")
    worker.wait_for("is ready", 2)
    assert re.findall(r"(\S+) changed", worker.log) == ["helper.py"]


def test_another_folder_can_be_named(reloading, tmp_path):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    worker = reloading("--reload-dir", "data")
    worker.write("helper.py", "NAME = 'two'\n")
    worker.write("data/deep/mine.py", "")
    worker.wait_for("is ready", 2)
    assert re.findall(r"(\S+) changed", worker.log) == ["data/deep/mine.py"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_ends_it_and_its_worker_with_what_runs_given_back(reloading, app: Dtq, number):
    worker = reloading()
    slow = app.named("slow").submit(name="never")
    wait_until(lambda: slow.status() == "running", 10)
    (pid,) = worker.workers()
    assert worker.end(number) == 0
    assert not Path(f"/proc/{pid}").exists()
    assert slow.status() == "queued"
    slow.cancel()


def test_a_worker_whose_reloader_is_killed_drains_and_ends(reloading):
    worker = reloading()
    (pid,) = worker.workers()
    worker.process.kill()
    worker.process.wait(5)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10)
    assert "has ended" in worker.log


def test_many_changes_leave_nothing_behind(reloading):
    worker = reloading()
    open_files = Path(f"/proc/{worker.process.pid}/fd")
    threads = Path(f"/proc/{worker.process.pid}/task")
    before: tuple[int, int] | None = None
    for number in range(2, 7):
        worker.write("helper.py", f"NAME = '{number}'\n")
        worker.wait_for("is ready", number)
        wait_until(lambda: len(worker.workers()) == 1, 5)
        now = (len(list(open_files.iterdir())), len(list(threads.iterdir())))
        before = before or now
        assert now <= before


def test_without_watchfiles_it_says_what_to_install(monkeypatch, capsys):
    from dtq_engine.cli.root import run

    monkeypatch.setattr("dtq_engine.cli.worker.can_reload", lambda: False)
    assert run(["worker", "--app", "a:b", "--reload"]) == 2
    assert capsys.readouterr().err == (
        "Error: watchfiles, which tells what changed, is not installed: pip install 'dtq[dev]', or pip install "
        "watchfiles.\n"
    )

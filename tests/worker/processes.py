"""Worker processes, as an operator starts them: `python worker_main.py` with nothing but an environment."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from dtq_engine import Settings
from tests.support.environ import environ_of
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
HEADER = """
import asyncio, os, time
from pathlib import Path
from dtq_engine import Dtq, TaskContext

app = Dtq()
"""
NOTE = """
import signal
from dtq_engine import Snooze

def note(text):
    # One write, so that lines of several processes do not mix.
    with open("notes", "ab", buffering=0) as notes:
        notes.write(f"{text}\\n".encode())

def wait_for(name, seconds=20):
    deadline = time.monotonic() + seconds
    while not Path(name).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
"""


def children_of(pid: int) -> list[int]:
    """The ids of the living processes that a process has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted(int(each) for file in lists for each in file.read_text().split() if is_alive(int(each)))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    return _state(pid) not in "ZX"


def is_stopped(pid: int) -> bool:
    """Whether a process is there and halted by SIGSTOP."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return stat.rpartition(")")[2].split()[0]


def cpu_s(pid: int) -> float:
    """The seconds of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class WorkerProcess:
    """One worker process; its handlers are written to a module `jobs` in `directory`, which is also where it runs."""

    def __init__(self, directory: Path, source: str, settings: Settings, crash: str | None = None) -> None:
        (directory / "jobs.py").write_text(HEADER + source)
        self._log = directory / f"worker-{time.monotonic_ns()}.log"
        environ = environ_of(settings) | {"DTQ_TASKS": "jobs:app", "PYTHONPATH": str(ROOT)}
        if crash is not None:
            environ["DTQ_CRASH"] = crash
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "worker_main.py")],
                cwd=directory,
                env=environ,
                stdout=log,
                stderr=log,
                # Signals to a whole group, as a terminal sends them, are to reach it without the tests.
                process_group=0,
            )

    @property
    def log(self) -> str:
        """What it said."""
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until it says that it is ready."""
        wait_until(lambda: "is ready" in self.log or self._process.poll() is not None, 15)
        assert "is ready" in self.log, self.log

    def signal_group(self, number: signal.Signals) -> None:
        """Send it and all it has started a signal, as a terminal does."""
        os.killpg(self.pid, number)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def wait(self, timeout: float = 10) -> int:
        """Wait for its end; the exit code."""
        return self._process.wait(timeout)

    def kill(self) -> None:
        """End it as a crash does, and wait for that."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(5)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self.kill()

    @property
    def children(self) -> list[int]:
        """The ids of the processes that it has started and that live."""
        return children_of(self.pid)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def cpu_s(self) -> float:
        """The seconds of CPU time that it has used."""
        return cpu_s(self.pid)


class Crew:
    """Worker processes on the same handlers; all are gone when its block ends.

    A handler calls `note(text)` to leave a line in the file that `notes` reads.
    """

    def __init__(self, directory: Path, source: str, settings: Settings) -> None:
        self.settings = settings
        self._directory = directory
        self._source = NOTE + source
        self._notes = directory / "notes"
        self._members: list[WorkerProcess] = []

    def start(self, *, ready: bool = True, crash: str | None = None, **changes: object) -> WorkerProcess:
        """Start one: `start(drain_timeout_s=1)`, or one that dies at a point: `start(crash="after-claim")`."""
        settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        process = WorkerProcess(self._directory, self._source, settings, crash)
        self._members.append(process)
        if ready and crash is None:
            process.wait_until_ready()
        return process

    @property
    def notes(self) -> list[str]:
        """What the handlers have noted, in order."""
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    def has_noted(self, text: str) -> bool:
        """Whether a handler has noted this."""
        return text in self.notes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._members:
            process.end()

"""Worker processes, as an operator starts them: `python worker_main.py` with nothing but an environment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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


class WorkerProcess:
    """One worker process; its handlers are written to a module `jobs` in `directory`, which is also where it runs."""

    def __init__(self, directory: Path, source: str, settings: Settings) -> None:
        (directory / "jobs.py").write_text(HEADER + source)
        self._log = directory / f"worker-{time.monotonic_ns()}.log"
        environ = environ_of(settings) | {"DTQ_TASKS": "jobs:app", "PYTHONPATH": str(ROOT)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "worker_main.py")],
                cwd=directory,
                env=environ,
                stdout=log,
                stderr=log,
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

"""The processes of a deployment, started as an operator would: with everything in their environment."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from dtq_engine import Dtq
from dtq_engine.embedded import free_port
from examples.workload import ROOT

QUEUES = "demo,demo-reports"
READY_WITHIN_S = 30.0
DRAIN_S = 3.0

# The process ends when the demonstration is killed. On Linux; elsewhere it goes on until it is stopped.
_END_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class ProcessFailed(Exception):
    """Raised when a process did not start, or ended by itself; says why in a sentence."""


class Process:
    """Started on entering the context; told to end, and waited for, on leaving it."""

    def __init__(self, name: str, command: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
        """`command` is what Python is to run, `settings` what is added to the environment."""
        self.log = log
        self._name = name
        self._command = command
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid if self._process else 0

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C is for the demonstration, which then stops the process in good order.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid()), *self._command],
                cwd=ROOT,
                env=os.environ | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(DRAIN_S + 3)
        except BaseException:
            # Also when Ctrl-C is pressed again meanwhile: nothing may be left behind.
            self._process.kill()
            self._process.wait()
            raise

    def wait_until_ready(self) -> None:
        """Return once it has shown that it is up. Raises ProcessFailed."""
        ends = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < ends:
            self.check()
            if self.is_ready():
                return
            time.sleep(0.05)
        raise ProcessFailed(f"the {self._name} has not reported itself in time; its log is {self.log}.")

    def is_ready(self) -> bool:
        """Whether it is up."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ProcessFailed, with the last thing it said, if it has ended."""
        if self._process is not None and self._process.poll() is not None:
            said = self.log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise ProcessFailed(f"the {self._name} ended by itself with code {self._process.returncode}: {said[-1]}")


class Worker(Process):
    """`worker_main.py`."""

    def __init__(self, name: str, redis_url: str, tasks: str, log: Path, app: Dtq) -> None:
        self.id = f"demo-{name}"
        self._app = app
        settings = {
            "DTQ_REDIS_URL": redis_url,
            "DTQ_TASKS": tasks,
            "DTQ_WORKER_ID": self.id,
            "DTQ_WORKER_QUEUES": QUEUES,
            "DTQ_DRAIN_TIMEOUT_S": str(DRAIN_S),
        }
        super().__init__("worker", ["worker_main.py"], settings, log)

    def is_ready(self) -> bool:
        """Whether it has reported itself."""
        return any(worker.id == self.id for worker in self._app.store.workers.list())


class Web(Process):
    """gunicorn, as the Procfile has it, on a free port of this machine alone, and open to who is on it."""

    def __init__(self, redis_url: str, log: Path) -> None:
        self.port = free_port()
        settings = {"DTQ_REDIS_URL": redis_url, "DTQ_OPEN": "1"}
        place = ["--bind", f"127.0.0.1:{self.port}", "webapp:create_app()"]
        command = ["-m", "gunicorn", "-c", "gunicorn.conf.py", "--no-control-socket", *place]
        super().__init__("web process", command, settings, log)

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://127.0.0.1:{self.port}/"

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=1)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False

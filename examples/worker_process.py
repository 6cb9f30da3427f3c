"""One worker process, started as an operator would: `worker_main.py`, with everything in its environment."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from dtq_engine.store import Store
from examples.workload import ROOT

QUEUES = "demo,demo-reports"
READY_WITHIN_S = 30.0
DRAIN_S = 3.0

# The worker ends when the demonstration is killed. On Linux; elsewhere it goes on until it is stopped.
_END_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, "worker_main.py"])
"""


class WorkerFailed(Exception):
    """Raised when the worker did not start, or ended by itself; says why in a sentence."""


class WorkerProcess:
    """Started on entering the context; drained and ended on leaving it."""

    def __init__(self, name: str, redis_url: str, app: str, log: Path) -> None:
        self.id = f"demo-{name}"
        self.log = log
        self._settings = {
            "DTQ_REDIS_URL": redis_url,
            "DTQ_TASKS": app,
            "DTQ_WORKER_ID": self.id,
            "DTQ_WORKER_QUEUES": QUEUES,
            "DTQ_DRAIN_TIMEOUT_S": str(DRAIN_S),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid if self._process else 0

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C is for the demonstration, which then stops the worker in good order.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid())],
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

    def wait_until_ready(self, store: Store, ends: float) -> None:
        """Return once the worker has reported itself. Raises WorkerFailed."""
        ends = min(ends, time.monotonic() + READY_WITHIN_S)
        while time.monotonic() < ends:
            self.check()
            if any(worker.id == self.id for worker in store.workers.list()):
                return
            time.sleep(0.05)
        raise WorkerFailed(f"the worker has not reported itself in time; its log is {self.log}.")

    def check(self) -> None:
        """Raise WorkerFailed, with the last thing it said, if the worker has ended."""
        if self._process is not None and self._process.poll() is not None:
            said = self.log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise WorkerFailed(f"the worker ended by itself with code {self._process.returncode}: {said[-1]}")

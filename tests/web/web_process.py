"""The web process as it is deployed: gunicorn, in a process group of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from dtq_engine import Settings
from dtq_engine.embedded import free_port
from tests.support.environ import environ_of
from tests.support.waiting import wait_until
from tests.web.reader import Reader

ROOT = Path(__file__).parents[2]


class WebProcess:
    """One gunicorn with its workers, on a free port of this machine."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        workers: int = 1,
        key: str = "",
        port: int = 0,
        app: str = "webapp:create_app()",
        under: str = "",
    ) -> None:
        self.port = port or free_port()
        self.key = key
        self.under = under
        self._readers: list[Reader] = []
        self._log = directory / f"web-{time.monotonic_ns()}.log"
        command = ["-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "--no-control-socket", app]
        environ = environ_of(settings) | {
            "PORT": str(self.port),
            "DTQ_WEB_PROCESSES": str(workers),
            "PYTHONPATH": f"{ROOT}:{directory}",
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def log(self) -> str:
        """What it said."""
        return self._log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        """Wait until it answers."""
        wait_until(lambda: self.process.poll() is not None or self._answers(), 30, 0.05)
        assert self.process.poll() is None, self.log

    def _answers(self) -> bool:
        try:
            return self.get(f"{self.under}/health")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET, over a connection of its own."""
        request = Request(f"http://127.0.0.1:{self.port}{path}", headers=self.headers)
        with urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()

    def post(self, path: str, body: object, *, key: str) -> tuple[int, str]:
        """Status and body of a POST with this key."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), headers)
        try:
            with urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    @property
    def headers(self) -> dict[str, str]:
        """What says who asks."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def socket(self, query: str = "", *, buffer: int | None = None, **headers: str) -> Reader:
        """An open event socket; `buffer` is how many bytes its system keeps for it."""
        reader = Reader(self.port, f"/ws/events{query}", self.headers | headers, buffer)
        self._readers.append(reader)
        return reader

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of its workers."""
        return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", self.log)]

    def terminate(self, timeout: float = 15) -> float:
        """Ask it to end, and wait for that; how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout)
        return time.monotonic() - began

    def __enter__(self) -> Self:
        self.wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self._readers:
            reader.raw.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)

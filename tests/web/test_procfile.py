"""The Procfile as it is, started by honcho as `heroku local` and its like do."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import pytest

from dtq_engine.embedded import EmbeddedValkey, free_port
from tests.support.waiting import wait_until
from tests.worker.processes import children_of, is_alive

ROOT = Path(__file__).parents[2]
KEY = "k" * 32


class Formation:
    """The web process and a worker, with nothing but what the platform sets."""

    def __init__(self, directory: Path, server: EmbeddedValkey) -> None:
        self.port = free_port()
        self._log = directory / "log"
        inherited = {name: value for name, value in os.environ.items() if not re.match("DTQ_|REDIS_|PORT", name)}
        programs = Path(sys.executable).parent
        environ = inherited | {
            "DTQ_API_KEYS": f"shop:submit:{KEY}",
            "DTQ_ENV": "production",
            "DTQ_TASKS": "examples.tasks:app",
            "DTQ_WORKER_QUEUES": "demo",
            "PATH": f"{programs}:{inherited['PATH']}",
            "PORT": str(self.port),
            "REDIS_URL": server.url,
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [programs / "honcho", "start", "--env", os.devnull, "web", "worker"],
                cwd=ROOT,
                env=environ,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        """What they said."""
        return self._log.read_text(errors="replace")

    @property
    def pids(self) -> list[int]:
        """All processes, honcho's own and those below it."""
        found = [self.process.pid]
        for pid in found:
            found += children_of(pid)
        return found

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        """Status and body of a call of the API."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=40)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
            answer = connection.getresponse()
            return answer.status, msgspec.json.decode(answer.read())
        finally:
            connection.close()

    def answers(self) -> bool:
        """Whether tasks are accepted."""
        try:
            return self.call("GET", "/ready")[0] == 200
        except OSError:
            return False


@pytest.fixture
def formation(tmp_path: Path, own_server: EmbeddedValkey) -> Iterator[Formation]:
    formation = Formation(tmp_path, own_server)
    pids = list[int]()
    try:
        wait_until(formation.answers, 40, 0.1)
        pids += formation.pids
        yield formation
    finally:
        for pid in filter(is_alive, {*pids, *formation.pids}):
            os.kill(pid, signal.SIGKILL)
        formation.process.wait(5)


def test_what_is_submitted_over_http_is_done_and_all_end_within_their_grace(formation: Formation, tmp_path: Path):
    text = tmp_path / "words.txt"
    text.write_text("three words here")
    task = {"type": "files.count_words", "queue": "demo", "payload": {"path": str(text)}}
    status, accepted = formation.call("POST", "/api/v1/tasks", task)
    assert status == 202, accepted
    status, ended = formation.call("GET", f"/api/v1/tasks/{accepted['id']}/result?wait=30")
    assert (status, ended["status"]) == (200, "succeeded"), formation.log
    pids = formation.pids
    assert len(pids) >= 4, "honcho, a worker, gunicorn, and its process"
    began = time.monotonic()
    formation.process.send_signal(signal.SIGTERM)
    formation.process.wait(30)
    # honcho itself kills after 5 s what has not ended: nothing needed that.
    assert "SIGKILL" not in formation.log
    assert time.monotonic() - began < 5
    assert not list(filter(is_alive, pids))

"""`dtq dev` and `dtq worker`, as processes."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.support.environ import environ_of
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DTQ = (sys.executable, "-m", "dtq_engine.cli")
HANDLERS = """
from dtq_engine import Dtq
app = Dtq()

@app.task("double", queue="sums")
def double(n: int) -> int:
    return 2 * n

@app.task("twice", queue="sums")
def twice(n: int) -> str:
    return double.submit(n).id
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an app in it."""
    (tmp_path / "sums.py").write_text(HANDLERS)
    return tmp_path


@pytest.fixture
def bare_environ() -> dict[str, str]:
    """An environment that names no Redis."""
    inherited = {name: value for name, value in os.environ.items() if not re.match(r"(DTQ_|REDIS_)", name)}
    return inherited | {"PYTHONPATH": str(ROOT)}


def result_of(environ: dict[str, str], folder: Path, *call: str) -> object:
    command = [*DTQ, "submit", *call, "--wait", "20s"]
    ran = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=40)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_dev_runs_a_server_and_a_worker_on_all_queues_of_the_app_until_ctrl_c(folder, bare_environ):
    with subprocess.Popen(
        [*DTQ, "dev", "sums:app", "--json"],
        env=bare_environ,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as dev:
        try:
            assert dev.stdout is not None
            told = json.loads(dev.stdout.readline())
            assert (told["queues"], told["types"]) == (["default", "sums"], ["double", "twice"])
            environ = bare_environ | {"DTQ_REDIS_URL": told["redis_url"], "DTQ_TASKS": "sums:app"}
            assert result_of(environ, folder, "double", "n=21") == 42
            # A handler that submits speaks to the same server.
            child = result_of(environ, folder, "twice", "n=4")
            shown = subprocess.run(
                [*DTQ, "result", str(child), "--wait", "20s"], env=environ, capture_output=True, cwd=folder
            )
            assert shown.stdout == b"8\n"
            dev.send_signal(signal.SIGINT)
            assert dev.wait(20) == 0
        finally:
            dev.kill()
    assert (folder / ".dtq" / "appendonlydir").is_dir()
    with pytest.raises(redis.ConnectionError):
        redis.Redis.from_url(told["redis_url"]).ping()


def test_dev_follows_changes_of_the_code_on_the_same_server_until_sigterm(folder, bare_environ):
    log = folder / "log"
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [*DTQ, "dev", "sums:app", "--json"], env=bare_environ, cwd=folder, stdout=subprocess.PIPE, stderr=said
        ) as dev,
    ):
        try:
            assert dev.stdout is not None
            environ = bare_environ | {"DTQ_REDIS_URL": json.loads(dev.stdout.readline())["redis_url"]}
            wait_until(lambda: log.read_text().count("is ready") == 1, 20)
            (folder / "sums.py").write_text(HANDLERS.replace("2 * n", "3 * n"))
            wait_until(lambda: log.read_text().count("is ready") == 2, 20)
            assert result_of(environ, folder, "double", "n=21") == 63
            dev.send_signal(signal.SIGTERM)
            assert dev.wait(20) == 0
            assert dev.stdout.read() == b""
        finally:
            dev.kill()
    with pytest.raises(redis.ConnectionError):
        redis.Redis.from_url(environ["DTQ_REDIS_URL"]).ping()


def test_worker_takes_its_options_over_the_environment(folder, settings):
    environ = environ_of(settings) | {"DTQ_TASKS": "nothing:app", "PYTHONPATH": str(ROOT)}
    command = [*DTQ, "worker", "--app", "sums:app", "--queues", "sums", "--concurrency", "2", "--json"]
    with subprocess.Popen(command, env=environ, cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stderr is not None
            ready = next(line for line in worker.stderr if "is ready" in line)
            assert "2 slots, queues sums" in json.loads(ready)["message"]
            assert result_of(environ | {"DTQ_TASKS": "sums:app"}, folder, "double", "n=3") == 6
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(20) == 0
        finally:
            worker.kill()

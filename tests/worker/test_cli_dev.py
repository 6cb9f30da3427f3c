"""`dtq dev` and `dtq worker`, as processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from dtq_engine.cli.root import run
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


@contextmanager
def developing(folder, environ, *options):
    """`dtq dev` in a folder, and the address that it tells; SIGTERM ends it, with what it said on stderr."""
    log = folder / "log"
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [*DTQ, "dev", "sums:app", "--json", *options], env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=said
        ) as dev,
    ):
        try:
            assert dev.stdout is not None
            yield json.loads(dev.stdout.readline())["redis_url"]
            dev.terminate()
            assert dev.wait(20) == 0, log.read_text()
        finally:
            dev.kill()


def test_an_address_that_was_exported_is_good_the_next_time_even_where_dev_is_started(folder, bare_environ):
    with developing(folder, bare_environ) as url:
        pass
    with developing(folder, bare_environ) as again:
        assert again == url
    # The variable names no server that runs, but where this one is to be.
    environ = bare_environ | {"DTQ_REDIS_URL": url, "DTQ_TASKS": "sums:app"}
    with developing(folder, environ) as again:
        assert again == url
        assert result_of(environ, folder, "double", "n=21") == 42


def test_it_says_so_when_the_port_of_the_last_time_is_taken(folder, bare_environ):
    with developing(folder, bare_environ) as url:
        pass
    with socket.create_server(("127.0.0.1", urlsplit(url).port)), developing(folder, bare_environ) as other:
        assert other != url
    assert f"The port {urlsplit(url).port} of the last time is taken" in (folder / "log").read_text()


def test_a_second_dev_in_the_same_folder_says_where_the_first_one_is(folder, bare_environ):
    with developing(folder, bare_environ) as url:
        second = subprocess.run([*DTQ, "dev", "sums:app"], env=bare_environ, cwd=folder, capture_output=True, text=True)
        assert second.returncode == 2
        assert f"is in use by another embedded Valkey at {url}: stop that one" in second.stderr


def test_with_several_processes_handlers_submit_to_the_same_server(folder, bare_environ):
    with developing(folder, bare_environ | {"DTQ_WORKER_PROCESSES": "2"}) as url:
        environ = bare_environ | {"DTQ_REDIS_URL": url, "DTQ_TASKS": "sums:app"}
        child = result_of(environ, folder, "twice", "n=4")
        shown = subprocess.run(
            [*DTQ, "result", str(child), "--wait", "20s"], env=environ, capture_output=True, cwd=folder
        )
        assert shown.stdout == b"8\n"


@pytest.mark.parametrize("command", [("dev", "{}"), ("worker", "--reload", "--app", "{}")])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nope:app", "No module named 'nope'"),
        ("sums.nope:app", "No module named 'sums.nope'"),
        ("sums:nope", "sums:nope is missing: name a Dtq"),
        ("sums:double.name", "sums:double.name is no Dtq app"),
    ],
)
def test_an_app_that_is_not_there_is_not_waited_for(folder, bare_environ, command, name, sentence):
    words = [word.format(name) for word in command]
    ran = subprocess.run([*DTQ, *words], env=bare_environ, cwd=folder, capture_output=True, text=True, timeout=40)
    assert ran.returncode == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_app_with_an_error_in_it_is_waited_for(folder, bare_environ):
    (folder / "sums.py").write_text("import nope_nope\n")
    log = folder / "log"
    with (
        log.open("wb") as said,
        subprocess.Popen([*DTQ, "dev", "sums:app"], env=bare_environ, cwd=folder, stdout=said, stderr=said) as dev,
    ):
        try:
            wait_until(lambda: "starts again when a file changes" in log.read_text() or dev.poll() is not None, 20)
            (folder / "sums.py").write_text(HANDLERS)
            wait_until(lambda: "is ready" in log.read_text() or dev.poll() is not None, 20)
            assert "is ready" in log.read_text()
            dev.terminate()
            assert dev.wait(20) == 0
        finally:
            dev.kill()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--queues", "A B,c"], "--queues cannot be 'A B,c': set it to different queue names"),
        (["--processes", "0"], "--processes cannot be '0': set it to a whole number from 1 to 256."),
        (["--concurrency", "0"], "--concurrency cannot be '0': set it to a whole number from 1 to 1000."),
        (["--app", "nope"], "MODULE:APP cannot be 'nope': set it to module:attribute"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_given(capsys, options, sentence):
    assert run(["worker", "--app", "a:b", *options]) == 2
    assert f"Error: {sentence}" in capsys.readouterr().err


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

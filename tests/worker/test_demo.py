"""The demonstration, run as its user runs it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
import redis

from tests.support.environ import environ_of
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DEMO = (sys.executable, "-m", "examples.demo")


def run(environ: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*DEMO, *arguments]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=55)


@pytest.fixture
def bare_environ() -> dict[str, str]:
    """An environment that names no Redis."""
    return {name: value for name, value in os.environ.items() if not re.match(r"(DTQ_|REDIS_)", name)}


def test_all_tasks_end_as_they_should_with_a_server_of_its_own_time_and_again(bare_environ, tmp_path):
    for _ in range(2):
        ran = run(bare_environ, "--once", "--data", str(tmp_path))
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
        assert "✗" not in ran.stdout
        assert re.search(
            r"^TYPE +TASKS +OUTCOME +ATTEMPTS +WAIT P50 +WAIT MAX +RUN P50 +RUN MAX$", ran.stdout, re.MULTILINE
        )
        assert re.search(r"^demo.flaky +1 +succeeded +3 ", ran.stdout, re.MULTILINE)
        assert re.search(r"^demo.always_fails +1 +dead_lettered +3 ", ran.stdout, re.MULTILINE)
        assert re.search(r"^(\d+) of \1 tasks have ended$", ran.stdout, re.MULTILINE)
        assert ran.stdout.endswith("Every task ended as it should.\n")


def test_a_task_that_ends_otherwise_is_named_and_the_exit_code_is_1(settings, tmp_path):
    ran = run(environ_of(settings), "--once", "--data", str(tmp_path), "--app", "tests.worker.broken_tasks:app")
    assert (ran.returncode, ran.stderr) == (1, "")
    failures = [line for line in ran.stdout.splitlines() if line.startswith("✗")]
    assert [line.split("  ")[0] for line in failures] == ["✗ the flaky task succeeded on its third attempt"]
    assert ran.stdout.endswith("Not every task ended as it should.\n")


def test_tasks_that_do_not_end_in_time_are_cancelled_and_the_exit_code_is_1(settings, tmp_path):
    ran = run(environ_of(settings), "--once", "--data", str(tmp_path), "--time-limit", "2")
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("environ", "app", "complaint"),
    [
        ({"DTQ_REDIS_URL": "redis://127.0.0.1:1/0"}, "examples.tasks:app", "Error: Redis does not answer"),
        ({}, "examples.nothing:app", "Error: the worker ended by itself with code 2: examples.nothing:app cannot be"),
    ],
)
def test_what_keeps_it_from_starting_is_told_in_a_sentence(settings, environ, app, complaint, tmp_path):
    ran = run(environ_of(settings) | environ, "--once", "--data", str(tmp_path), "--app", app)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert ran.stderr.startswith(complaint)


def test_ctrl_c_ends_everything_it_started(bare_environ, tmp_path):
    output = tmp_path / "output"
    with output.open("w") as out:
        demo = subprocess.Popen([*DEMO, "--data", str(tmp_path)], env=bare_environ, cwd=ROOT, stdout=out, stderr=out)
    try:
        wait_until(lambda: "stays up until Ctrl-C" in output.read_text() or demo.poll() is not None, 40)
        said = output.read_text()
        url, web = re.search(r"redis://\S+", said), re.search(r"http://\S+/(?=,)", said)
        assert url is not None, said
        assert web is not None, said
        assert urlopen(f"{web.group()}health").status == 200
        assert redis.Redis.from_url(url.group()).ping()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == 0
        with pytest.raises(redis.ConnectionError):
            redis.Redis.from_url(url.group()).ping()
        for pid in re.findall(r"process (\d+)", said):
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid), 0)
    finally:
        demo.kill()
        demo.wait()

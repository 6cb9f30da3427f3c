"""What tests start ends with them, and nothing else does."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dtq_engine.config import KIN_MARK
from tests.support.kin import ROOT, Grips
from tests.support.waiting import wait_until
from tests.worker.processes import is_alive

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
OWNER = """
import subprocess, sys, time
from tests.support.kin import kin_end_with_this_process

with kin_end_with_this_process():
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, text=True)
    print(f"{started.pid} {started.stdout.readline()}", end="", flush=True)
    if sys.argv[1] == "wait":
        time.sleep(60)
"""


@pytest.fixture
def grips() -> Iterator[Grips]:
    """Processes that are gone after the test."""
    grips = Grips()
    yield grips
    grips.kill()


def owner(how: str) -> "subprocess.Popen[str]":
    """A process that has started others as tests do."""
    return subprocess.Popen([sys.executable, "-c", OWNER, how], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def pids_of(owner: "subprocess.Popen[str]", grips: Grips) -> list[int]:
    """The two that it has started, of which one started the other."""
    assert owner.stdout is not None
    pids = [int(each) for each in owner.stdout.readline().split()]
    for pid in pids:
        grips.take(pid)
    return pids


def test_what_tests_have_started_ends_when_they_are_killed_and_nothing_else_does(grips: Grips) -> None:
    bystander = subprocess.Popen(SLEEP, env={**os.environ, KIN_MARK: f"{os.environ[KIN_MARK]}/another"})
    with owner("wait") as killed, bystander:
        pids = pids_of(killed, grips)
        assert all(map(is_alive, pids))
        killed.kill()
        wait_until(lambda: not any(map(is_alive, pids)))
        assert bystander.poll() is None
        bystander.kill()


def test_what_tests_leave_as_they_end_in_good_order_is_left_alone(grips: Grips) -> None:
    with owner("return") as ended:
        pids = pids_of(ended, grips)
        assert ended.wait(10) == 0
    assert all(map(is_alive, pids))

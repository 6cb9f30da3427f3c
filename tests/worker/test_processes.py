"""`--processes N`: workers under a supervisor, which starts again those that die and ends all of them together."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Settings, Task, TaskStatus
from dtq_engine.worker.post import HEALTHY_S, SILENT_S, Post
from tests.support.environ import environ_of
from tests.support.kin import Grips
from tests.support.waiting import wait_until
from tests.worker.processes import HEADER, ROOT, WorkerProcess, children_of, is_alive, is_stopped

Ended = Callable[..., Task]
Supervise = Callable[..., WorkerProcess]
Spawn = Callable[..., WorkerProcess]

JOBS = """
@app.task("pid")
def pid() -> int:
    return os.getpid()

@app.task("sleepy")
def sleepy(name: str, seconds: float) -> str:
    Path(name).touch()
    time.sleep(seconds)
    return "slept"

@app.task("exit", max_attempts=1)
def exit(code: int) -> None:
    if not Path("exited").exists():
        Path("exited").touch()
        os._exit(code)
"""

# The second one never comes to its start.
STARTING = f"""
import signal
try:
    Path("first").touch(exist_ok=False)
except FileExistsError:
    os.kill(os.getpid(), signal.SIGSTOP)
{JOBS}
"""


def when_ready(process: WorkerProcess, count: int) -> list[int]:
    """The ids of the worker processes, once so many have said that they are ready."""
    wait_until(lambda: process.log.count("is ready:") >= count or process.is_over, 20)
    assert process.log.count("is ready:") >= count, process.log
    return process.children


@pytest.fixture
def supervise(spawn: Callable[..., WorkerProcess]) -> Iterator[Supervise]:
    """Start a supervisor of two workers with a slot each, and wait until both are ready."""
    members = Grips()

    def make(source: str = JOBS, **changes: object) -> WorkerProcess:
        process = spawn(source, **{"worker_processes": 2, "worker_concurrency": 1, **changes})
        for pid in when_ready(process, 2):
            members.take(pid)
        return process

    yield make
    members.kill()


@pytest.mark.drains
def test_each_process_is_a_worker_with_an_id_of_its_own_and_marks_its_lines(app: Dtq, supervise: Supervise) -> None:
    process = supervise(worker_id="w")
    workers = app.store.workers.list()
    assert sorted(info.id for info in workers) == ["w-1", "w-2"]
    assert sorted(info.pid for info in workers) == process.children
    for number in (1, 2):
        assert re.search(rf"INFO    \[{number}\] worker w-{number} is ready", process.log)
    assert app.named("pid").submit().result(timeout=5) in process.children


@pytest.mark.drains
def test_a_worker_that_is_killed_is_replaced_and_the_log_says_how_it_ended(app: Dtq, supervise: Supervise) -> None:
    process = supervise(worker_id="w")
    first, second = process.children
    os.kill(second, signal.SIGKILL)
    assert first in when_ready(process, 3)
    assert second not in process.children
    assert f"worker process 2 (pid {second}) was killed by SIGKILL; another takes its place in 0.5 s" in process.log
    # It comes back under the name of the one that died, which is no reason to warn.
    assert "another worker is called" not in process.log
    assert app.named("pid").submit().result(timeout=5) in process.children


@pytest.mark.drains
def test_a_handler_that_exits_with_the_code_of_a_misconfiguration_does_not_end_the_others(
    app: Dtq, supervise: Supervise, ended: Ended
) -> None:
    process = supervise()
    handle = app.named("exit").options(max_attempts=3).submit(code=2)
    when_ready(process, 3)
    assert "ended with exit code 2; another takes its place" in process.log
    assert ended(handle).status is TaskStatus.SUCCEEDED


@pytest.mark.drains
@pytest.mark.parametrize("to_all", [False, True])
def test_one_sigterm_lets_all_finish_what_they_run_and_take_nothing_new(
    app: Dtq, supervise: Supervise, ended: Ended, tmp_path: Path, to_all: bool
) -> None:
    process = supervise()
    handles = [app.named("sleepy").submit(name=name, seconds=0.8) for name in ("a", "b")]
    wait_until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
    late = app.named("pid").submit()
    (process.signal_group if to_all else process.signal)(signal.SIGTERM)
    assert process.wait(4) == 0
    assert {ended(handle).status for handle in handles} == {TaskStatus.SUCCEEDED}
    assert late.status() is TaskStatus.QUEUED
    assert app.store.workers.list() == []
    assert "another takes its place" not in process.log
    late.cancel()


@pytest.mark.alone
def test_what_outlasts_the_drain_is_given_back_by_all_within_a_second(
    app: Dtq, supervise: Supervise, tmp_path: Path
) -> None:
    process = supervise(drain_timeout_s=0.5)
    handles = [app.named("sleepy").submit(name=name, seconds=60) for name in ("a", "b")]
    wait_until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
    before = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert time.monotonic() - before < 1.5
    for handle in handles:
        task = app.store.inspect.get(handle.id)
        assert (task.status, task.attempt) == (TaskStatus.QUEUED, 0)
        handle.cancel()


@pytest.mark.parametrize("to_all", [False, True])
def test_a_later_sigterm_cuts_the_drain_of_all_short(
    app: Dtq, supervise: Supervise, tmp_path: Path, to_all: bool
) -> None:
    process = supervise(drain_timeout_s=30)
    handle = app.named("sleepy").submit(name="a", seconds=60)
    wait_until((tmp_path / "a").exists)
    send = process.signal_group if to_all else process.signal
    send(signal.SIGTERM)
    time.sleep(1)
    send(signal.SIGTERM)  # within two seconds it is the same one
    time.sleep(1.1)
    assert not process.is_over
    send(signal.SIGTERM)
    assert process.wait(2) == 0
    assert app.store.inspect.get(handle.id).status is TaskStatus.QUEUED
    handle.cancel()


@pytest.mark.alone
def test_a_worker_that_is_frozen_is_killed_after_the_drain_and_the_exit_code_says_so(supervise: Supervise) -> None:
    process = supervise(drain_timeout_s=0.5)
    frozen = process.children[0]
    os.kill(frozen, signal.SIGSTOP)
    before = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 137
    assert time.monotonic() - before < 1.6
    assert not is_alive(frozen)
    assert f"(pid {frozen}) has not ended in time and is killed" in process.log


def test_a_worker_that_was_still_starting_is_killed_after_the_drain_and_that_is_no_failure(spawn: Spawn) -> None:
    process = spawn(STARTING, worker_processes=2, drain_timeout_s=0.5)
    wait_until(lambda: any(is_stopped(child) for child in process.children))
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert "has not ended in time and is killed" in process.log


def test_hooks_at_the_end_of_a_worker_have_their_own_time(supervise: Supervise, tmp_path: Path) -> None:
    hook = """
@app.on_worker_stop
def slow(info) -> None:
    time.sleep(2)
    Path(f"stopped-{info.pid}").touch()
"""
    process = supervise(JOBS + hook, drain_timeout_s=0.2)
    members = process.children
    process.signal(signal.SIGTERM)
    assert process.wait(8) == 0
    assert all((tmp_path / f"stopped-{pid}").exists() for pid in members)


def test_a_second_sigint_ends_all_at_once(app: Dtq, supervise: Supervise, tmp_path: Path) -> None:
    process = supervise(drain_timeout_s=30)
    members = process.children
    handle = app.named("sleepy").submit(name="a", seconds=60)
    wait_until((tmp_path / "a").exists)
    process.signal(signal.SIGINT)
    time.sleep(0.7)
    process.signal(signal.SIGINT)
    assert process.wait(1) == 130
    assert not any(is_alive(pid) for pid in members)
    handle.cancel()


@pytest.mark.drains
def test_workers_whose_supervisor_is_killed_drain_and_end(
    app: Dtq, supervise: Supervise, ended: Ended, tmp_path: Path
) -> None:
    process = supervise()
    members = process.children
    handle = app.named("sleepy").submit(name="a", seconds=0.8)
    wait_until((tmp_path / "a").exists)
    process.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in members))
    task = ended(handle, 1)
    assert (task.status, task.lease_expiries) == (TaskStatus.SUCCEEDED, 0)
    assert app.store.workers.list() == []
    assert process.log.count("the supervisor is gone") == 2


@pytest.mark.parametrize(
    ("source", "changes", "sentence"),
    [
        ("raise RuntimeError('broken at import')", {}, "broken at import"),
        ("app = 7", {}, "is no Dtq app"),
        (JOBS, {"alive_file": "/nowhere/alive"}, "DTQ_ALIVE_FILE"),
        (JOBS, {"worker_id": "w" * 61}, "DTQ_WORKER_ID"),
    ],
)
def test_workers_that_cannot_be_set_up_say_so_once_and_are_not_started_again(
    spawn: Callable[..., WorkerProcess], source: str, changes: dict[str, Any], sentence: str
) -> None:
    process = spawn(source, ready=False, worker_processes=3, **changes)
    assert process.wait(30) == 2
    assert process.log.count(sentence) == 1
    assert "Traceback" not in process.log
    assert "another takes its place" not in process.log


def test_workers_that_die_as_they_start_are_started_again_less_and_less_often(
    spawn: Callable[..., WorkerProcess],
) -> None:
    process = spawn("os._exit(9)", ready=False, worker_processes=2)
    wait_until(lambda: "takes its place in 2 s" in process.log, 15)
    delays = re.findall(
        r"worker process (\d+) .* ended with exit code 9; another takes its place in (\S+) s", process.log
    )
    # The second one waits until the first has shown that a worker can start.
    assert delays == [("1", "0.5"), ("1", "1"), ("1", "2")]
    process.signal(signal.SIGTERM)
    assert process.wait(2) == 0


@pytest.fixture
def post(quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """A place under a supervisor, with a worker that is about to be ready."""
    (tmp_path / "jobs.py").write_text(HEADER + JOBS)
    monkeypatch.syspath_prepend(str(tmp_path))
    post = Post(1, replace(quick, tasks="jobs:app"))
    post.start()
    yield post
    if post.process is not None:
        post.process.kill()
        wait_until(post.process.ended)
        post.process.close()


def test_a_worker_that_was_well_for_a_while_is_replaced_as_soon_as_at_first(post: Post) -> None:
    wait_until(lambda: post.hear() and post.is_ready)
    assert post.process is not None
    post.process.kill()
    wait_until(post.process.ended)
    now = time.monotonic()
    assert [post.retry() for _ in range(3)] == [0.5, 1.0, 2.0]
    assert post.vacate(now + HEALTHY_S) == 0.5


def test_a_worker_counts_as_alive_from_when_it_is_ready_until_it_falls_silent(post: Post) -> None:
    assert not post.progresses(time.monotonic())
    wait_until(lambda: post.hear() and post.is_ready)
    assert post.progresses(time.monotonic())
    assert not post.progresses(time.monotonic() + SILENT_S)


def test_the_alive_file_is_touched_only_while_all_workers_are_there(supervise: Supervise, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    process = supervise(alive_file=str(alive))
    first = alive.stat().st_mtime_ns
    wait_until(lambda: alive.stat().st_mtime_ns > first)
    # The one that takes its place cannot start.
    (tmp_path / "jobs.py").write_text("import time; time.sleep(60)")
    killed = process.children[0]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(process.children) == 2 and killed not in process.children)
    last = alive.stat().st_mtime_ns
    time.sleep(1.3)
    assert alive.stat().st_mtime_ns == last
    process.signal(signal.SIGTERM)
    assert process.wait(2) == 0


@pytest.mark.drains
def test_the_command_line_starts_as_many_as_it_is_told_and_marks_json_lines(
    app: Dtq, quick: Settings, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(HEADER + JOBS)
    command = [sys.executable, "-m", "dtq_engine.cli", "worker", "--app", "jobs:app", "--processes", "2", "--json"]
    environ = environ_of(quick) | {"PYTHONPATH": str(ROOT), "DTQ_WORKER_QUEUES": "default"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=log, stderr=log)
    try:
        wait_until(lambda: (tmp_path / "log").read_text().count("is ready:") == 2, 20)
        assert app.named("pid").submit().result(timeout=5) in children_of(process.pid)
        process.terminate()
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line.get("process") for line in lines} == {None, "1", "2"}


CLOSED = "import os, sys; os.closerange(0, 3); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


@pytest.mark.drains
def test_without_standard_streams_workers_run_and_no_connection_takes_their_places(
    app: Dtq, quick: Settings, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(HEADER + JOBS)
    environ = environ_of(replace(quick, worker_processes=2)) | {"DTQ_TASKS": "jobs:app", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CLOSED, str(ROOT / "worker_main.py")]
    with subprocess.Popen(command, cwd=tmp_path, env=environ) as process:
        wait_until(lambda: len(app.store.workers.list()) == 2, 30)
        for pid in (process.pid, *children_of(process.pid)):
            assert {str(Path(f"/proc/{pid}/fd/{place}").readlink()) for place in (0, 1, 2)} == {"/dev/null"}
        assert app.named("pid").submit().result(timeout=5) in children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0


@pytest.mark.drains
def test_a_single_worker_has_no_supervisor(app: Dtq, spawn: Callable[..., WorkerProcess]) -> None:
    process = spawn(JOBS, worker_processes=1)
    assert app.named("pid").submit().result(timeout=5) == process.pid
    assert process.children == []

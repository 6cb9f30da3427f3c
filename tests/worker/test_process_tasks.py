"""`process=True`: handlers in processes of their own, which can be killed, and whose death costs nobody else."""

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import ConfigurationError, Dtq, Handle, InvalidHandler, Settings, Task, TaskStatus
from dtq_engine.worker import Worker, nursery, offspring
from tests.support.environ import environ_of
from tests.support.kin import Grips
from tests.support.waiting import wait_until
from tests.worker import isolated
from tests.worker.processes import ROOT, WorkerProcess, children_of, is_alive

Ended = Callable[..., Task]
Start = Callable[..., Worker]
Spawn = Callable[..., WorkerProcess]
Living = Callable[[], list[int]]

# Until a process is started, the app imported and the task done, on a busy machine.
COLD_S = 20


def blocked_by(handle: Handle[Any]) -> str | None:
    """Why a task is blocked, if it is."""
    return handle.info().reason


@pytest.fixture
def app(quick: Settings) -> Iterator[Dtq]:
    """The app with tasks that run in processes, on the test's server."""
    isolated.app.configure(quick)
    yield isolated.app
    isolated.app.close()


@pytest.fixture
def living(quick: Settings) -> Callable[[], list[int]]:
    """The ids of the processes that this test's workers have started and that live."""
    before = children_of(os.getpid())
    return lambda: [pid for pid in children_of(os.getpid()) if pid not in before]


@pytest.fixture
def run(start: Start, app: Dtq) -> Callable[..., Any]:
    """Run a task on a worker of two slots, and give its result."""
    started: list[Worker] = []

    def run(task: Any, *args: object, **kwargs: object) -> Any:
        if not started:
            started.append(start(worker_concurrency=2))
        return task.submit(*args, **kwargs).result(timeout=COLD_S)

    return run


def lines(path: Path) -> list[str]:
    """What a handler has left in a file."""
    return path.read_text().splitlines() if path.exists() else []


def first_line(path: Path) -> str:
    """The first line in a file, waited for."""
    return wait_until(lambda: lines(path), COLD_S)[0]


# What runs there is a task like any other.


@pytest.mark.drains
def test_handlers_run_one_after_the_other_in_a_process_that_is_kept_warm(run: Any) -> None:
    pids = {run(isolated.pid) for _ in range(3)}
    assert len(pids) == 1
    assert pids != {os.getpid()}
    assert run(isolated.pid_async) == [*pids, 1]


@pytest.mark.drains
def test_tasks_run_beside_each_other_in_as_many_processes_as_there_are_slots(
    app: Dtq, start: Start, tmp_path: Path, living: Living
) -> None:
    handles = [isolated.sleepy.submit(str(tmp_path / str(number)), 0.3) for number in range(6)]
    start(worker_concurrency=2)
    assert {handle.result(timeout=COLD_S) for handle in handles} == {"slept"}
    assert len({first_line(tmp_path / str(number)) for number in range(6)}) == 2
    assert len(living()) >= 2


@pytest.mark.drains
def test_a_handler_finds_in_its_context_what_it_would_find_in_a_thread(app: Dtq, start: Start) -> None:
    handle = isolated.context.options(headers={"trace": "t1"}, max_attempts=4, timeout=30, priority=7).submit("ä\n")
    worker = start()
    found = handle.result(timeout=COLD_S)
    task = app.store.inspect.get(handle.id)
    assert task.deadline_ms is not None
    # The record's counts from the claim, the handler's from its call.
    assert task.deadline_ms / 1000 < found.pop("deadline") < task.deadline_ms / 1000 + COLD_S
    assert found == {
        "task_id": handle.id,
        "queue": "default",
        "type": "context",
        "attempt": 1,
        "max_attempts": 4,
        "fence": task.fence,
        "headers": {"trace": "t1"},
        "worker_id": worker.id,
        "cancelled": False,
        "stopping": False,
        "text": "ä\n",
    }


@pytest.mark.drains
@pytest.mark.parametrize("name", ["fail", "fail.async"])
@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("value", "ValueError", "no such address"),
        ("permanent", "PermanentError", "never"),
        ("exit", "SystemExit", "3"),
        ("interrupt", "KeyboardInterrupt", ""),
        ("cancelled", "CancelledError", ""),
        ("json", "BadResult", "the result of the task"),
    ],
)
def test_an_error_comes_back_as_type_message_and_traceback_and_the_process_lives_on(
    app: Dtq, start: Start, ended: Ended, name: str, kind: str, error: str, message: str, living: Living
) -> None:
    handle = app.named(name).submit(kind=kind)
    start(worker_concurrency=1)
    task = ended(handle, COLD_S)
    (found,) = task.errors
    assert (task.status, found.type) == (TaskStatus.DEAD_LETTERED, error)
    assert found.message.startswith(message)
    assert "isolated.py" in found.traceback or kind == "json"
    assert found.started_ms <= found.ended_ms
    (child,) = living()
    assert isolated.pid.submit().result(timeout=5) == child


@pytest.mark.drains
def test_a_payload_that_does_not_fit_is_refused_as_anywhere(app: Dtq, start: Start, ended: Ended) -> None:
    task = Dtq(app.settings).named("big").prepare(size="many")
    handle = app.submit(task)
    start()
    assert (found := ended(handle, COLD_S)).reason == "permanent"
    assert found.errors[0].type == "BadPayload"


@pytest.mark.drains
def test_permanent_is_judged_where_the_exception_is_real_and_for_a_death_in_the_worker(
    app: Dtq, start: Start, ended: Ended
) -> None:
    handles = [isolated.listed.submit(how) for how in ("raise", "die")]
    start()
    tasks = [ended(handle, COLD_S) for handle in handles]
    assert [(task.reason, task.attempt) for task in tasks] == [("permanent", 1)] * 2
    assert [task.errors[0].type for task in tasks] == ["UnicodeError", "ProcessDied"]


@pytest.mark.drains
def test_a_retry_callback_gets_the_exception_itself_and_for_a_death_what_is_known_of_it(
    app: Dtq, start: Start, ended: Ended
) -> None:
    raising, dying = isolated.quota.submit("raise"), isolated.quota.submit("die")
    hanging = isolated.quota.options(timeout=1.0, max_attempts=3).submit("hang")
    start(worker_concurrency=1)
    assert raising.result(timeout=COLD_S) == 2
    assert ended(dying, COLD_S).reason == "permanent"
    task = ended(hanging, COLD_S)
    assert (task.reason, task.errors[0].type) == ("permanent", "TimedOut")


@pytest.mark.drains
@pytest.mark.parametrize(("how", "attempt"), [("retry", 2), ("snooze", 1)])
def test_a_handler_may_ask_for_another_time(run: Any, tmp_path: Path, how: str, attempt: int) -> None:
    assert run(isolated.again, how, str(tmp_path / "asked")) == attempt


@pytest.mark.drains
def test_results_of_megabytes_come_back_whole_if_they_may_be_kept(app: Dtq, quick: Settings, start: Start) -> None:
    size = 2 * 1_048_576 - 2
    app.configure(replace(quick, result_max_bytes=size + 2))
    handles = [isolated.big.submit(size) for _ in range(3)]
    start(result_max_bytes=size + 2)
    assert {len(handle.result(timeout=COLD_S)) for handle in handles} == {size}
    assert app.store.inspect.get(handles[0].id).result_truncated is False


@pytest.mark.drains
def test_of_larger_results_only_a_preview_leaves_the_process(app: Dtq, start: Start, ended: Ended) -> None:
    handle = isolated.big.submit(50_000_000)
    start()
    task = ended(handle, COLD_S)
    assert (task.result_truncated, task.result_size) == (True, 50_000_002)


@pytest.mark.drains
def test_a_handler_may_submit_tasks_where_its_worker_finds_them(app: Dtq, run: Any, living: Living) -> None:
    inner = run(isolated.parent)
    assert app.handle(inner).result(timeout=COLD_S) in living()


@pytest.mark.drains
def test_hooks_around_tasks_run_in_the_process(run: Any) -> None:
    assert run(isolated.wrapped) == run(isolated.pid)


@pytest.mark.drains
def test_what_a_handler_prints_and_logs_goes_where_its_worker_prints_and_logs(app: Dtq, spawn: Spawn) -> None:
    process = spawn("from tests.worker.isolated import app", log_json=True)
    isolated.talk.submit().result(timeout=COLD_S)
    wait_until(lambda: "said to the log" in process.log)
    assert "said to stdout\n" in process.log
    assert "said to stderr\n" in process.log
    (line,) = [json.loads(each) for each in process.log.splitlines() if "said to the log" in each]
    (child,) = process.children
    assert (line["level"], line["logger"], line["process"]) == ("WARNING", "shop", f"pid {child}")


@pytest.mark.drains
@pytest.mark.parametrize("task", [isolated.remember, isolated.remember_async])
def test_no_task_sees_the_context_variables_of_the_one_before_it(run: Any, task: Any) -> None:
    assert [run(task, value) for value in (1, 2)] == [0, 0]


# Dying.


@pytest.mark.drains
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("SIGKILL", "was killed by SIGKILL before the handler was done"),
        ("SIGSEGV", "was killed by SIGSEGV before the handler was done"),
        ("exit", "ended with exit code 7 before the handler was done"),
        ("fork", "ended with exit code 7 before the handler was done"),
    ],
)
def test_a_process_that_dies_is_reported_with_how_and_the_task_is_tried_again(
    app: Dtq, start: Start, ended: Ended, how: str, said: str
) -> None:
    handle = isolated.die.submit(how)
    start()
    assert handle.result(timeout=COLD_S) == 2
    (error,) = ended(handle).errors
    assert error.type == "ProcessDied"
    assert said in error.message
    assert " MiB" in error.message


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A group of processes that gets 64 MiB of memory; needs root, and a kernel that lets it."""
    roots = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]
    group = next((root / f"dtq-{os.getpid()}" for root in roots if (root / "cgroup.procs").exists()), None)
    if group is None:
        pytest.skip("no memory cgroup is mounted")
    try:
        group.mkdir()
        limit = next(group / name for name in ("memory.limit_in_bytes", "memory.max") if (group / name).exists())
        limit.write_text(str(64 * 1_048_576))
    except (OSError, StopIteration) as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"memory cgroups cannot be made here: {error}")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


@pytest.mark.drains
def test_a_process_that_the_kernel_kills_for_its_memory_is_reported_as_that_with_its_peak(
    app: Dtq, start: Start, ended: Ended, cgroup: Path
) -> None:
    handle = isolated.hungry.submit(str(cgroup), 400)
    start()
    (error,) = ended(handle, COLD_S).errors
    assert error.type == "ProcessDied"
    assert "was killed by SIGKILL" in error.message
    assert "because memory ran out" in error.message
    assert " MiB" in error.message


@pytest.mark.drains
def test_a_process_that_dies_while_it_is_idle_costs_no_attempt(app: Dtq, start: Start, ended: Ended) -> None:
    start(worker_concurrency=1)
    first = isolated.pid.submit().result(timeout=COLD_S)
    os.kill(first, signal.SIGKILL)
    handle = isolated.pid_async.submit()
    second, attempt = handle.result(timeout=COLD_S)
    assert (second != first, attempt, ended(handle).errors) == (True, 1, ())


# Starting: an attempt begins when the handler is called.


WORKING = "from tests.worker.isolated import app"
SLOW = f"import time; time.sleep(3.5)\n{WORKING}"


@pytest.mark.drains
def test_the_time_that_a_process_takes_to_start_is_not_the_handlers(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path
) -> None:
    spawn(WORKING)
    # Longer than timeout and lease together: what started late keeps its lease all the same.
    (tmp_path / "jobs.py").write_text(SLOW)
    handle = isolated.when_due.options(timeout=0.5, max_attempts=1).submit()
    assert 0 < handle.result(timeout=COLD_S) <= 0.5
    task = ended(handle)
    assert (task.attempt, task.lease_expiries, task.errors) == (1, 0, ())


@pytest.mark.alone
@pytest.mark.drains
def test_a_handler_that_began_late_has_its_whole_time_and_no_more(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path
) -> None:
    process = spawn(WORKING)
    (tmp_path / "jobs.py").write_text(SLOW)
    handle = isolated.sleepy.options(timeout=3, max_attempts=1).submit(str(tmp_path / "notes"), 60)
    first_line(tmp_path / "notes")
    began = time.monotonic()
    task = ended(handle, COLD_S)
    assert 2.5 < time.monotonic() - began < 3 + offspring.GRACE_S + 0.5
    assert (task.status, task.lease_expiries, task.errors[0].type) == (TaskStatus.DEAD_LETTERED, 0, "TimedOut")
    assert lines(tmp_path / "notes")[1:] == ["cleaned"]
    assert "lost its lease" not in process.log


@pytest.mark.drains
@pytest.mark.parametrize(
    ("source", "kind", "sentence"),
    [
        ("raise RuntimeError('broken since')", "ConfigurationError", "broken since"),
        ("import os; os._exit(9)", "ProcessDied", "ended with exit code 9 before it came to the handler"),
        ("import time; time.sleep(60)", "TimeoutError", "importing jobs:app had not ended after 6 s"),
        ("from dtq_engine import Dtq; app = Dtq()", "ConfigurationError", "importing jobs:app registers no task pid"),
    ],
)
def test_a_task_whose_process_cannot_be_started_is_blocked_until_it_can_and_loses_no_attempt(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path, source: str, kind: str, sentence: str
) -> None:
    process = spawn(WORKING, process_start_timeout_s=6)
    (tmp_path / "jobs.py").write_text(source)
    handle = isolated.pid.options(max_attempts=1).submit()
    wait_until(lambda: handle.info().reason == f"process_not_started:{kind}", COLD_S)
    assert "no process could be started for tasks that need one, which are blocked; another is tried in" in process.log
    assert sentence in process.log
    (tmp_path / "jobs.py").write_text(WORKING)
    assert handle.result(timeout=COLD_S) in process.children
    assert (ended(handle).attempt, ended(handle).errors) == (1, ())


@pytest.mark.drains
@pytest.mark.timeout(180)
def test_while_no_process_can_be_started_it_is_tried_and_said_seldom_however_many_tasks_wait(
    app: Dtq, spawn: Spawn, tmp_path: Path
) -> None:
    process = spawn(WORKING, worker_concurrency=4)
    (tmp_path / "jobs.py").write_text("open('tried', 'a').write('x'); raise RuntimeError('broken since')")
    handles = [isolated.pid.submit() for _ in range(12)]
    for handle in handles:
        wait_until(partial(blocked_by, handle), COLD_S)
    tried, said = len((tmp_path / "tried").read_text()), process.log.count("broken since")
    # At first as many as there are slots at the same time; that is said once.
    assert 1 <= said <= 6
    assert tried <= 4 * said
    # What does not need a new process goes on.
    assert isolated.thread.submit().result(timeout=5) is True
    (tmp_path / "jobs.py").write_text(WORKING)
    assert {handle.result(timeout=COLD_S) for handle in handles} <= set(process.children)


@pytest.mark.drains
def test_an_import_that_hangs_shows_where(app: Dtq, spawn: Spawn, tmp_path: Path) -> None:
    process = spawn(WORKING, process_start_timeout_s=6)
    (tmp_path / "jobs.py").write_text("import time\n\ntime.sleep(60)")
    handle = isolated.pid.submit()
    wait_until(lambda: handle.info().reason, COLD_S)
    handle.cancel()
    assert f'File "{tmp_path}/jobs.py", line 3 in <module>' in process.log


@pytest.mark.drains
def test_a_task_that_waits_for_its_process_as_the_worker_leaves_is_given_back_though_it_has_one_attempt(
    app: Dtq, spawn: Spawn, tmp_path: Path
) -> None:
    process = spawn(WORKING, drain_timeout_s=0.5)
    (tmp_path / "jobs.py").write_text(f"open('importing', 'w').close(); {SLOW}")
    handle = isolated.pid.options(max_attempts=1).submit()
    wait_until((tmp_path / "importing").exists, COLD_S)
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    task = app.store.inspect.get(handle.id)
    assert (task.status, task.attempt, task.errors) == (TaskStatus.QUEUED, 0, ())
    handle.cancel()


@pytest.mark.drains
def test_a_cancel_while_the_process_starts_ends_the_task_at_once(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path
) -> None:
    process = spawn(WORKING)
    (tmp_path / "jobs.py").write_text(f"open('importing', 'w').close(); {SLOW}")
    handle = isolated.pid.submit()
    wait_until((tmp_path / "importing").exists, COLD_S)
    (child,) = process.children
    handle.cancel()
    assert ended(handle, 1).status is TaskStatus.CANCELLED
    # What was started for it is there for others.
    assert isolated.pid.submit().result(timeout=COLD_S) == child


@pytest.mark.drains
def test_a_process_that_dies_before_it_calls_the_handler_costs_no_attempt_not_even_the_only_one(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offspring, "TAKE_S", 0.5)
    start(worker_concurrency=1)
    first = isolated.pid.submit().result(timeout=COLD_S)
    os.kill(first, signal.SIGSTOP)
    handle = isolated.pid.options(max_attempts=1, timeout=60).submit()
    second = handle.result(timeout=COLD_S)
    assert (second != first, ended(handle).attempt, is_alive(first)) == (True, 1, False)


# Being ended.


@pytest.mark.alone
@pytest.mark.drains
def test_a_handler_that_ignores_everything_is_killed_at_its_timeout(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path
) -> None:
    start(worker_concurrency=1)
    isolated.pid.submit().result(timeout=COLD_S)
    before = time.monotonic()
    task = ended(isolated.stubborn.options(timeout=0.5).submit(str(tmp_path / "pid")))
    assert time.monotonic() - before < 0.5 + offspring.GRACE_S + 1
    assert (task.status, task.errors[0].type) == (TaskStatus.DEAD_LETTERED, "TimedOut")
    assert not is_alive(int(first_line(tmp_path / "pid")))
    assert isolated.pid.submit().result(timeout=COLD_S)


@pytest.mark.drains
def test_native_code_that_holds_the_lock_is_killed_at_its_timeout_with_what_it_started(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path
) -> None:
    start(worker_concurrency=1)
    isolated.pid.submit().result(timeout=COLD_S)
    task = ended(isolated.native.options(timeout=0.5).submit(str(tmp_path / "pids")))
    assert task.errors[0].type == "TimedOut"
    pids = [int(each) for each in first_line(tmp_path / "pids").split()]
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


@pytest.fixture
def scattered(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """The ids of a process, and of the programs in sessions of their own that its handler started."""

    seen = Grips()

    def pids() -> list[int]:
        found = [int(each) for each in first_line(tmp_path / "pids").split()]
        for pid in found:
            seen.take(pid)
        return found

    yield pids
    seen.kill()


@pytest.mark.drains
@pytest.mark.parametrize("how", ["ignore", "wait"])
@pytest.mark.parametrize("cause", ["timeout", "cancel"])
def test_programs_in_sessions_of_their_own_end_with_the_handler_that_started_them(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path, scattered: Callable[[], list[int]], how: str, cause: str
) -> None:
    start(worker_concurrency=1)
    handle = isolated.scattering.options(timeout=1.5 if cause == "timeout" else 60).submit(str(tmp_path / "pids"), how)
    pids = scattered()
    assert len([pid for pid in pids if is_alive(pid)]) == 4
    if cause == "cancel":
        handle.cancel()
    assert ended(handle).status is (TaskStatus.CANCELLED if cause == "cancel" else TaskStatus.DEAD_LETTERED)
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


@pytest.mark.drains
def test_of_a_process_that_dies_by_itself_they_end_if_they_kept_its_environment(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path, scattered: Callable[[], list[int]]
) -> None:
    start(worker_concurrency=1)
    handle = isolated.scattering.submit(str(tmp_path / "pids"), "die")
    assert ended(handle, COLD_S).errors[0].type == "ProcessDied"
    child, own, _bare, orphan = scattered()
    wait_until(lambda: not any(is_alive(pid) for pid in (child, own, orphan)))


@pytest.mark.drains
def test_what_a_handler_leaves_running_on_purpose_outlives_it_and_its_process(
    app: Dtq, spawn: Spawn, tmp_path: Path, scattered: Callable[[], list[int]]
) -> None:
    process = spawn("from tests.worker.isolated import app")
    isolated.scattering.submit(str(tmp_path / "pids"), "return").result(timeout=COLD_S)
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    child, *programs = scattered()
    wait_until(lambda: not is_alive(child))
    assert all(is_alive(pid) for pid in programs)


def test_programs_of_a_worker_that_is_killed_are_ended_by_its_supervisor(
    app: Dtq, spawn: Spawn, tmp_path: Path, scattered: Callable[[], list[int]]
) -> None:
    process = spawn("from tests.worker.isolated import app", worker_processes=2)
    handle = isolated.scattering.submit(str(tmp_path / "pids"), "wait")
    child, own, _bare, orphan = scattered()
    holder = next(pid for pid in process.children if child in children_of(pid))
    os.kill(holder, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in (child, own, orphan)))
    handle.cancel()
    process.signal(signal.SIGTERM)
    process.wait(5)


@pytest.mark.alone
@pytest.mark.drains
@pytest.mark.parametrize("name", ["sleepy", "sleepy.async"])
def test_a_handler_cleans_up_at_its_timeout(app: Dtq, start: Start, ended: Ended, tmp_path: Path, name: str) -> None:
    start(worker_concurrency=1)
    isolated.pid.submit().result(timeout=COLD_S)
    before = time.monotonic()
    handle = app.named(name).options(timeout=0.3, max_attempts=1).submit(path=str(tmp_path / "notes"), seconds=60)
    assert ended(handle).errors[0].type == "TimedOut"
    assert time.monotonic() - before < 0.3 + offspring.GRACE_S
    assert lines(tmp_path / "notes")[1:] == ["cleaned"]


@pytest.mark.drains
@pytest.mark.parametrize("name", ["sleepy", "sleepy.async"])
def test_a_cancel_ends_the_handler(app: Dtq, start: Start, ended: Ended, tmp_path: Path, name: str) -> None:
    handle = app.named(name).submit(path=str(tmp_path / "notes"), seconds=60)
    start(worker_concurrency=1)
    child = int(first_line(tmp_path / "notes"))
    handle.cancel()
    assert ended(handle).status is TaskStatus.CANCELLED
    assert lines(tmp_path / "notes")[1:] == ["cleaned"]
    # An interrupt may have left anything half done in it.
    wait_until(lambda: not is_alive(child))


@pytest.mark.drains
def test_what_a_handler_made_of_the_signals_does_not_last(run: Any, ended: Ended, tmp_path: Path) -> None:
    child = run(isolated.deafen)
    handle = isolated.sleepy.submit(str(tmp_path / "notes"), 60)
    assert first_line(tmp_path / "notes") == str(child)
    handle.cancel()
    assert ended(handle).status is TaskStatus.CANCELLED
    assert lines(tmp_path / "notes")[1:] == ["cleaned"]


@pytest.mark.drains
def test_a_cancel_ends_what_ignores_it(app: Dtq, start: Start, ended: Ended, tmp_path: Path) -> None:
    handle = isolated.stubborn.submit(str(tmp_path / "pid"))
    start(worker_concurrency=1)
    child = int(first_line(tmp_path / "pid"))
    handle.cancel()
    assert ended(handle).status is TaskStatus.CANCELLED
    assert not is_alive(child)


@pytest.mark.drains
def test_a_handler_that_looks_is_told_of_its_cancel_and_may_still_return(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path
) -> None:
    handle = isolated.patient.submit(str(tmp_path / "pid"))
    start(worker_concurrency=1)
    first_line(tmp_path / "pid")
    handle.cancel()
    task = ended(handle)
    assert (task.status, handle.result(timeout=1)) == (TaskStatus.SUCCEEDED, "cancelled")


def test_a_stranger_that_signals_every_process_does_not_stop_a_handler(app: Dtq, start: Start, tmp_path: Path) -> None:
    handle = isolated.sleepy.submit(str(tmp_path / "notes"), 0.5)
    start(worker_concurrency=1)
    child = int(first_line(tmp_path / "notes"))
    os.kill(child, signal.SIGTERM)
    os.kill(child, signal.SIGINT)
    assert handle.result(timeout=5) == "slept"


# The end of the worker.


@pytest.mark.alone
@pytest.mark.drains
def test_a_worker_that_stops_lets_handlers_finish_and_tells_those_that_look(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path
) -> None:
    process = spawn("from tests.worker.isolated import app", drain_timeout_s=5)
    slow = isolated.sleepy.submit(str(tmp_path / "a"), 1.0)
    looking = isolated.patient.submit(str(tmp_path / "b"))
    first_line(tmp_path / "a"), first_line(tmp_path / "b")
    members = process.children
    before = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert time.monotonic() - before < 2
    assert ended(slow).status is TaskStatus.SUCCEEDED
    assert looking.result(timeout=1) == "stopping"
    wait_until(lambda: not any(is_alive(pid) for pid in members), 1)


@pytest.mark.parametrize("to_all", [False, True])
@pytest.mark.parametrize("name", ["sleepy", "sleepy.async", "stubborn"])
def test_what_outlasts_the_drain_is_killed_and_given_back_with_its_attempt(
    app: Dtq, spawn: Spawn, tmp_path: Path, name: str, to_all: bool
) -> None:
    process = spawn("from tests.worker.isolated import app", drain_timeout_s=0.5)
    arguments: dict[str, Any] = {"path": str(tmp_path / "notes")} | ({} if name == "stubborn" else {"seconds": 60})
    handle = app.named(name).options(max_attempts=2).submit(**arguments)
    child = int(first_line(tmp_path / "notes"))
    process.signal(signal.SIGTERM)
    if to_all:
        os.kill(child, signal.SIGTERM)
    assert process.wait(5) == 0
    task = app.store.inspect.get(handle.id)
    assert (task.status, task.attempt, task.errors) == (TaskStatus.QUEUED, 0, ())
    wait_until(lambda: not is_alive(child), 1)
    handle.cancel()


@pytest.mark.parametrize("name", ["sleepy", "stubborn", "native"])
def test_a_worker_that_is_killed_leaves_no_handler_running(app: Dtq, spawn: Spawn, tmp_path: Path, name: str) -> None:
    process = spawn("from tests.worker.isolated import app")
    arguments: dict[str, Any] = {"path": str(tmp_path / "pids")} | ({"seconds": 60} if name == "sleepy" else {})
    handle = app.named(name).submit(**arguments)
    pids = [int(each) for each in first_line(tmp_path / "pids").split()]
    process.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 1)
    handle.cancel()


FORKING = """
from tests.worker.isolated import app

@app.task("forking")
def forking() -> int:
    if (copy := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    return copy
"""


def test_a_copy_of_a_worker_that_is_killed_does_not_keep_its_handlers_running(
    app: Dtq, spawn: Spawn, tmp_path: Path
) -> None:
    process = spawn(FORKING)
    handle = isolated.native.submit(str(tmp_path / "pids"))
    pids = [int(each) for each in first_line(tmp_path / "pids").split()]
    copy = app.named("forking").submit().result(timeout=COLD_S)
    process.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 1)
    assert is_alive(copy)
    os.kill(copy, signal.SIGTERM)
    wait_until(lambda: not is_alive(copy))
    handle.cancel()


# Handlers without manners.


@pytest.mark.drains
@pytest.mark.parametrize("how", ["fork", "chdir", "mask", "no stdout", "closed", "print", "alarm", "thread", "exits"])
def test_what_a_handler_does_to_its_process_costs_no_other_task(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Path, how: str
) -> None:
    process = spawn(WORKING, worker_concurrency=1, drain_timeout_s=1)
    handle, others = isolated.rude.submit(how), [isolated.cwd.submit() for _ in range(5)]
    assert handle.result(timeout=COLD_S) == how
    for other in others:
        _pid, folder = other.result(timeout=COLD_S)
        assert folder == str(tmp_path)
        assert (ended(other).attempt, ended(other).errors) == (1, ())
    # And it can be interrupted as any other.
    late = isolated.sleepy.options(timeout=0.5, max_attempts=1).submit(str(tmp_path / "notes"), 60)
    assert ended(late, COLD_S).errors[0].type == "TimedOut"
    assert lines(tmp_path / "notes")[1:] == ["cleaned"]
    members = process.children
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    wait_until(lambda: not any(is_alive(pid) for pid in members), 1)


@pytest.mark.drains
@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("closes all", "ProcessDied", "before the handler was done"),
        ("closes all and leaves a thread", "ProcessDied", "before the handler was done"),
        ("closes all and goes on", "ProcessDied", "it has closed its connection to the worker"),
        ("becomes another program", "ProcessDied", "it has closed its connection to the worker"),
        ("exits with 0", "ProcessDied", "ended with exit code 0 before the handler was done"),
        ("kills its group", "ProcessDied", "was killed by SIGKILL before the handler was done"),
        ("stops", "TimedOut", "ran longer than its timeout of 2 s"),
        ("unspeakable", "Unspeakable", ""),
        ("wordy", "ValueError", "xxx"),
        ("deep", "RecursionError", "maximum recursion depth exceeded"),
    ],
)
def test_however_a_handler_ends_that_is_the_end_of_its_attempt_only(
    app: Dtq, start: Start, ended: Ended, how: str, kind: str, said: str
) -> None:
    start(worker_concurrency=1)
    task = ended(isolated.rude_end.options(timeout=2 if how == "stops" else 60).submit(how), COLD_S)
    (error,) = task.errors
    assert (task.status, error.type) == (TaskStatus.DEAD_LETTERED, kind)
    assert said in error.message
    assert isolated.pid.submit().result(timeout=COLD_S)


@pytest.mark.drains
def test_a_process_whose_handler_let_go_of_the_leash_runs_no_other_task(app: Dtq, run: Any) -> None:
    first = run(isolated.unleash)
    assert run(isolated.pid) != first


@pytest.mark.drains
def test_what_a_handler_forks_can_be_terminated(run: Any) -> None:
    assert run(isolated.terminating) == -signal.SIGTERM


@pytest.mark.drains
def test_what_a_handler_forks_cannot_save_steps_and_is_told_so(run: Any, tmp_path: Path) -> None:
    assert run(isolated.saving_copy, str(tmp_path / "told")) == 0
    (told,) = lines(tmp_path / "told")
    assert told.startswith("InvalidStep: Steps, marks and cursors are saved by the process that runs the handler")


@pytest.mark.drains
@pytest.mark.timeout(180)
def test_two_hundred_tasks_survive_that_their_processes_are_killed_at_any_moment(
    app: Dtq, start: Start, ended: Ended, living: Living
) -> None:
    handles = [isolated.pid.submit() for _ in range(200)]
    worker = start(worker_concurrency=4)
    for done in range(10, 110, 10):
        wait_until(lambda: worker.parts.inflight.finished >= done, COLD_S)  # noqa: B023 - called at once
        for pid in living():
            os.kill(pid, signal.SIGKILL)
    tasks = [ended(handle, 2 * COLD_S) for handle in handles]
    assert {task.status for task in tasks} == {TaskStatus.SUCCEEDED}
    assert {error.type for task in tasks for error in task.errors} <= {"ProcessDied"}


# The end of a process in good order.

FLUSHED = {"buffered", "atexit "}


@pytest.mark.drains
@pytest.mark.parametrize("name", ["unflushed.once", "unflushed.large"])
def test_a_process_that_is_worn_out_puts_away_what_it_holds(run: Any, app: Dtq, tmp_path: Path, name: str) -> None:
    child = run(app.named(name), path=str(tmp_path / "notes"))
    wait_until(lambda: not is_alive(child))
    assert set(lines(tmp_path / "notes")) == FLUSHED


@pytest.mark.drains
def test_a_process_that_was_idle_for_long_puts_away_what_it_holds(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "IDLE_S", 0.5)
    child = run(isolated.unflushed, str(tmp_path / "notes"))
    wait_until(lambda: not is_alive(child))
    assert set(lines(tmp_path / "notes")) == FLUSHED


@pytest.mark.alone
@pytest.mark.drains
@pytest.mark.parametrize("processes", [1, 2])
def test_processes_put_away_what_they_hold_when_their_worker_leaves(
    app: Dtq, spawn: Spawn, tmp_path: Path, processes: int
) -> None:
    process = spawn(WORKING, drain_timeout_s=5, worker_processes=processes)
    child = isolated.unflushed.submit(str(tmp_path / "notes")).result(timeout=COLD_S)
    before = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert time.monotonic() - before < 3
    assert not is_alive(child)
    assert set(lines(tmp_path / "notes")) == FLUSHED


@pytest.mark.drains
def test_a_process_that_is_busy_as_its_worker_leaves_puts_away_what_it_holds_after_its_task(
    app: Dtq, spawn: Spawn, tmp_path: Path
) -> None:
    process = spawn(WORKING, drain_timeout_s=5, worker_concurrency=1)
    isolated.unflushed.submit(str(tmp_path / "notes")).result(timeout=COLD_S)
    handle = isolated.sleepy.submit(str(tmp_path / "busy"), 1.0)
    first_line(tmp_path / "busy")
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert handle.result(timeout=1) == "slept"
    assert set(lines(tmp_path / "notes")) == FLUSHED


@pytest.mark.drains
def test_a_process_whose_task_timed_out_puts_away_what_it_holds_if_the_handler_gave_way(
    app: Dtq, start: Start, ended: Ended, tmp_path: Path
) -> None:
    start(worker_concurrency=1)
    handle = isolated.unflushed.options(timeout=0.5, max_attempts=1).submit(str(tmp_path / "notes"), "wait")
    assert ended(handle, COLD_S).errors[0].type == "TimedOut"
    wait_until(lambda: set(lines(tmp_path / "notes")) == {"buffered", "atexit wait"})


@pytest.mark.alone
@pytest.mark.drains
@pytest.mark.parametrize("hurried", [False, True])
def test_a_process_that_does_not_come_to_its_end_is_killed_by_the_end_of_the_drain(
    app: Dtq, spawn: Spawn, tmp_path: Path, hurried: bool
) -> None:
    process = spawn(WORKING, drain_timeout_s=60 if hurried else 1.5)
    child = isolated.unflushed.submit(str(tmp_path / "notes"), "hangs").result(timeout=COLD_S)
    before = time.monotonic()
    process.signal(signal.SIGTERM)
    if hurried:
        time.sleep(2.1)
        process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert 1.4 < time.monotonic() - before < 3.1
    wait_until(lambda: not is_alive(child), 1)


@pytest.mark.drains
def test_a_process_that_does_not_come_to_its_end_is_killed_after_a_while(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "IDLE_S", 0.2)
    monkeypatch.setattr(offspring, "LEAVE_S", 0.5)
    child = run(isolated.unflushed, str(tmp_path / "notes"), "hangs")
    wait_until(lambda: not is_alive(child))


# Wear and tear.


@pytest.mark.drains
def test_a_process_is_replaced_after_max_tasks(run: Any) -> None:
    pids = [run(isolated.twice) for _ in range(5)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 1]


@pytest.mark.drains
def test_a_process_that_has_run_enough_for_one_type_still_serves_another(run: Any) -> None:
    pids = [run(isolated.pid) for _ in range(3)]
    assert run(isolated.twice) not in pids


@pytest.mark.drains
def test_a_process_is_replaced_when_it_holds_more_than_max_memory(run: Any) -> None:
    small, large, after = run(isolated.leak, 1), run(isolated.leak, 120), run(isolated.leak, 1)
    assert small == large != after


@pytest.mark.drains
def test_a_process_that_is_born_too_large_runs_one_task(run: Any) -> None:
    assert len({run(isolated.tiny) for _ in range(2)}) == 2


@pytest.mark.drains
def test_idle_processes_go_after_a_while(app: Dtq, run: Any, monkeypatch: pytest.MonkeyPatch, living: Living) -> None:
    monkeypatch.setattr(nursery, "IDLE_S", 0.5)
    child = run(isolated.pid)
    wait_until(lambda: not is_alive(child))
    wait_until(lambda: living() == [])
    assert run(isolated.pid) != child


@pytest.mark.alone
@pytest.mark.drains
@pytest.mark.timeout(360)
def test_a_thousand_tasks_leak_no_memory_no_files_and_no_processes(app: Dtq, start: Start, living: Living) -> None:
    worker = start(worker_concurrency=4)

    def do(count: int) -> tuple[int, int]:
        """Run so many, some of which wear their process out; the open files and the memory after it."""
        tasks = [(isolated.pid if each % 100 else isolated.twice).prepare() for each in range(count)]
        for handle in app.submit_many(tasks):
            handle.result(timeout=300)
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return len(list(Path("/proc/self/fd").iterdir())), pages * resource.getpagesize()

    files_before, memory_before = do(100)
    files, memory = do(1000)
    assert files <= files_before + 4 * 2  # two for each process, of which there may be more at this moment
    assert memory < memory_before + 16 * 1_048_576
    assert len(living()) <= 4 + 1
    worker.stop()
    assert worker.join(10) == 0
    assert living() == []


@pytest.mark.drains
def test_tasks_that_need_no_process_pay_for_none(app: Dtq, spawn: Spawn) -> None:
    process = spawn("from tests.worker.isolated import app")
    assert isolated.thread.submit().result(timeout=COLD_S) is False
    assert process.children == []


# Registering.


def at_the_top() -> None: ...


def test_a_function_that_another_process_could_not_import_is_refused_with_what_to_do(app: Dtq) -> None:
    app = Dtq()

    def within() -> None: ...

    for fn in (within, lambda: None):
        with pytest.raises(InvalidHandler, match="define it at the top of a module"):
            app.task("within", process=True)(fn)
    app.task("within", process=True)(at_the_top)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"process": 1}, "process must be True or False"),
        ({"max_tasks": 3}, "give process=True as well"),
        ({"max_memory_mb": 3}, "give process=True as well"),
        ({"process": True, "max_tasks": 0}, "max_tasks must be a whole number from 1"),
        ({"process": True, "max_tasks": True}, "max_tasks must be a whole number from 1"),
        ({"process": True, "max_memory_mb": 0.5}, "max_memory_mb must be a whole number from 1"),
    ],
)
def test_wrong_options_are_refused_with_what_is_right(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidHandler, match=sentence):
        Dtq().task("work", **options)


def test_one_function_cannot_be_registered_with_and_without_a_process() -> None:
    app = Dtq()
    app.task("work")(at_the_top)
    with pytest.raises(InvalidHandler, match="is taken"):
        app.task("work", process=True)(at_the_top)


def test_a_worker_whose_app_no_process_could_find_does_not_start(quick: Settings) -> None:
    hidden = Dtq(quick)
    hidden.task("work", process=True)(at_the_top)
    with pytest.raises(ConfigurationError, match="set tasks"):
        Worker(hidden, quick).start()


SCRIPT = """
from dtq_engine import Dtq
from dtq_engine.worker import serve

app = Dtq()

@app.task("work", process=True)
def work() -> int:
    return 1

if __name__ == "__main__":
    print("submitted", work.submit().id)
    serve(app, app.settings)
"""


def test_a_script_may_submit_its_own_tasks_but_not_run_them_in_processes(
    app: Dtq, quick: Settings, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environ = environ_of(quick) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert "submitted" in done.stdout
    assert done.returncode == 2
    assert "move them into a module" in done.stderr
    assert "Traceback" not in done.stderr
    app.handle(done.stdout.split()[1]).cancel()

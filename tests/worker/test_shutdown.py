"""How a worker leaves: SIGTERM drains, then releases; nothing is lost, and no attempt is burnt."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until
from tests.worker.processes import WorkerProcess, is_alive

Start = Callable[..., Worker]
Spawn = Callable[..., WorkerProcess]
Ended = Callable[..., Task]

JOBS = """
@app.task("sleepy")
def sleepy(seconds: float) -> str:
    Path("started").touch()
    time.sleep(seconds)
    return "slept"

@app.task("sleepy_async")
async def sleepy_async(seconds: float) -> str:
    Path("started").touch()
    try:
        await asyncio.sleep(seconds)
    finally:
        Path("cleaned").touch()
    return "slept"
"""


def wait_for_start(directory: Any) -> None:
    wait_until((directory / "started").exists)


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sleepy", "sleepy_async"])
def test_sigterm_lets_running_tasks_finish_and_takes_no_new_ones(
    app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Any, kind: str
) -> None:
    process = spawn(JOBS)
    handle = app.named(kind).submit(seconds=0.7)
    wait_for_start(tmp_path)
    process.signal(signal.SIGTERM)
    time.sleep(0.1)
    late = app.named(kind).submit(seconds=0)
    assert process.wait(3) == 0
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert late.status() is TaskStatus.QUEUED
    assert app.store.workers.list() == []
    assert not app.connection.client.exists(app.store.keys.leader())
    late.cancel()


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["sleepy", "sleepy_async"])
def test_what_outlasts_the_drain_is_given_back_with_its_attempt_and_the_process_ends_in_time(
    app: Dtq, start: Start, spawn: Spawn, tmp_path: Any, kind: str
) -> None:
    process = spawn(JOBS, drain_timeout_s=0.5)
    handle = app.named(kind).submit(seconds=60)
    wait_for_start(tmp_path)
    before = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert time.monotonic() - before < 1.5
    task = app.store.inspect.get(handle.id)
    assert (task.status, task.attempt, task.restarts, task.errors) == (TaskStatus.QUEUED, 0, 1, ())
    assert (tmp_path / "cleaned").exists() is (kind == "sleepy_async")
    handle.cancel()


@pytest.mark.drains
def test_ten_restarts_lose_nothing_and_burn_nothing(app: Dtq, start: Start, ended: Ended) -> None:
    runs: list[int] = []

    @app.task("work", max_attempts=2)
    def work(ctx: TaskContext) -> int:
        runs.append(1)
        time.sleep(0.02)
        return ctx.attempt

    handles = [work.submit() for _ in range(200)]
    for _ in range(10):
        worker = start(drain_timeout_s=0)
        time.sleep(0.1)
        worker.stop()
        worker.join(5)
    start()
    assert {ended(handle).status for handle in handles} == {TaskStatus.SUCCEEDED}
    assert {handle.result(timeout=1) for handle in handles} == {1}


@pytest.mark.drains
@pytest.mark.parametrize("restartable", [False, True])
def test_a_task_with_a_single_attempt_is_given_back_only_if_it_is_restartable(
    app: Dtq, start: Start, ended: Ended, gate: threading.Event, restartable: bool
) -> None:
    started = threading.Event()

    @app.task("once", max_attempts=1, restartable=restartable)
    def once() -> None:
        started.set()
        gate.wait(10)

    handle = once.submit()
    worker = start(drain_timeout_s=0.1)
    assert started.wait(5)
    worker.stop()
    worker.join(5)
    if restartable:
        assert handle.status() is TaskStatus.QUEUED
        handle.cancel()
    else:
        task = ended(handle)
        assert (task.status, task.errors[0].type) == (TaskStatus.DEAD_LETTERED, "ShutDown")


@pytest.mark.drains
def test_handlers_are_told_that_the_worker_stops(app: Dtq, start: Start, ended: Ended) -> None:
    started = threading.Event()

    @app.task("until.stopped")
    def until_stopped(ctx: TaskContext) -> str:
        started.set()
        while not ctx.stopping:
            time.sleep(0.01)
        return "saved"

    handle = until_stopped.submit()
    worker = start()
    assert started.wait(5)
    worker.stop()
    assert worker.join(5) == 0
    assert ended(handle).status is TaskStatus.SUCCEEDED


@pytest.mark.drains
def test_an_async_handler_that_fails_while_it_is_stopped_burns_no_attempt(app: Dtq, start: Start) -> None:
    started = threading.Event()

    @app.task("fail")
    async def fail() -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            raise RuntimeError("clean-up failed")

    handle = fail.submit()
    worker = start(drain_timeout_s=0)
    assert started.wait(5)
    worker.stop()
    worker.join(5)
    task = app.store.inspect.get(handle.id)
    assert (task.status, task.attempt) == (TaskStatus.QUEUED, 0)
    handle.cancel()


def test_sigterm_sent_twice_at_once_is_one(app: Dtq, spawn: Spawn, ended: Ended, tmp_path: Any) -> None:
    process = spawn(JOBS)
    handle = app.named("sleepy").submit(seconds=0.8)
    wait_for_start(tmp_path)
    process.signal(signal.SIGTERM)
    time.sleep(0.2)
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert ended(handle).status is TaskStatus.SUCCEEDED


def test_a_later_sigterm_cuts_the_drain_short_and_still_gives_tasks_back(app: Dtq, spawn: Spawn, tmp_path: Any) -> None:
    process = spawn(JOBS, drain_timeout_s=30)
    handle = app.named("sleepy").submit(seconds=60)
    wait_for_start(tmp_path)
    process.signal(signal.SIGTERM)
    time.sleep(2.1)
    process.signal(signal.SIGTERM)
    assert process.wait(2) == 0
    assert app.store.inspect.get(handle.id).status is TaskStatus.QUEUED
    handle.cancel()


def test_a_second_sigint_ends_the_process_at_once(app: Dtq, spawn: Spawn, tmp_path: Any) -> None:
    process = spawn(JOBS, drain_timeout_s=30)
    handle = app.named("sleepy").submit(seconds=60)
    wait_for_start(tmp_path)
    process.signal(signal.SIGINT)
    time.sleep(0.7)
    process.signal(signal.SIGINT)
    assert process.wait(1) == 130
    handle.cancel()


@pytest.mark.alone
@pytest.mark.keeps_keys
def test_a_worker_leaves_in_time_although_redis_is_frozen(
    make_server: Callable[..., Any], quick: Any, tmp_path: Any
) -> None:
    server = make_server()
    settings = replace(quick, redis_url=server.url, drain_timeout_s=0.5)
    process = WorkerProcess(tmp_path, JOBS, settings)
    try:
        process.wait_until_ready()
        Dtq(settings).named("sleepy").submit(seconds=60)
        wait_for_start(tmp_path)
        os.kill(server.pid, signal.SIGSTOP)
        before = time.monotonic()
        process.signal(signal.SIGTERM)
        assert process.wait(5) == 0
        assert time.monotonic() - before < 1.6
    finally:
        os.kill(server.pid, signal.SIGCONT)
        process.end()


COPIES = """
import multiprocessing

@app.task("terminating", max_attempts=1)
def terminating(number: int) -> int:
    copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    copy.start()
    os.kill(copy.pid, number)
    copy.join(5)
    ended = copy.exitcode
    copy.kill()
    return ended

@app.task("doubled", max_attempts=1)
def doubled() -> int:
    return os.fork()

@app.task("doubled.async", max_attempts=1)
async def doubled_async() -> int:
    return os.fork()
"""


@pytest.mark.drains
def test_a_signal_to_what_a_handler_forked_ends_that(app: Dtq, spawn: Spawn) -> None:
    process = spawn(COPIES)
    for number in (signal.SIGTERM, signal.SIGINT):
        assert app.named("terminating").submit(number=int(number)).result(timeout=20) == -number
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0


@pytest.mark.drains
@pytest.mark.parametrize("name", ["doubled", "doubled.async"])
def test_a_copy_that_comes_back_from_its_handler_ends(app: Dtq, spawn: Spawn, name: str) -> None:
    process = spawn(COPIES)
    copy = app.named(name).submit().result(timeout=10)
    assert copy != 0
    wait_until(lambda: not is_alive(copy))
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0

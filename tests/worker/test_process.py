"""A worker process from the outside: how it is set up, what it says, what it makes of wrong settings."""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import ConfigurationError, Dtq, Settings, Task, TaskStatus
from dtq_engine.worker import Worker, checks
from dtq_engine.worker.server import ServerFacts, look, read
from tests.support.waiting import wait_until
from tests.worker.processes import WorkerProcess

Spawn = Callable[..., WorkerProcess]
Ended = Callable[..., Task]

JOBS = """
@app.task("mail")
def mail(fail: bool) -> str:
    if fail:
        raise ValueError("no such address")
    return "sent"
"""

FACTS = ServerFacts(name="Redis", version=(7, 0, 15), run_id="a", uptime_s=100, eviction="noeviction", persists=True)


@pytest.mark.drains
def test_a_worker_runs_from_the_environment_alone_and_says_so_in_one_line(app: Dtq, spawn: Spawn, ended: Ended) -> None:
    process = spawn(JOBS, worker_id="w-7", release="r42", worker_queues=("default", "slow"))
    assert app.named("mail").submit(fail=False).result(timeout=5) == "sent"
    ready = next(line for line in process.log.splitlines() if "is ready" in line)
    for part in ("w-7", "10 slots", "default,slow", "1 task types", look(app.connection).title, "r42"):
        assert part in ready
    (info,) = app.store.workers.list()
    assert (info.id, info.pid, info.release, info.state) == ("w-7", process.pid, "r42", "running")


@pytest.mark.drains
def test_what_a_worker_process_imported_is_no_work_for_pythons_garbage_collector(app: Dtq, spawn: Spawn) -> None:
    spawn("""
import gc

@app.task("frozen")
def frozen() -> int:
    return gc.get_freeze_count()
""")
    assert app.named("frozen").submit().result(timeout=5) > 10_000


@pytest.mark.drains
def test_json_logs_carry_the_task_and_no_line_is_a_traceback(app: Dtq, spawn: Spawn, ended: Ended) -> None:
    process = spawn(JOBS, log_json=True)
    handle = app.named("mail").options(max_attempts=1).submit(fail=True)
    ended(handle)
    wait_until(lambda: "failed for good" in process.log)
    process.signal(signal.SIGTERM)
    assert process.wait(5) == 0
    lines = [json.loads(line) for line in process.log.splitlines()]
    line = next(each for each in lines if "failed for good" in each["message"])
    assert (line["level"], line["task_id"], line["task_type"], line["attempt"]) == ("ERROR", handle.id, "mail", 1)
    assert "no such address" in line["message"]


@pytest.mark.parametrize(
    ("source", "changes", "sentence"),
    [
        ("raise RuntimeError('broken at import')", {}, "broken at import"),
        ("app = 7", {}, "Dtq"),
        ("", {}, "has no tasks"),
        (JOBS, {"alive_file": "/nowhere/alive"}, "DTQ_ALIVE_FILE"),
    ],
)
def test_a_worker_that_cannot_be_set_up_says_why_in_a_sentence_and_exits_2(
    spawn: Spawn, source: str, changes: dict[str, Any], sentence: str
) -> None:
    process = spawn(source, ready=False, **changes)
    assert process.wait(30) == 2
    assert sentence in process.log
    assert "Traceback" not in process.log


def test_an_unreachable_redis_is_waited_for_with_one_line_and_no_traceback(
    make_server: Callable[..., Any], quick: Settings, tmp_path: Path
) -> None:
    server = make_server()
    settings = replace(quick, redis_url=server.url)
    server.stop()
    process = WorkerProcess(tmp_path, JOBS, settings)
    try:
        wait_until(lambda: "waiting for Redis" in process.log, 10)
        time.sleep(0.5)
        server.start()
        process.wait_until_ready()
        assert process.log.count("waiting for Redis") == 1
        assert "Traceback" not in process.log
    finally:
        process.end()


def test_a_worker_that_still_waits_for_redis_can_be_stopped(
    make_server: Callable[..., Any], quick: Settings, tmp_path: Path
) -> None:
    server = make_server()
    server.stop()
    process = WorkerProcess(tmp_path, JOBS, replace(quick, redis_url=server.url))
    try:
        wait_until(lambda: "waiting for Redis" in process.log, 10)
        process.signal(signal.SIGTERM)
        assert process.wait(4) == 0
    finally:
        process.end()


def test_the_alive_file_is_touched_while_the_worker_makes_progress_and_not_without(
    app: Dtq, start: Callable[..., Worker], tmp_path: Path
) -> None:
    @app.task("mail")
    def mail() -> None: ...

    alive = tmp_path / "alive"
    worker = start(alive_file=str(alive))
    first = alive.stat().st_mtime_ns
    wait_until(lambda: alive.stat().st_mtime_ns > first)
    worker.parts.poll.progressed_at -= 60
    worker.parts.poll.stop()
    worker.parts.poll.progressed_at -= 60
    time.sleep(0.2)
    last = alive.stat().st_mtime_ns
    worker.parts.poll.progressed_at = time.monotonic() - 60
    time.sleep(1.3)
    assert alive.stat().st_mtime_ns == last


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": (6, 2, 14)}, "too old"),
        ({"name": "Valkey", "version": (7, 1, 0)}, "too old"),
        ({"eviction": "allkeys-lru"}, "DTQ_ALLOW_EVICTION"),
    ],
)
def test_a_server_that_will_not_do_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        checks.check_server(replace(FACTS, **change), Settings())


@pytest.mark.parametrize(
    ("change", "settings", "warnings"),
    [
        ({}, Settings(), 0),
        ({"eviction": ""}, Settings(), 0),
        ({"eviction": "volatile-lru"}, Settings(), 1),
        ({"persists": False}, Settings(), 1),
        ({"eviction": "allkeys-lfu"}, Settings(allow_eviction=True), 1),
        ({"name": "Valkey", "version": (7, 2)}, Settings(), 0),
    ],
)
def test_a_server_that_endangers_tasks_is_warned_of(
    log: Any, change: dict[str, Any], settings: Settings, warnings: int
) -> None:
    checks.check_server(replace(FACTS, **change), settings)
    assert len(log.records) == warnings


def test_redis_and_valkey_are_told_apart() -> None:
    valkey = read({"server_name": "valkey", "valkey_version": "9.1.2", "redis_version": "7.2.4"})
    redis = read({"redis_version": "7.0.15", "aof_enabled": "0", "maxmemory_policy": "noeviction"})
    assert (valkey.title, redis.title) == ("Valkey 9.1.2", "Redis 7.0.15")
    assert (redis.persists, redis.eviction) == (False, "noeviction")


def test_a_task_that_was_unknown_is_freed_when_a_worker_that_knows_it_starts(
    app: Dtq, start: Callable[..., Worker], ended: Ended
) -> None:
    @app.task("known")
    def known() -> None: ...

    handle = app.named("late").submit()
    old = start()
    wait_until(lambda: handle.status() is TaskStatus.BLOCKED)
    old.stop()
    old.join(5)

    @app.task("late")
    def late() -> None: ...

    start()
    assert ended(handle).status is TaskStatus.SUCCEEDED

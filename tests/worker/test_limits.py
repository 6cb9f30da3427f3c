"""Limits over a fleet of real workers, counted by what their handlers note and not by what Redis says."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import redis

from dtq_engine import Dtq, Settings, Task, TaskStatus
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until
from tests.worker.processes import Crew, WorkerProcess

pytestmark = pytest.mark.drains

JOBS = """
app.limit("account", max_running=2)
app.limit("api", max_running=4)

@app.task("charge", limit={"api": None, "account": "account"}, max_attempts=50)
def charge(ctx: TaskContext, account: int) -> None:
    note(f"start {os.getpid()} {ctx.task_id}/{ctx.fence} {account} {time.monotonic_ns()}")
    time.sleep(0.12)
    note(f"end {os.getpid()} {ctx.task_id}/{ctx.fence} {account} {time.monotonic_ns()}")
"""


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes with short leases, which are killed so often that no number of lost ones is too many."""
    settings = replace(quick, visibility_timeout_s=2, heartbeat_interval_s=0.3, max_lease_expiries=100)
    with Crew(tmp_path, JOBS, settings) as crew:
        yield crew


def most_at_once(notes: list[str], killed: dict[int, int], place: Callable[[str], str]) -> dict[str, int]:
    """By place, how many executions were under way at once; those of a killed process ended with it."""
    lines = [line.split() for line in notes]
    ends = {execution: int(at) for kind, _, execution, _, at in lines if kind == "end"}
    moments = defaultdict[str, list[tuple[int, int]]](list)
    for kind, pid, execution, account, at in lines:
        if kind == "start":
            moments[place(account)] += [(int(at), 1), (ends.get(execution) or killed[int(pid)], -1)]
    return {where: max(accumulate(change for _, change in sorted(each))) for where, each in moments.items()}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_limit_is_exceeded_while_workers_are_killed(app: Dtq, crew: Crew) -> None:
    app.limit("account", max_running=2)
    app.limit("api", max_running=4)

    @app.task("charge", limit={"api": None, "account": "account"}, max_attempts=50)
    def charge(account: int) -> None: ...

    members = [crew.start() for _ in range(3)]
    handles = [charge.submit(number % 3) for number in range(480)]
    killed: dict[int, int] = {}
    for kills in range(12):
        wait_until(partial(has_noted, crew, 60 * (kills + 1)), 60)
        victim = busy(crew, members)
        victim.kill()
        killed[victim.pid] = time.monotonic_ns()
        members[members.index(victim)] = crew.start(ready=False)
    wait_until(lambda: all(handle.status() is TaskStatus.SUCCEEDED for handle in handles), 120, 0.1)
    assert most_at_once(crew.notes, killed, str) == {"0": 2, "1": 2, "2": 2}
    assert most_at_once(crew.notes, killed, lambda _: "all") == {"all": 4}
    assert sum(note.startswith("start") for note in crew.notes) > 480


def has_noted(crew: Crew, lines: int) -> bool:
    """Whether handlers have noted over so many lines."""
    return len(crew.notes) > lines


def busy(crew: Crew, members: list[WorkerProcess]) -> WorkerProcess:
    """A worker that has an execution under way."""

    def find() -> Any:
        under_way: dict[str, int] = {}
        for line in crew.notes:
            kind, pid, execution, *_ = line.split()
            under_way = under_way | {execution: int(pid)} if kind == "start" else under_way
            if kind == "end":
                under_way.pop(execution, None)
        return next((member for member in members if member.pid in under_way.values()), None)

    found: WorkerProcess = wait_until(find)
    return found


def test_a_rate_holds_over_the_threads_of_several_workers(app: Dtq, start: Callable[..., Worker]) -> None:
    app.limit("api", rate=(10, 0.5))

    @app.task("ask", limit="api")
    def ask() -> None: ...

    handles = app.submit_many([ask.prepare() for _ in range(60)])
    for _ in range(3):
        start(worker_concurrency=20)
    tasks = ended(app, [handle.id for handle in handles if not isinstance(handle, Exception)])
    started = sorted(task.started_ms or 0 for task in tasks)
    assert most_within(started, 500) == 10
    assert started[-1] - started[0] < 5_000


def test_a_queue_keeps_to_its_rate_and_to_how_many_may_run(app: Dtq, start: Callable[..., Worker]) -> None:
    app.limit.queue("default", max_running=3, rate=(5, 0.5))
    lock, running, most = threading.Lock(), 0, 0

    @app.task("ask")
    def ask() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    handles = app.submit_many([ask.prepare() for _ in range(30)])
    for _ in range(3):
        start(worker_concurrency=20)
    tasks = ended(app, [handle.id for handle in handles if not isinstance(handle, Exception)])
    started = sorted(task.started_ms or 0 for task in tasks)
    assert most_within(started, 500) == 5
    assert most <= 3
    assert 2_500 <= started[-1] - started[0] < 4_000


def test_an_idle_limited_queue_costs_no_more_claims_than_a_free_one(
    app: Dtq, start: Callable[..., Worker], client: redis.Redis
) -> None:
    app.limit.queue("default", max_running=1)
    release = threading.Event()

    @app.task("wait")
    def wait() -> None:
        release.wait(20)

    handles = [wait.submit() for _ in range(5)]
    for _ in range(2):
        start()
    wait_until(lambda: app.store.inspect.queue("default").running == 1)
    time.sleep(0.5)
    before = claims(client)
    time.sleep(2)
    assert claims(client) - before <= 6
    release.set()
    ended(app, [handle.id for handle in handles])


def claims(client: Any) -> int:
    """How many claims looked whether there is room: only they ask for a queue's own limit."""
    return int(client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"])


def most_within(started: list[int], window_ms: int) -> int:
    """The most starts in any window."""
    return max(sum(first <= each <= first + window_ms for each in started) for first in started)


def ended(app: Dtq, ids: list[str]) -> list[Task]:
    """These tasks, once all have ended."""

    def all_ended() -> list[Task]:
        tasks = [app.store.inspect.get(each, queue="default") for each in ids]
        return tasks if all(task.status is TaskStatus.SUCCEEDED for task in tasks) else []

    return wait_until(all_ended, 30, 0.1)

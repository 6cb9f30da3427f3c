"""A worker process dies at each point of an execution, and the task still ends exactly once, as is promised."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Settings, Task, TaskStatus
from dtq_engine.scripts import load
from dtq_engine.store import Store
from dtq_engine.worker.scheduler import LOCK_MS
from tests.support.clock import Clock
from tests.support.waiting import wait_until
from tests.worker.processes import Crew, WorkerProcess

# Leases of 0.6 s: a machine that is busy with other tests could let one expire.
pytestmark = [pytest.mark.drains, pytest.mark.alone]

Ended = Callable[..., Task]

JOBS = """
@app.task("work")
def work(ctx: TaskContext) -> int:
    note(f"attempt {ctx.attempt}")
    return ctx.attempt

@app.task("die_once")
def die_once(ctx: TaskContext) -> int:
    note(f"attempt {ctx.attempt}")
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt

@app.task("stepwise")
def stepwise(ctx: TaskContext) -> list[int]:
    done = []
    for number in range(3):
        done.append(ctx.step(f"step {number}", lambda: note(f"step {number}") or number))
        ctx.progress(number + 1, 3)
        ctx.log(f"after step {number}")
    return done

@app.task("slow")
def slow(ctx: TaskContext) -> int:
    note(f"attempt {ctx.attempt}")
    while ctx.attempt == 1:
        time.sleep(0.01)
    return ctx.attempt
"""

FIRST = ["TASK_QUEUED", "TASK_STARTED", "TASK_SUCCEEDED"]
SECOND = ["TASK_QUEUED", "TASK_STARTED", "TASK_RETRY_SCHEDULED", "TASK_STARTED", "TASK_SUCCEEDED"]


@pytest.fixture
def quick(quick: Settings) -> Settings:
    """Leases of 0.6 s."""
    return replace(quick, visibility_timeout_s=0.6, heartbeat_interval_s=0.15)


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes."""
    with Crew(tmp_path, JOBS, quick) as crew:
        yield crew


def crashed(process: WorkerProcess) -> None:
    assert process.wait(10) == -signal.SIGKILL, process.log


def ended_in_the_first_attempt(store: Store, task: Task) -> None:
    assert (task.status, task.result, task.attempt, task.restarts) == (TaskStatus.SUCCEEDED, b"1", 1, 0)
    assert task.errors == ()
    happened_once(store, FIRST)


def ended_in_the_second_attempt(store: Store, task: Task) -> None:
    assert (task.status, task.result, task.attempt) == (TaskStatus.SUCCEEDED, b"2", 2)
    assert (task.restarts, task.lease_expiries) == (1, 1)
    assert [(error.type, error.attempt) for error in task.errors] == [("LeaseExpired", 1)]
    happened_once(store, SECOND)


def happened_once(store: Store, events: list[str]) -> None:
    assert [event.type for event in store.events.tail("default", 20) if event.task_id] == events
    stats = store.inspect.queue("default")
    assert (stats.depth, stats.succeeded, stats.dead_lettered) == (0, 1, 0)


def test_before_the_claim_nothing_has_begun(app: Dtq, crew: Crew, ended: Ended) -> None:
    handle = app.named("work").submit()
    crashed(crew.start(crash="before-claim"))
    crew.start()
    ended_in_the_first_attempt(app.store, ended(handle))
    assert crew.notes == ["attempt 1"]


@pytest.mark.parametrize(
    ("point", "starts"),
    [
        ("after-claim", ["attempt 2"]),
        ("before-handler", ["attempt 2"]),
        ("before-finalize", ["attempt 1", "attempt 2"]),
    ],
)
def test_from_the_claim_to_the_finalize_the_attempt_is_lost_and_the_task_is_not(
    app: Dtq, crew: Crew, ended: Ended, point: str, starts: list[str]
) -> None:
    handle = app.named("work").submit()
    crashed(crew.start(crash=point))
    crew.start()
    ended_in_the_second_attempt(app.store, ended(handle))
    assert crew.notes == starts


def test_in_the_handler_the_attempt_is_lost_and_the_task_is_not(app: Dtq, crew: Crew, ended: Ended) -> None:
    handle = app.named("die_once").submit()
    crashed(crew.start(ready=False))
    crew.start()
    ended_in_the_second_attempt(app.store, ended(handle))
    assert crew.notes == ["attempt 1", "attempt 2"]


@pytest.mark.parametrize("point", ["reply-lost", "after-finalize"])
def test_once_the_finalize_is_sent_the_task_has_ended(
    app: Dtq, crew: Crew, client: Any, ended: Ended, point: str
) -> None:
    function = load("finalize").function
    assert function is not None
    # Known to the server, so that the name is all that it takes to run it.
    client.execute_command("FUNCTION LOAD REPLACE", function.source)
    handle = app.named("work").submit()
    crashed(crew.start(crash=f"sent:{function.name}" if point == "reply-lost" else point))
    ended_in_the_first_attempt(app.store, ended(handle))
    crew.start()
    assert app.named("work").submit().result(timeout=5) == 1
    assert crew.notes == ["attempt 1"] * 2, "one each"


def test_after_a_promotion_the_task_waits_for_any_worker(app: Dtq, crew: Crew, ended: Ended) -> None:
    handle = app.named("work").options(delay=0.2).submit()
    crashed(crew.start(crash="after-promote", worker_queues=("other",)))
    crew.start()
    task = ended(handle)
    assert (task.status, task.attempt, task.errors) == (TaskStatus.SUCCEEDED, 1, ())
    assert crew.notes == ["attempt 1"]


def test_the_lock_of_a_dead_leader_passes_on(app: Dtq, crew: Crew, client: Any, ended: Ended) -> None:
    lock = app.store.keys.leader()
    crashed(crew.start(crash="leading"))
    assert 0 < client.pttl(lock) <= LOCK_MS
    # For as long as the test takes to look, and then no longer.
    client.pexpire(lock, 60_000)
    crew.start()
    handle = app.named("work").options(delay=0.1).submit()
    wait_until(lambda: (handle.info().due_ms or 0) < app.store.now_ms())
    assert handle.status() is TaskStatus.PENDING
    client.pexpire(lock, 100)
    assert ended(handle, timeout=1.5).attempt == 1
    assert crew.notes == ["attempt 1"]


def test_in_the_drain_what_still_runs_is_lost_to_its_lease(app: Dtq, crew: Crew, ended: Ended) -> None:
    handle = app.named("slow").submit()
    process = crew.start(crash="in-drain")
    wait_until(lambda: crew.notes)
    process.signal(signal.SIGTERM)
    crashed(process)
    crew.start()
    ended_in_the_second_attempt(app.store, ended(handle))
    assert crew.notes == ["attempt 1", "attempt 2"]


def test_a_reaper_that_dies_undecided_costs_the_task_nothing(app: Dtq, crew: Crew, clock: Clock, ended: Ended) -> None:
    handle = app.named("work").submit()
    crashed(crew.start(crash="after-claim"))
    crashed(crew.start(crash="reclaim-undecided"))
    held = app.store.inspect.get(handle.id)
    assert (held.status, held.attempt, held.errors) == (TaskStatus.RUNNING, 1, ())
    crew.start()
    clock.advance(seconds=10)
    ended_in_the_second_attempt(app.store, ended(handle))
    assert crew.notes == ["attempt 2"]


@pytest.mark.parametrize("script", ["save", "report"])
def test_between_a_report_or_a_saved_step_and_its_answer_no_step_is_run_again(
    app: Dtq, crew: Crew, ended: Ended, script: str
) -> None:
    app.connection.call("SCRIPT", "LOAD", load(script).source)
    crew.start(crash=f"sent:{load(script).digest}")
    handle = app.named("stepwise").submit()
    wait_until(lambda: crew.notes, 20)
    crew.start()
    task = ended(handle, 20)
    assert (task.status, task.result) == (TaskStatus.SUCCEEDED, b"[0,1,2]")
    assert crew.notes == ["step 0", "step 1", "step 2"]
    assert task.progress is not None
    assert task.progress.done == 3
    assert [line.message for line in app.store.reports.logs(handle.id, attempt=2)] == [
        f"after step {number}" for number in range(3)
    ]

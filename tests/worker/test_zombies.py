"""A worker that was frozen beyond its lease and comes back: it can neither finish, renew nor go on unawares."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dtq_engine import Dtq, Handle, Settings, Task, TaskStatus
from tests.support.waiting import wait_until
from tests.worker.processes import Crew, WorkerProcess

pytestmark = pytest.mark.drains

Ended = Callable[..., Task]

JOBS = """
@app.task("work")
def work(ctx: TaskContext) -> int:
    note(f"attempt {ctx.attempt}")
    if ctx.attempt == 1:
        wait_for("go")
    return ctx.attempt

@app.task("long")
def long(ctx: TaskContext) -> int:
    note(f"attempt {ctx.attempt}")
    while ctx.attempt == 1 and not ctx.cancelled:
        time.sleep(0.01)
    note(f"attempt {ctx.attempt} {'was told' if ctx.cancelled else 'is done'}")
    return ctx.attempt

@app.task("long_async")
async def long_async(ctx: TaskContext) -> int:
    note(f"attempt {ctx.attempt}")
    try:
        while ctx.attempt == 1:
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        note(f"attempt {ctx.attempt} was told")
        raise
    note(f"attempt {ctx.attempt} is done")
    return ctx.attempt
"""


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes with leases of 1 s."""
    with Crew(tmp_path, JOBS, replace(quick, visibility_timeout_s=1, heartbeat_interval_s=0.2)) as crew:
        yield crew


def start_and_freeze(app: Dtq, crew: Crew, kind: str) -> tuple[WorkerProcess, Handle[int]]:
    # With its one slot taken it waits for no wake-up, which would be lost with it for as long as it is frozen.
    zombie = crew.start(worker_id="zombie", worker_concurrency=1)
    handle = app.named(kind).submit()
    wait_until(lambda: crew.notes)
    zombie.signal(signal.SIGSTOP)
    return zombie, handle


def only_the_second_counts(app: Dtq, task: Task) -> None:
    assert (task.status, task.result, task.attempt, task.worker) == (TaskStatus.SUCCEEDED, b"2", 2, "other")
    assert [error.type for error in task.errors] == ["LeaseExpired"]
    events = [event for event in app.store.events.tail("default", 20) if event.task_id == task.id]
    assert [event.worker_id for event in events if event.type == "TASK_SUCCEEDED"] == ["other"]


def test_what_a_zombie_finishes_does_not_count(app: Dtq, crew: Crew, ended: Ended, tmp_path: Path) -> None:
    zombie, handle = start_and_freeze(app, crew, "work")
    crew.start(worker_id="other")
    task = ended(handle)
    only_the_second_counts(app, task)
    (tmp_path / "go").touch()
    zombie.signal(signal.SIGCONT)
    # Whichever comes first, its finalize or its heartbeat.
    wait_until(lambda: "does not count" in zombie.log or "lost its lease" in zombie.log)
    assert app.named("work").submit().result(timeout=5) in {1, 2}
    only_the_second_counts(app, app.store.inspect.get(handle.id))


@pytest.mark.parametrize("kind", ["long", "long_async"])
def test_a_zombies_renewal_is_refused_and_its_handler_is_told(app: Dtq, crew: Crew, ended: Ended, kind: str) -> None:
    zombie, handle = start_and_freeze(app, crew, kind)
    crew.start(worker_id="other")
    ended(handle)
    zombie.signal(signal.SIGCONT)
    wait_until(lambda: "attempt 1 was told" in crew.notes)
    assert crew.notes == ["attempt 1", "attempt 2", "attempt 2 is done", "attempt 1 was told"]
    assert zombie.log.count("lost its lease") == 1
    zombie.signal(signal.SIGTERM)
    assert zombie.wait(5) == os.EX_OK, "the slot was freed, and nothing held up its end"
    only_the_second_counts(app, app.store.inspect.get(handle.id))

"""Which worker sees to the schedules: one at a time, another when it dies, and no harm if there are two."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Handle, NewTask, Settings, Task, TaskStatus
from dtq_engine.ids import new_id
from dtq_engine.worker.scheduler import LOCK_MS
from tests.support.waiting import wait_until
from tests.worker.processes import Crew, WorkerProcess

Ended = Callable[..., Task]

JOBS = """
@app.task("work")
async def work(ctx: TaskContext) -> int:
    note(f"{ctx.task_id} {time.time()}")
    return ctx.attempt
"""


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes with leases of 1 s."""
    with Crew(tmp_path, JOBS, replace(quick, visibility_timeout_s=1, heartbeat_interval_s=0.2)) as crew:
        yield crew


def leads(process: WorkerProcess) -> bool:
    return "leads the schedules" in process.log


def start_leading(crew: Crew) -> WorkerProcess:
    process = crew.start()
    wait_until(lambda: leads(process))
    return process


@pytest.mark.alone
@pytest.mark.drains
def test_when_the_leader_is_killed_another_promotes_within_a_second_of_the_end_of_its_lock(
    app: Dtq, crew: Crew, client: Any, ended: Ended
) -> None:
    leader = start_leading(crew)
    other = crew.start()
    leader.kill()
    handle = app.named("work").options(delay=0.1).submit()
    lock = app.store.keys.leader()
    assert 0 < client.pttl(lock) <= LOCK_MS
    # What is left of the lock's time is cut short, so that nobody has to wait for it here.
    client.pexpire(lock, 500)
    before = time.monotonic()
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert time.monotonic() - before < 0.5 + 1
    assert leads(other)


@pytest.mark.drains
def test_two_leaders_at_once_promote_each_task_once(app: Dtq, crew: Crew, client: Any, ended: Ended) -> None:
    processes = [start_leading(crew)]
    handles = [app.named("work").options(delay=0.5 + number * 0.005).submit() for number in range(200)]
    stop = threading.Event()

    def take_the_lock_away() -> None:
        while not stop.wait(0.02):
            client.delete(app.store.keys.leader())

    thief = threading.Thread(target=take_the_lock_away)
    thief.start()
    try:
        processes.append(crew.start())
        wait_until(lambda: all(leads(process) for process in processes))
        for handle in handles:
            assert ended(handle).attempt == 1
    finally:
        stop.set()
        thief.join()
    assert Counter(note.split()[0] for note in crew.notes) == {handle.id: 1 for handle in handles}
    events = Counter(event.type for event in app.store.events.tail("default", 10_000) if event.task_id)
    assert events == {"TASK_QUEUED": 200, "TASK_STARTED": 200, "TASK_SUCCEEDED": 200}


def test_a_queue_without_workers_is_promoted_and_reaped_by_the_leader_of_another(app: Dtq, crew: Crew) -> None:
    lost = app.named("work").options(queue="orphan").submit()
    crew.start(crash="after-claim", worker_queues=("orphan",)).wait(10)
    assert lost.status() is TaskStatus.RUNNING
    delayed = app.named("work").options(queue="orphan", delay=0.1).submit()
    app.connection.client.delete(app.store.keys.leader())
    start_leading(crew)
    wait_until(lambda: delayed.status() is TaskStatus.QUEUED)
    wait_until(lambda: lost.status() is TaskStatus.QUEUED)
    task = lost.info()
    assert (task.attempt, [error.type for error in task.errors]) == (1, ["LeaseExpired"])
    for handle in (lost, delayed):
        handle.cancel()


@pytest.mark.keeps_keys  # their number: looking at each takes longer than the test
def test_fifty_thousand_due_tasks_neither_cost_the_lock_nor_hold_up_other_queues(
    app: Dtq, crew: Crew, client: Any, ended: Ended
) -> None:
    submit_due(app, 50_000)
    lock = app.store.keys.leader()
    start_leading(crew)
    token = client.get(lock)
    due = time.time() + 0.2
    handle: Handle[int] = app.named("work").options(delay=0.2).submit()
    shortest = LOCK_MS
    while app.store.inspect.queue("backlog").delayed:
        assert client.get(lock) == token
        shortest = min(shortest, client.pttl(lock))
        time.sleep(0.02)
    assert shortest > LOCK_MS * 0.4
    assert app.store.inspect.queue("backlog").waiting == 50_000
    assert ended(handle).attempt == 1
    assert float(crew.notes[0].split()[1]) - due < 0.5


def submit_due(app: Dtq, count: int) -> None:
    """Tasks of a queue that nobody serves, due by the time that a leader is there."""
    app.submit_many(NewTask(id=new_id(), type="work", queue="backlog", delay_ms=1) for _ in range(count))

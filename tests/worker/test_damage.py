"""Keys that hold something else while workers run: outcomes are held, and nothing else waits for them."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from dtq_engine import Dtq, Handle, Snooze, Store, Task, TaskStatus
from dtq_engine.errors import RedisDamaged
from dtq_engine.worker import Worker, known_types
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.repeats import Repeats
from tests.support.waiting import wait_until

Start = Callable[..., Worker]
Ended = Callable[..., Task]

pytestmark = pytest.mark.drains


@pytest.fixture
def work(app: Dtq) -> Any:
    """A task that has nothing to do."""

    @app.task("work")
    def work() -> int:
        return 1

    return work


@pytest.fixture
def damage(store: Store, client: Any) -> str:
    """The key that successes need, which holds something else."""
    key = store.keys.index("default", TaskStatus.SUCCEEDED)
    client.set(key, "oops")
    return key


def held(worker: Worker, work: Any) -> Handle[int]:
    """A task whose outcome this worker holds."""
    handle: Handle[int] = work.submit()
    wait_until(lambda: worker.parts.inflight.held)
    return handle


def test_a_success_that_cannot_be_recorded_is_held_with_its_lease_and_slot_until_it_can_be(
    app: Dtq, start: Start, client: Any, damage: str, ended: Ended, log: Any
) -> None:
    runs: list[int] = []

    @app.task("once", max_attempts=1)
    def once() -> str:
        runs.append(1)
        return "done"

    workers = [start(worker_concurrency=2), start(worker_concurrency=2)]
    handle = once.submit()
    wait_until(lambda: any(worker.parts.inflight.held for worker in workers))
    time.sleep(2.5)  # longer than a lease: heartbeats keep it
    assert handle.status() is TaskStatus.RUNNING
    assert sum(worker.parts.inflight.taken for worker in workers) == 1
    client.delete(damage)
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert handle.result() == "done"
    wait_until(lambda: sum(worker.parts.inflight.taken for worker in workers) == 0)
    assert len(runs) == 1
    assert log.text.count("cannot be recorded") == 1
    assert f"the key {damage} is a string, not a zset; rename or delete it" in log.text
    assert not [record for record in log.records if record.exc_info]


def test_outcomes_that_do_not_need_a_damaged_key_are_recorded(
    app: Dtq, start: Start, store: Store, client: Any, ended: Ended
) -> None:
    starts: list[str] = []

    @app.task("flaky", retry_base_delay=0.05, max_attempts=3)
    def flaky() -> None:
        starts.append("flaky")
        if starts.count("flaky") == 1:
            raise ValueError

    @app.task("sleepy")
    def sleepy() -> None:
        starts.append("sleepy")
        if starts.count("sleepy") == 1:
            raise Snooze(0.05)

    client.set(store.keys.dead_letters("default"), "oops")
    client.set(store.keys.index("default", TaskStatus.DEAD_LETTERED), "oops")
    start()
    handles = [flaky.submit(), sleepy.submit(), sleepy.options(delay=0.1).submit()]
    assert [ended(handle).status for handle in handles] == [TaskStatus.SUCCEEDED] * 3
    client.delete(store.keys.dead_letters("default"), store.keys.index("default", TaskStatus.DEAD_LETTERED))


@pytest.mark.alone
def test_a_worker_that_holds_outcomes_stops_in_time_and_its_tasks_come_back(
    work: Any, start: Start, client: Any, damage: str, ended: Ended, log: Any
) -> None:
    worker = start(drain_timeout_s=0.5)
    handle = held(worker, work)
    began = time.monotonic()
    worker.stop()
    worker.join(10)
    assert time.monotonic() - began < 3
    assert "1 tasks come back when their leases expire" in log.text
    client.delete(damage)
    start()
    assert ended(handle, timeout=15).status is TaskStatus.SUCCEEDED


@pytest.mark.keeps_keys
def test_an_outcome_that_was_held_does_not_count_once_the_task_is_anothers(
    work: Any, start: Start, store: Store, client: Any, damage: str, log: Any
) -> None:
    worker = start()
    handle = held(worker, work)
    record = store.keys.task("default", handle.id)
    token, *rest = client.hget(record, "L").decode().split(" ")
    client.hset(record, "L", " ".join(["another" + token[7:], *rest]))
    client.delete(damage)
    wait_until(lambda: not worker.parts.inflight.held)
    assert "does not count" in log.text


def test_a_lock_of_a_wrong_type_keeps_nobody_from_leading(
    work: Any, start: Start, store: Store, client: Any, ended: Ended
) -> None:
    client.rpush(store.keys.leader(), "oops")
    start()
    assert ended(work.options(delay=0.1).submit()).status is TaskStatus.SUCCEEDED
    assert client.type(store.keys.leader()) == b"string"


def test_a_damaged_list_of_queues_is_said_once_and_mended_by_whoever_leads(
    work: Any, start: Start, store: Store, client: Any, ended: Ended, log: Any
) -> None:
    key = store.keys.queues()
    client.set(key, "oops")
    worker = start()
    wait_until(lambda: client.type(key) != b"string")
    worker.parts.types.announce()
    assert ended(work.options(delay=0.1).submit()).status is TaskStatus.SUCCEEDED
    (said,) = [each for each in log.records if "the scheduler loop failed" in each.getMessage()]
    assert f"The key {key} is a string" in said.getMessage()
    assert said.exc_info is None


def test_a_worker_puts_its_queues_back_into_their_list(
    work: Any, start: Start, store: Store, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_types, "REFRESH_S", 0.1)
    worker = start()
    wait_until(lambda: worker.parts.scheduler.queues)
    client.delete(store.keys.queues())
    wait_until(lambda: store.inspect.queues() == ["default"])


def test_a_clock_of_a_wrong_type_moves_nothing(
    work: Any, start: Start, store: Store, client: Any, ended: Ended
) -> None:
    start()
    key = store.keys.clock("default")
    for value in ("nan", "1e300", "soon"):
        client.set(key, value)
        assert ended(work.submit()).status is TaskStatus.SUCCEEDED
    client.delete(key)
    client.rpush(key, "oops")
    assert ended(work.submit()).status is TaskStatus.SUCCEEDED
    client.delete(key)


def test_a_failure_that_goes_on_is_logged_once_and_then_at_growing_intervals() -> None:
    now = 0.0
    repeats = Repeats(lambda: now)
    said: list[float] = []
    for second in range(10_000):
        now = float(second)
        if repeats.is_due("it fails"):
            said.append(now)
    assert said == [0, 60, 180, 420, 900, 1860, 3780, 7380]
    assert repeats.is_due("something else")
    now = 100_000.0
    assert repeats.is_due("it fails")
    now += 60
    assert repeats.is_due("it fails")


def test_however_many_failures_there_are_few_are_remembered() -> None:
    repeats = Repeats()
    assert all(repeats.is_due(f"failure {number}") for number in range(1000))
    assert not repeats.is_due("failure 999")


def test_a_loop_that_fails_all_the_time_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Loop):
        name = "failing"
        tries = 0

        def step(self) -> None:
            self.tries += 1
            raise RedisDamaged("The key dtq:queues is a string: delete it.")

    caplog.set_level(logging.ERROR, logger="dtq.worker")
    loop = Failing(Outage(30))
    loop.start()
    wait_until(lambda: loop.tries == 3, 10)
    loop.stop()
    assert loop.join(5)
    (said,) = [each for each in caplog.records if "the failing loop" in each.getMessage()]
    assert "The key dtq:queues is a string" in said.getMessage()
    assert said.exc_info is None

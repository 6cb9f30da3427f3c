"""What the leader mends and lets go by itself."""

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from dtq_engine import Dtq, Settings
from dtq_engine.model import Succeed
from dtq_engine.store import Store
from dtq_engine.store.schedule import Trimmed
from dtq_engine.worker import Worker
from dtq_engine.worker.housekeeper import TRIM_S
from tests.store.hand import Hand


@pytest.fixture
def leader(app: Dtq, quick: Settings) -> Any:
    worker = Worker(app, quick)
    worker.parts.scheduler.step()
    yield worker.parts
    worker.parts.scheduler.release()
    worker.parts.connection.close()


def test_the_leader_repairs_a_queue_whose_stream_was_deleted(app: Dtq, leader: Any, client: Any) -> None:
    app.named("note").options(id="t1").submit()
    client.delete(app.store.keys.stream("default", 5))
    leader.scheduler._look_around()
    while not client.exists(app.store.keys.stream("default", 5)):
        leader.housekeeper.step()
    assert app.store.inspect.queue("default").waiting == 1
    app.handle("t1").cancel()


def test_the_leader_forgets_consumers_of_workers_that_are_gone(app: Dtq, leader: Any, client: Any) -> None:
    app.store.workers.register_queue("default")
    stream = app.store.keys.stream("default", 5)
    client.xgroup_create(stream, "workers", "0", mkstream=True)
    client.xgroup_createconsumer(stream, "workers", "gone")
    app.store.workers.retire("default", idle_ms=0)
    assert client.xinfo_consumers(stream, "workers") == []


def test_a_worker_that_does_not_lead_mends_nothing(app: Dtq, quick: Settings, client: Any) -> None:
    app.named("note").options(id="t1").submit()
    client.delete(app.store.keys.stream("default", 5))
    worker = Worker(app, quick)
    worker.parts.scheduler.stop()
    worker.parts.housekeeper._rest_s = 0
    worker.parts.housekeeper.step()
    assert not client.exists(app.store.keys.stream("default", 5))
    app.handle("t1").cancel()
    worker.parts.connection.close()


@pytest.fixture
def busy(app: Dtq, clock: Any) -> Store:
    """A store with 1,000 tasks of which one is to be kept, and that are a minute old: all may go but that one."""
    store = Store(app.store.connection, replace(app.settings, keep_succeeded=1))
    hand = Hand(store, types=["note"])
    hand.submit(*[f"t{number}" for number in range(1000)], type="note")
    while claims := hand.claim():
        hand.end_all(claims, Succeed(None))
    clock.advance(61)
    return store


def test_what_is_over_the_limits_goes_at_once_however_much_it_is(app: Dtq, quick: Settings, busy: Store) -> None:
    worker = Worker(app, replace(quick, keep_succeeded=1))
    worker.parts.scheduler.step()
    worker.parts.housekeeper.tidy()
    assert app.store.inspect.queue("default").succeeded == 1
    worker.parts.scheduler.release()
    worker.parts.connection.close()


def test_a_queue_that_has_more_than_it_keeps_is_looked_at_in_each_step(
    app: Dtq, quick: Settings, busy: Store, clock: Any
) -> None:
    worker = Worker(app, replace(quick, keep_succeeded=1))
    worker.parts.scheduler.step()
    clock.advance(-59)
    worker.parts.housekeeper.tidy()
    assert app.store.inspect.queue("default").succeeded == 1000
    clock.advance(59)
    worker.parts.housekeeper.step()
    assert app.store.inspect.queue("default").succeeded == 1
    assert worker.parts.housekeeper._full == set()
    worker.parts.scheduler.release()
    worker.parts.connection.close()


@pytest.mark.alone
def test_trimming_leaves_the_server_half_of_the_time_and_comes_to_an_end(
    app: Dtq, leader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a queue in which there is always something to trim."""
    times: list[float] = []

    def trim(queue: str) -> Trimmed:
        times.append(time.monotonic())
        time.sleep(0.05)
        return Trimmed(200, True)

    monkeypatch.setattr(type(leader.housekeeper._store.schedule), "trim", lambda _, queue: trim(queue))
    began = time.monotonic()
    leader.housekeeper._trim(["default"])
    assert time.monotonic() - began <= TRIM_S + 0.3
    assert min(later - earlier for earlier, later in pairwise(times)) >= 0.1
    assert leader.housekeeper._full == {"default"}

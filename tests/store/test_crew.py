"""Who serves a queue: each start and each end of a worker is told once, whatever is sent again."""

import pytest

from dtq_engine.store import Store
from dtq_engine.store.crew import Absence
from dtq_engine.store.events import Event
from tests.store.hand import info

pytestmark = pytest.mark.both_servers


def told(store: Store, queue: str = "default") -> list[tuple[str, str | None, str | None]]:
    """The events so far: type, worker and detail."""
    return [(event.type, event.worker_id, event.detail) for event in store.events.tail(queue, 99)]


def absence(worker: str, life: str) -> Absence:
    return Absence("default", worker.encode(), life.encode())


def test_a_start_and_a_stop_are_told_once_however_often_they_are_sent(store):
    assert [store.crew.started("default", "w1", "l1") for _ in range(3)] == [True, False, False]
    assert [store.crew.stopped("default", "w1", "l1") for _ in range(3)] == [True, False, False]
    assert told(store) == [("WORKER_STARTED", "w1", None), ("WORKER_STOPPED", "w1", None)]


def test_events_of_workers_belong_to_no_task(store):
    store.crew.started("default", "w1", "l1")
    assert store.events.tail("default", 1) == [
        Event(1, store.events.tail("default", 1)[0].ts_ms, "WORKER_STARTED", None, "default", None, 0, "w1", None)
    ]


def test_a_worker_of_two_queues_is_told_in_both(store):
    for queue in ("a", "b"):
        store.crew.started(queue, "w1", "l1")
    assert told(store, "a") == told(store, "b") == [("WORKER_STARTED", "w1", None)]


def test_a_silent_worker_is_told_once_by_however_many_leaders(store):
    store.crew.started("default", "w1", "l1")
    assert [store.crew.stale(absence("w1", "l1")) for _ in range(3)] == [True, False, False]
    assert not store.crew.stopped("default", "w1", "l1")
    assert told(store)[1:] == [("WORKER_STALE", "w1", None)]


def test_one_that_was_told_to_be_silent_and_goes_on_is_told_to_be_back(store):
    store.crew.started("default", "w1", "l1")
    store.crew.stale(absence("w1", "l1"))
    store.crew.started("default", "w1", "l1", "back")
    assert told(store)[2:] == [("WORKER_STARTED", "w1", "back")]


def test_what_is_said_of_a_former_life_is_no_news_for_the_one_of_the_same_name(store):
    store.crew.started("default", "w1", "l1")
    store.crew.started("default", "w1", "l2")
    assert not store.crew.stale(absence("w1", "l1"))
    assert not store.crew.stopped("default", "w1", "l1")
    assert store.crew.stopped("default", "w1", "l2")
    assert told(store) == [
        ("WORKER_STARTED", "w1", None), ("WORKER_STARTED", "w1", "restarted"), ("WORKER_STOPPED", "w1", None),
    ]  # fmt: skip


def test_absent_are_those_without_a_heartbeat(store):
    for name in ("w1", "w2"):
        store.crew.started("default", name, "l")
    store.crew.started("other", "w1", "l")
    store.workers.beat(info("w1"), 30)
    assert store.crew.absent(["default", "other", "new"]) == {absence("w2", "l")}
    store.workers.leave("w1")
    assert {each.queue for each in store.crew.absent(["default", "other"])} == {"default", "other"}


def test_names_that_are_no_text_are_told_and_forgotten(store, client):
    client.hset(store.keys.crew("default"), b"\xff two\nwords", b"\x00")
    (absent,) = store.crew.absent(["default"])
    assert store.crew.stale(absent)
    assert [event.type for event in store.events.tail("default", 9)] == ["WORKER_STALE"]
    assert not client.exists(store.keys.crew("default"))


@pytest.mark.keeps_keys
def test_notes_that_are_damaged_begin_anew(store, client):
    client.set(store.keys.crew("default"), "no hash")
    assert store.crew.absent(["default"]) == set()
    assert store.crew.started("default", "w1", "l1")
    assert client.hgetall(store.keys.crew("default")) == {b"w1": b"l1"}


def test_a_heartbeat_says_whether_the_worker_was_known(store):
    assert [store.workers.beat(info("w1"), 30) for _ in range(2)] == [False, True]
    store.workers.leave("w1")
    assert not store.workers.beat(info("w1"), 30)


def test_pausing_and_resuming_a_queue_is_told_once_for_each_request(store):
    for _ in range(2):
        store.control.pause("default", request="r1")
        store.control.resume("default", request="r2")
    changes = [(event.type, event.task_id, event.detail) for event in store.events.tail("default", 9)]
    assert changes == [("CONFIGURATION_CHANGED", None, "pause"), ("CONFIGURATION_CHANGED", None, "resume")]

"""The registry of workers and queues, and the lock of the leading scheduler."""

import pytest

from tests.store.hand import info

pytestmark = pytest.mark.both_servers


def test_a_beating_worker_is_listed_as_it_said(store):
    store.workers.beat(info("w1"), 30)
    assert store.workers.list() == [info("w1")]


def test_workers_are_listed_by_id(store):
    for name in ("w2", "w1", "w3"):
        store.workers.beat(info(name), 30)
    assert [worker.id for worker in store.workers.list()] == ["w1", "w2", "w3"]


def test_another_beat_replaces_what_was_said(store):
    store.workers.beat(info("w1"), 30)
    store.workers.beat(info("w1", in_flight=9), 30)
    assert store.workers.list() == [info("w1", in_flight=9)]


def test_a_silent_worker_is_forgotten(store, clock, client):
    store.workers.beat(info("w1"), 30)
    store.workers.beat(info("w2"), 90)
    clock.advance(31, ttls=True)
    assert [worker.id for worker in store.workers.list()] == ["w2"]
    assert client.smembers(store.keys.workers()) == {b"w2"}


def test_a_worker_that_leaves_is_forgotten_at_once(store, client):
    store.workers.beat(info("w1"), 30)
    store.workers.leave("w1")
    assert store.workers.list() == []
    assert not client.exists(store.keys.workers())
    assert not client.exists(store.keys.worker("w1"))


def test_a_worker_may_leave_twice(store):
    store.workers.leave("never-heard-of")
    assert store.workers.list() == []


@pytest.mark.keeps_keys
def test_one_damaged_worker_does_not_hide_the_others(store, client):
    store.workers.beat(info("w1"), 30)
    store.workers.beat(info("w2"), 30)
    client.delete(store.keys.worker("w1"))
    client.set(store.keys.worker("w1"), "no hash")
    assert [worker.id for worker in store.workers.list()] == ["w2"]


def test_what_another_release_says_of_itself_does_not_hide_the_others(store, client):
    store.workers.beat(info("w1"), 30)
    store.workers.beat(info("w2"), 30)
    client.hset(store.keys.worker("w1"), "info", b'{"id": 5}')
    assert [worker.id for worker in store.workers.list()] == ["w2"]


# Types


def test_a_digest_stands_for_a_set_of_types_in_any_order(store):
    first = store.workers.announce(["default"], ["a", "b"])
    assert store.workers.announce(["default"], ["b", "a"]) == first
    assert store.workers.announce(["default"], ["a", "b", "c"]) != first
    assert store.workers.announce(["default"], ["a b"]) != first


def test_types_are_published_for_each_queue_and_expire(store, client):
    digest = store.workers.announce(["q1", "q2"], ["a", "b"])
    for queue in ("q1", "q2"):
        assert client.smembers(store.keys.types(queue, digest)) >= {b"a", b"b"}
        assert 290 < client.ttl(store.keys.types(queue, digest)) <= 300


def test_another_announcement_keeps_the_types(store, client, clock):
    digest = store.workers.announce(["default"], ["a"])
    clock.advance(200, ttls=True)
    store.workers.announce(["default"], ["a"])
    assert client.ttl(store.keys.types("default", digest)) > 290


def test_a_worker_without_types_can_announce_itself(store, client):
    digest = store.workers.announce(["default"], [])
    assert client.exists(store.keys.types("default", digest)) == 1


# The lock


def test_one_of_two_leads(store):
    assert store.workers.acquire_lock("one")
    assert not store.workers.acquire_lock("two")


def test_the_leader_stays_leader_by_asking_again(store, client):
    store.workers.acquire_lock("one", 5000)
    assert store.workers.acquire_lock("one", 60_000)
    assert client.pttl(store.keys.leader()) > 50_000


def test_another_leads_when_the_lock_has_lapsed(store, clock):
    store.workers.acquire_lock("one", 10_000)
    clock.advance(11, ttls=True)
    assert store.workers.acquire_lock("two")
    assert not store.workers.acquire_lock("one")


def test_a_released_lock_is_free(store):
    store.workers.acquire_lock("one")
    store.workers.release_lock("one")
    assert store.workers.acquire_lock("two")
    store.workers.release_lock("two")


def test_nobody_releases_another_ones_lock(store):
    store.workers.acquire_lock("one")
    store.workers.release_lock("two")
    assert not store.workers.acquire_lock("two")


def test_a_lock_always_lapses(store, client):
    store.workers.acquire_lock("one", 1234)
    assert 0 < client.pttl(store.keys.leader()) <= 1234


def test_the_time_is_that_of_redis(store, client):
    seconds, micros = client.time()
    assert 0 <= store.now_ms() - (seconds * 1000 + micros // 1000) < 1000

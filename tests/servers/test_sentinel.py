"""Sentinel: the address names the service, and the sentinels say where its primary is at the moment."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from dtq_engine.embedded import shipped_binary
from dtq_engine.errors import RedisUnavailable
from dtq_engine.model import Settled
from dtq_engine.store import Store
from tests.servers.sentinels import Watched, ask
from tests.store.hand import Hand
from tests.support.waiting import wait_until

StoreAt = Callable[..., Store]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    watched = Watched(tmp_path_factory.mktemp("sentinel"), shipped_binary())
    try:
        watched.start()
        yield watched
    finally:
        watched.stop()


def test_tasks_go_to_the_primary_of_the_service(watched: Watched, store_at: StoreAt):
    store = store_at(watched.url)
    hand = Hand(store)
    assert hand.end(hand.start("a")) is Settled.OK
    assert ask(watched.first.port, "EXISTS", store.keys.task("default", "a")) == 1


def test_a_wait_may_be_longer_than_a_reply_takes(watched: Watched, store_at: StoreAt):
    store = store_at(watched.url)
    assert store.connection.blpop([store.keys.wake("default")], 2.2) is None


def test_messages_are_heard(watched: Watched, store_at: StoreAt):
    store = store_at(watched.url)
    with store.connection.listen([store.keys.done_channel("p")]) as messages:
        store.connection.call("PUBLISH", store.keys.done_channel("p"), "x")
        assert messages.get(2) == (store.keys.done_channel("p"), b"x")


def test_a_service_that_no_sentinel_knows_is_unavailable(watched: Watched, store_at: StoreAt):
    with pytest.raises(RedisUnavailable, match="No master found"):
        store_at(watched.url.replace("prime", "other")).connection.ping()


def test_after_a_failover_the_work_goes_on_at_the_new_primary(watched: Watched, store_at: StoreAt):
    store = store_at(watched.url)
    hand = Hand(store)
    hand.submit("before")
    claim = hand.claim_one("before")
    record = store.keys.task("default", "before")
    wait_until(lambda: ask(watched.second.port, "HGET", record, "s") == "R", 5)
    started = time.monotonic()
    os.kill(watched.first.pid, signal.SIGKILL)
    assert wait_until(lambda: _answer(hand, claim), 20, 0.1) is Settled.OK
    assert time.monotonic() - started < 20
    assert hand.submit("after")[0].accepted
    assert hand.end(hand.claim_one("after")) is Settled.OK
    assert ask(watched.second.port, "ROLE")[0] == "master"


def _answer(hand: Hand, claim):
    try:
        return hand.end(claim)
    except RedisUnavailable:
        return None

"""The feed: every event once and in order, however connections, logs and numbering break."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import RedisUnavailable
from dtq_engine.model import NewTask
from dtq_engine.store import Store
from dtq_engine.store.events import Event
from dtq_engine.store.feed import LOOK_S, EventFeed, EventGap
from tests.store.hand import Hand
from tests.support.waiting import wait_until


@pytest.fixture
def feed(store: Store) -> Iterator[EventFeed]:
    """A feed that has begun."""
    feed = store.feed()
    feed.next(0)
    yield feed
    feed.close()


def follow(feed: EventFeed, many: int, told: list[object] | None = None) -> list[object]:
    """The next things told, waiting until there are that many: numbers of events, and gaps."""
    told = [] if told is None else told

    def enough() -> bool:
        told.extend(each.event_id if isinstance(each, Event) else each for each in feed.next(0.05))
        return len(told) >= many

    wait_until(enough, 10)
    return told


def go_on(feed: EventFeed) -> None:
    """Ask it again and again, for about ten seconds."""
    for _ in range(100):
        feed.next(0.1)


def test_it_tells_what_happens_from_its_beginning_on(hand, store):
    hand.submit("before")
    feed = store.feed()
    assert feed.next(0) == []
    hand.submit("a", "b")
    hand.end(hand.claim_one("before"))
    assert follow(feed, 4) == [2, 3, 4, 5]
    feed.close()


def test_a_queue_that_is_new_is_told_from_its_first_event(feed, store):
    for n in range(3):
        store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=f"new{n}")])
    assert follow(feed, 3) == [1, 1, 1]
    store.intake.submit([NewTask(id="later", type="mail", queue="new1")])
    assert follow(feed, 1) == [2]
    assert {queue: n for queue, n in feed.positions.items() if queue} == {"new0": 1, "new1": 2, "new2": 1}


def test_what_was_published_unheard_is_read_from_the_log(hand, store, feed, client, monkeypatch):
    hand.submit("a")
    assert follow(feed, 1) == [1]
    monkeypatch.setattr(feed._subscription, "get", lambda timeout_s: None)
    hand.submit("b", "c")
    began = time.monotonic()
    assert follow(feed, 2) == [2, 3]
    assert time.monotonic() - began < LOOK_S + 3


def test_a_missing_message_is_read_from_the_log_as_the_next_one_comes(hand, feed):
    hand.submit("a")
    follow(feed, 1)
    hand.submit("b", "c")
    assert feed._subscription is not None
    wait_until(lambda: feed._subscription.get(0.1))  # swallowed, as a lost one
    feed._look_at = float("inf")
    hand.submit("d")
    assert follow(feed, 3) == [2, 3, 4]


def test_an_outage_leaves_no_gap_and_nothing_twice(
    store_at: Callable[..., Store], own_server: EmbeddedValkey, settings
):
    store = store_at(own_server.url)
    hand, feed = Hand(store), store.feed()
    feed.next(0)
    hand.submit("a")
    told = follow(feed, 1)
    own_server.stop()
    with pytest.raises(RedisUnavailable):
        go_on(feed)
    with pytest.raises(RedisUnavailable):
        feed.next(0)
    own_server.start()
    hand.submit("b")
    hand.submit("c")
    follow(feed, 3, told)
    hand.submit("d")
    assert follow(feed, 4, told) == [1, 2, 3, 4]
    feed.close()


def test_a_frozen_server_is_noticed(store_at: Callable[..., Store], own_server: EmbeddedValkey):
    store = store_at(own_server.url)
    Hand(store).submit("a")
    feed = store.feed()
    feed.next(0)
    feed.next(0)
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(RedisUnavailable):
            go_on(feed)
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    feed.close()


def test_a_log_that_was_trimmed_meanwhile_leaves_one_gap(hand, store, feed, client):
    hand.submit("a")
    follow(feed, 1)
    feed.close()
    for n in range(5):
        hand.submit(f"t{n}")
    client.xtrim(store.keys.events("default"), minid="5-0", approximate=False)
    assert follow(feed, 3) == [EventGap("default", 1, 5), 5, 6]


def test_a_log_that_is_lost_leaves_a_gap_and_goes_on(hand, store, feed, client):
    hand.submit("a")
    follow(feed, 1)
    feed.close()
    hand.submit("b")
    client.delete(store.keys.events("default"))
    hand.submit("c")
    assert follow(feed, 2) == [EventGap("default", 1, 3), 3]


@pytest.mark.parametrize("closed", [True, False])
def test_numbers_that_begin_anew_leave_a_gap_and_go_on(hand, store, feed, client, closed):
    hand.submit("a", "b", "c")
    follow(feed, 3)
    time.sleep(0.002)  # in the same millisecond a number that comes back cannot be told from one that came twice
    if closed:
        feed.close()
    else:
        feed._look_at = float("inf")
    client.delete(store.keys.events("default"), store.keys.counters("default"))
    hand.submit("d")
    # While it is away nobody knows what of the new log is news.
    news = [] if closed else [1]
    assert follow(feed, 1 + len(news)) == [EventGap("default", 3, 2 if closed else 1), *news]
    hand.submit("e")
    assert follow(feed, 1) == [2]


def test_many_events_are_told_in_order(hand, feed):
    for n in range(30):
        hand.submit(*[f"t{n}-{k}" for k in range(20)])
    assert follow(feed, 600) == list(range(1, 601))


def test_a_feed_that_is_far_behind_catches_up_while_more_comes(hand, store, feed):
    hand.submit("a")
    follow(feed, 1)
    feed.close()
    told: list[object] = []
    for n in range(60):
        hand.submit(f"b{n}")
        told += [each.event_id for each in feed.next(0)]
    assert follow(feed, 60, told) == list(range(2, 62))


@pytest.mark.keeps_keys
def test_a_damaged_log_stops_no_other_queue(hand, store, feed, client):
    other = Hand(store, queue="other")
    hand.submit("a")
    follow(feed, 1)
    client.set(store.keys.events("default"), "no stream")
    other.submit("b")
    told = []
    wait_until(lambda: told.extend(feed.next(0.05)) or any(getattr(t, "task_id", "") == "b" for t in told))


@pytest.mark.keeps_keys
def test_a_damaged_list_of_queues_stops_none_that_is_known(hand, store, feed, client):
    hand.submit("a")
    follow(feed, 1)
    client.set(store.keys.queues(), "no set")
    feed._look_at = 0
    hand.submit("b")
    assert follow(feed, 1) == [2]
    feed.close()
    hand.submit("c")
    assert follow(feed, 1) == [3]


@pytest.mark.parametrize("message", [b"", b"x", b"5", b"5 x\n", b"9 9\nTASK", b"9 9\nA b c d e f", b"\xff\xfe\n\xff"])
def test_what_is_no_event_is_passed_over(hand, store, feed, client, message):
    hand.submit("a")
    follow(feed, 1)
    client.publish(store.keys.events_channel("default"), message)
    hand.submit("b")
    assert follow(feed, 1) == [2]


def test_without_any_queue_there_is_nothing_to_tell(feed):
    assert feed.next(0.01) == []
    assert feed.next(0.01) == []


# Replay


def read(store: Store, position: int) -> list[object]:
    replay = store.replay({"default": position})
    replay.aim(store.events.last(["default"]))
    told: list[object] = []
    while not replay.done:
        told += [each.event_id if isinstance(each, Event) else each for each in replay.read()]
    return told


@pytest.mark.parametrize("position", [0, 1, 2, 3, 100, 129])
def test_a_replay_tells_what_came_after_the_position_even_within_an_entry(hand, store, position):
    for n in range(26):
        hand.submit(*[f"t{n}-{k}" for k in range(5)])
    assert read(store, position) == list(range(position + 1, 131))


def test_a_replay_from_before_the_log_begins_with_one_gap(hand, store, client):
    for n in range(9):
        hand.submit(f"t{n}")
    client.xtrim(store.keys.events("default"), minid="6-0", approximate=False)
    assert read(store, 2) == [EventGap("default", 2, 6), 6, 7, 8, 9]
    assert read(store, 5) == [6, 7, 8, 9]


def test_a_position_beyond_the_log_is_set_back(hand, store):
    hand.submit("a")
    replay = store.replay({"default": 500})
    assert replay.rewind(store.events.last(["default"])) == [EventGap("default", 500, 2)]
    assert replay.positions == {"default": 1}


def test_queues_are_merged_by_time(store: Store, client: redis.Redis):
    for n in range(6):
        store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=f"q{n % 2}")])
        time.sleep(0.002)  # apart in time, which is the point
    replay = store.replay({})
    replay.aim(store.events.last(["q0", "q1"]))
    assert [each.task_id for each in replay.read() if isinstance(each, Event)] == [f"t{n}" for n in range(6)]

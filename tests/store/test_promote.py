"""Promoting: what is due becomes available, at its time and only if it still waits."""

import pytest
from msgspec.structs import replace

from dtq_engine.model import NewTask, Reschedule
from tests.store.hand import Hand, error, ids

both = pytest.mark.both_servers


@both
def test_a_due_task_becomes_available(hand, store, clock):
    hand.submit("a", delay_ms=5000)
    clock.advance(5)
    assert store.schedule.promote("default").moved == 1
    assert ids(hand.claim()) == ["a"]


def test_a_task_is_not_available_a_moment_before_it_is_due(hand, store, clock):
    hand.submit("a", delay_ms=60_000)
    clock.advance(59)
    assert store.schedule.promote("default").moved == 0
    assert hand.claim() == []


@both
def test_promoting_says_when_the_next_task_is_due(hand, store, clock):
    assert store.schedule.promote("default").next_due_in_ms is None
    hand.submit("late", delay_ms=60_000)
    hand.submit("early", delay_ms=5_000)
    assert 4_000 < store.schedule.promote("default").next_due_in_ms <= 5_000
    clock.advance(6)
    assert 53_000 < store.schedule.promote("default").next_due_in_ms <= 54_000


def test_the_next_due_time_counts_retries_and_blocked_tasks(hand, store):
    hand.submit("delayed", delay_ms=60_000)
    hand.end(hand.start("a"), Reschedule(error(), 30_000))
    assert 29_000 < store.schedule.promote("default").next_due_in_ms <= 30_000
    hand.submit("b", type="unknown")
    hand.claim()
    assert 0 < store.schedule.promote("default").next_due_in_ms <= 1000


@both
def test_due_tasks_start_in_the_order_of_their_due_times(hand, store, clock):
    for task_id, delay_ms in [("third", 3000), ("first", 1000), ("second", 2000)]:
        hand.submit(task_id, delay_ms=delay_ms)
    clock.advance(10)
    store.schedule.promote("default")
    assert ids(hand.claim()) == ["first", "second", "third"]


def test_a_promoted_task_goes_to_its_band(hand, store, clock):
    store.intake.submit([NewTask(id=f"t{n}", type="mail", priority=n, delay_ms=1000) for n in range(10)])
    clock.advance(2)
    store.schedule.promote("default")
    assert ids(hand.claim()) == [f"t{n}" for n in range(9, -1, -1)]


def test_at_most_a_hundred_move_in_one_call(hand, store, clock):
    hand.submit(*[f"t{n}" for n in range(150)], delay_ms=1000)
    clock.advance(2)
    promotions = [store.schedule.promote("default") for _ in range(3)]
    assert [each.moved for each in promotions] == [100, 50, 0]
    assert [each.next_due_in_ms for each in promotions] == [0, None, None]


@both
def test_a_due_retry_is_an_event_with_its_attempt(hand, store, clock):
    hand.end(hand.start("a"), Reschedule(error(), 1000))
    clock.advance(2)
    store.schedule.promote("default")
    event = store.events.tail("default", 1)[0]
    assert (event.type, event.task_id, event.attempt) == ("TASK_RETRIED", "a", 1)


@both
def test_a_delayed_task_that_waited_too_long_expires(hand, store, clock):
    hand.submit("a", delay_ms=1000, expires_in_ms=5000)
    clock.advance(6)
    assert store.schedule.promote("default").moved == 1
    assert hand.status("a") == "expired"


def test_a_retry_never_expires(hand, store, clock):
    hand.end(hand.start("a", expires_in_ms=5000), Reschedule(error(), 10_000))
    clock.advance(11)
    store.schedule.promote("default")
    assert ids(hand.claim()) == ["a"]


@pytest.mark.parametrize("schedule", ["schedule", "retry_schedule", "blocked"])
def test_a_member_whose_task_does_not_wait_there_is_only_dropped(hand, store, client, schedule):
    claim = hand.start("a")
    key = getattr(store.keys, schedule)("default")
    client.zadd(key, {"a": 1, "never-heard-of": 2})
    assert store.schedule.promote("default").moved == 2
    assert (hand.status("a"), client.exists(key)) == ("running", 0)
    assert hand.end(claim) == "OK"


def test_a_task_is_promoted_once_however_many_promote(hand, store, clock):
    hand.submit("a", delay_ms=1000)
    clock.advance(2)
    assert [store.schedule.promote("default").moved for _ in range(3)] == [1, 0, 0]
    assert len(hand.claim()) == 1


def test_a_queue_without_workers_is_promoted(store, clock):
    store.intake.submit([NewTask(id="a", type="mail", queue="lonely", delay_ms=1000)])
    clock.advance(2)
    assert store.schedule.promote("lonely").moved == 1


def test_a_clock_that_goes_back_promotes_nothing_early(hand, store, clock):
    hand.submit("a", delay_ms=1000)
    clock.advance(-3600)
    assert store.schedule.promote("default").moved == 0
    clock.advance(3602)
    assert store.schedule.promote("default").moved == 1


def test_a_queue_that_nobody_knows_has_nothing_due(store):
    assert store.schedule.promote("nobody").moved == 0


# Telling the scheduler


def tokens(client, store) -> int:
    key = store.keys.wake_schedule("default")
    count = client.llen(key)
    client.delete(key)
    return count


@both
def test_a_new_head_of_a_schedule_wakes_the_scheduler(hand, store, client):
    hand.submit("a", delay_ms=60_000)
    assert tokens(client, store) == 1


def test_a_task_behind_the_head_wakes_nobody(hand, store, client):
    hand.submit("a", delay_ms=60_000)
    tokens(client, store)
    hand.submit("b", delay_ms=120_000)
    assert tokens(client, store) == 0
    hand.submit("c", delay_ms=30_000)
    assert tokens(client, store) == 1


def test_a_retry_that_comes_first_wakes_the_scheduler(hand, store, client):
    claim = hand.start("a")
    tokens(client, store)
    hand.end(claim, Reschedule(error(), 1000))
    assert tokens(client, store) == 1


def test_a_second_hand_cannot_end_what_was_promoted(hand, store, clock):
    claim = hand.start("a")
    hand.end(claim, Reschedule(error(), 1000))
    clock.advance(2)
    store.schedule.promote("default")
    assert hand.end(replace(claim, token="x")) == "FENCED"
    assert Hand(store).end(claim) == "DUP"

"""Pausing, and wake-ups: each arrival wakes one worker, a paused queue nobody."""

import json

import pytest

from dtq_engine.model import NewTask, Release, Reschedule, Succeed
from tests.store.hand import Hand, error, ids

both = pytest.mark.both_servers


@pytest.fixture
def tokens(store, client):
    """How many wake-ups there are since the last look."""

    def count() -> int:
        waiting: int = client.llen(store.keys.wake("default"))
        client.delete(store.keys.wake("default"))
        return waiting

    return count


# Exactly one token


@both
def test_a_submit_wakes_one_worker_however_many_tasks_it_brings(hand, tokens):
    hand.submit(*"abcdefgh")
    assert tokens() == 1


def test_a_submit_of_nothing_new_wakes_nobody(hand, tokens):
    hand.submit("a")
    tokens()
    hand.submit("a")
    assert tokens() == 0


def test_a_delayed_task_wakes_nobody(hand, tokens):
    hand.submit("a", delay_ms=1000)
    assert tokens() == 0


def test_every_band_wakes(store, tokens):
    for priority in range(10):
        store.intake.submit([NewTask(id=f"t{priority}", type="mail", priority=priority)])
        assert tokens() == 1


@both
def test_a_promotion_wakes_one_worker(hand, store, clock, tokens):
    hand.submit(*"abc", delay_ms=1000)
    clock.advance(2)
    store.schedule.promote("default")
    assert tokens() == 1


def test_a_promotion_of_nothing_wakes_nobody(hand, store, tokens):
    hand.submit("a", delay_ms=1000)
    store.schedule.promote("default")
    assert tokens() == 0


@pytest.mark.parametrize(("end", "woken"), [(Release(), 1), (Reschedule(error(), 0), 1), (Succeed(None), 0)])
def test_an_end_that_makes_the_task_available_wakes_one_worker(hand, tokens, end, woken):
    claim = hand.start("a")
    tokens()
    hand.end(claim, end)
    assert tokens() == woken


def test_a_delayed_retry_wakes_nobody(hand, tokens):
    claim = hand.start("a")
    tokens()
    hand.end(claim, Reschedule(error(), 1000))
    assert tokens() == 0


@both
def test_a_claim_that_got_all_it_asked_for_passes_the_wake_up_on(hand, tokens):
    hand.submit("a", "b", "c")
    tokens()
    hand.claim(2)
    assert tokens() == 1


def test_a_claim_that_emptied_the_queue_wakes_nobody(hand, tokens):
    hand.submit("a", "b")
    tokens()
    hand.claim(3)
    assert tokens() == 0


def test_an_empty_claim_wakes_nobody(hand, tokens):
    hand.claim(1)
    assert tokens() == 0


def test_wake_ups_that_nobody_takes_are_bounded(hand, tokens):
    for n in range(70):
        hand.submit(f"t{n}")
    assert 30 <= tokens() <= 64


def test_an_unused_wake_up_can_be_given_back(store, tokens):
    store.leases.wake("default")
    assert tokens() == 1


@both
def test_a_waiting_worker_pops_the_wake_up(hand, store, conn):
    hand.submit("a")
    keys = [store.keys.wake("other"), store.keys.wake("default")]
    assert conn.blpop(keys, 1) == store.keys.wake("default")
    assert conn.pop(keys) is None


# Paused


def test_a_pause_says_who_why_and_since_when(store, client):
    before = store.now_ms()
    store.control.pause("default", actor="alice", reason="deploy")
    note = json.loads(client.get(store.keys.paused("default")))
    assert (note["by"], note["reason"]) == ("alice", "deploy")
    assert before <= note["since"] <= store.now_ms()
    assert (store.inspect.queue("default").paused, store.inspect.queue("default").pause_reason) == (True, "deploy")


@both
def test_a_paused_queue_accepts_tasks_and_wakes_nobody(hand, store, tokens):
    store.control.pause("default")
    hand.submit("a")
    assert tokens() == 0
    assert hand.status("a") == "queued"


def test_a_pause_takes_back_wake_ups(hand, store, tokens):
    hand.submit("a")
    store.control.pause("default")
    assert tokens() == 0


@pytest.mark.parametrize("end", [Release(), Reschedule(error(), 0)])
def test_what_comes_back_to_a_paused_queue_wakes_nobody(hand, store, tokens, end):
    claim = hand.start("a")
    store.control.pause("default")
    hand.end(claim, end)
    assert tokens() == 0


def test_a_promotion_in_a_paused_queue_wakes_nobody(hand, store, clock, tokens):
    hand.submit("a", delay_ms=1000)
    store.control.pause("default")
    clock.advance(2)
    assert store.schedule.promote("default").moved == 1
    assert tokens() == 0


def test_what_runs_in_a_paused_queue_can_end(hand, store):
    claim = hand.start("a")
    store.control.pause("default")
    assert store.leases.renew([claim]).lost == set()
    assert hand.end(claim) == "OK"


@both
def test_a_resume_wakes_one_worker(hand, store, tokens):
    store.control.pause("default")
    hand.submit("a", "b")
    store.control.resume("default")
    assert tokens() == 1
    assert ids(hand.claim()) == ["a", "b"]


def test_a_pause_ends_by_itself_after_its_time(hand, store, clock):
    hand.submit("a")
    store.control.pause("default", for_ms=60_000)
    assert hand.claim() == []
    clock.advance(61, ttls=True)
    assert ids(hand.claim()) == ["a"]


def test_a_pause_without_end_does_not_expire(store, client):
    store.control.pause("default", for_ms=60_000)
    store.control.pause("default")
    assert client.ttl(store.keys.paused("default")) == -1


def test_a_pause_is_one_queues_own(store):
    hands = [Hand(store, queue=queue) for queue in ("q1", "q2")]
    store.control.pause("q1")
    for hand in hands:
        hand.submit(f"in-{hand.queue}")
    assert [ids(hand.claim()) for hand in hands] == [[], ["in-q2"]]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_pause_and_resume_are_audited_and_act_once(store, verb):
    for _ in range(2):
        getattr(store.control, verb)("default", actor="alice", reason="deploy", request="r1")
    (entry,) = store.events.audit("default", 9)
    assert (entry.action, entry.target, entry.actor, entry.reason) == (verb, "default", "alice", "deploy")


def test_an_old_pause_sent_again_does_not_undo_a_resume(store):
    store.control.pause("default", request="r1")
    store.control.resume("default", request="r2")
    store.control.pause("default", request="r1")
    assert not store.inspect.queue("default").paused

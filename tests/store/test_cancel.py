"""Cancelling: at once while a task waits, by request while it runs, and never twice."""

import pytest

from dtq_engine.errors import NewerRecord, TaskNotFound
from dtq_engine.model import Block, CancelOutcome, DeadLetter, Postpone, Reschedule, Succeed, TaskStatus
from dtq_engine.store import Store
from tests.store.hand import Hand, error

both = pytest.mark.both_servers

CANCELLED, REQUESTED, FINISHED = CancelOutcome.CANCELLED, CancelOutcome.REQUESTED, CancelOutcome.FINISHED


def pending(hand: Hand) -> None:
    hand.submit("a", delay_ms=60_000)


def queued(hand: Hand) -> None:
    hand.submit("a")


def retrying(hand: Hand) -> None:
    hand.end(hand.start("a"), Reschedule(error(), 60_000))


def snoozed(hand: Hand) -> None:
    hand.end(hand.start("a"), Postpone(60_000))


def blocked(hand: Hand) -> None:
    hand.end(hand.start("a"), Block("no reason"))


waiting = pytest.mark.parametrize("bring", [pending, queued, retrying, snoozed, blocked])


@both
@waiting
def test_a_waiting_task_is_cancelled_at_once_with_no_worker_about(hand, store, bring):
    bring(hand)
    assert store.control.cancel("a", reason="not needed") is CANCELLED
    assert (hand.task("a").status, hand.task("a").reason) == (TaskStatus.CANCELLED, "not needed")


@waiting
@pytest.mark.drains
def test_a_cancelled_task_leaves_its_place(hand, store, client, bring):
    bring(hand)
    store.control.cancel("a")
    keys = store.keys
    waits = [keys.schedule("default"), keys.retry_schedule("default"), keys.blocked("default")]
    assert client.exists(*waits) == 0
    assert client.xlen(keys.stream("default", 5)) == 0
    assert hand.claim() == []


@waiting
def test_a_cancelled_task_is_finished(hand, store, bring):
    bring(hand)
    store.control.cancel("a")
    assert store.control.cancel("a") is FINISHED


@pytest.mark.parametrize("end", [Succeed(b"1"), DeadLetter(error(), "permanent")])
def test_a_task_that_has_ended_stays_as_it_ended(hand, store, end):
    hand.end(hand.start("a"), end)
    before = hand.task("a")
    assert store.control.cancel("a") is FINISHED
    assert hand.task("a") == before


@both
def test_a_running_task_is_asked_to_stop(hand, store):
    hand.start("a")
    assert store.control.cancel("a") is REQUESTED
    assert (hand.status("a"), hand.task("a").cancel_requested) == ("running", True)


@both
def test_the_worker_of_a_running_task_is_told(hand, store, conn):
    claim = hand.start("a")
    with conn.listen([store.keys.control_channel("w1")]) as messages:
        store.control.cancel("a")
        assert messages.get(2) == (store.keys.control_channel("w1"), f"cancel a {claim.token}".encode())


@both
@pytest.mark.parametrize("damage", [("HDEL", "w"), ("HDEL", "L"), ("HSET", "L", "unreadable"), ("HDEL", "w", "L")])
def test_a_running_task_of_which_nobody_knows_the_holder_is_asked_to_stop(hand, store, client, damage):
    hand.start("a")
    client.execute_command(damage[0], store.keys.task("default", "a"), *damage[1:])
    assert store.control.cancel("a") is REQUESTED
    assert hand.task("a").cancel_requested


def test_those_who_wait_for_the_end_are_told_of_a_cancel(hand, store, conn):
    hand.submit("a")
    store.leases.watch("a", "default", "p1")
    with conn.listen([store.keys.done_channel("p1")]) as messages:
        store.control.cancel("a")
        assert messages.get(2) == (store.keys.done_channel("p1"), b"a cancelled")


def test_a_task_that_does_not_exist_cannot_be_cancelled(hand, store):
    hand.submit("a")
    with pytest.raises(TaskNotFound):
        store.control.cancel("never-heard-of")
    with pytest.raises(TaskNotFound):
        store.control.cancel("never-heard-of", queue="default")


def test_a_task_is_found_in_whatever_queue_it_is(store):
    Hand(store, queue="q1").submit("a")
    Hand(store, queue="q2").submit("b")
    assert store.control.cancel("b") is CANCELLED


@both
def test_a_request_sent_again_answers_the_same_and_acts_once(hand, store):
    hand.submit("a")
    answers = [store.control.cancel("a", request="r1") for _ in range(2)]
    assert answers == [CANCELLED, CANCELLED]
    assert len(store.events.audit("default", 9)) == 1


def test_a_cancel_is_audited(hand, store):
    hand.submit("a")
    store.control.cancel("a", actor="alice", reason="by mistake", request="r1")
    (entry,) = store.events.audit("default", 9)
    assert (entry.action, entry.target, entry.actor, entry.reason, entry.request) == (
        "cancel",
        "a",
        "alice",
        "by mistake",
        "r1",
    )


def test_a_cancelled_task_is_counted_and_an_event(hand, store):
    hand.submit("a")
    store.control.cancel("a")
    assert store.inspect.counters("default")["mail"]["cancelled"] == 1
    assert store.events.tail("default", 1)[0].type == "TASK_CANCELLED"


def test_a_cancelled_tasks_key_answers_cancelled(hand, store):
    hand.submit("a", idempotency_key="k")
    store.control.cancel("a")
    assert hand.submit("b", idempotency_key="k")[0].status is TaskStatus.CANCELLED


def test_a_cancel_of_an_undecided_task_waits_for_the_reaper(hand, other, store, clock):
    hand.start("a")
    clock.advance(31)
    (taken,) = other.reclaim()
    assert store.control.cancel("a") is REQUESTED
    other.end(taken, Reschedule(error(), 0))
    assert hand.status("a") == "cancelled"


@pytest.mark.keeps_keys
def test_a_record_of_a_newer_release_is_left_alone(hand, store: Store, client):
    hand.submit("a")
    client.hset(store.keys.task("default", "a"), "v", 2)
    for verb in (store.control.cancel, store.control.requeue, store.control.discard):
        with pytest.raises(NewerRecord):
            verb("a")
    assert hand.status("a") == "queued"

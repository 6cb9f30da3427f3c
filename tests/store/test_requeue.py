"""Requeueing and discarding: an operator gives a task another life, or forgets it."""

from dataclasses import replace

import pytest

from dtq_engine.errors import IdempotencyConflict, InvalidTransition, TaskNotFound
from dtq_engine.model import Cancel, DeadLetter, Release, Reschedule, SubmitOutcome, Succeed, TaskStatus
from dtq_engine.store import Store
from tests.store.hand import Hand, error, ids

both = pytest.mark.both_servers

LONG = b'{"text":"' + b"x" * 100 + b'"}'


def dead(hand: Hand, **fields: object) -> None:
    """A dead letter with two failed attempts."""
    hand.end(hand.start("a", **fields), Reschedule(error("first"), 0))
    hand.end(hand.claim_one("a"), DeadLetter(error("second"), "max_attempts"))


def cancelled(hand: Hand) -> None:
    hand.end(hand.start("a"), Cancel(error()))


def expired(hand: Hand) -> None:
    hand.submit("a")
    hand.store.connection.client.hset(hand.store.keys.task("default", "a"), "z", 1)
    hand.claim()


def failed(hand: Hand) -> None:

    base = hand.store._base
    off = Store(base.connection, replace(base.settings, dlq_enabled=False))
    off.leases.finalize([(hand.start("a"), DeadLetter(error(), "max_attempts"))])


unsuccessful = pytest.mark.parametrize("bring", [dead, cancelled, expired, failed])


def test_without_dead_letters_a_task_that_gives_up_has_failed(hand, store):
    failed(hand)
    assert (hand.status("a"), hand.task("a").reason) == ("failed", "max_attempts")
    assert store.inspect.dead_letters().items == ()


@both
@unsuccessful
def test_a_task_that_ended_without_success_gets_a_new_life(hand, store, bring):
    bring(hand)
    store.control.requeue("a")
    assert hand.status("a") == "queued"
    assert hand.end(hand.claim_one("a"), Succeed(b"1")) == "OK"
    assert hand.status("a") == "succeeded"


@unsuccessful
def test_a_requeued_task_does_not_expire_with_its_former_life(hand, store, client, bring):
    bring(hand)
    assert client.ttl(store.keys.task("default", "a")) > 0
    store.control.requeue("a")
    assert client.ttl(store.keys.task("default", "a")) == -1


@unsuccessful
def test_a_requeued_task_leaves_index_and_dead_letters(hand, store, bring):
    bring(hand)
    store.control.requeue("a")
    stats = store.inspect.queue("default")
    assert (stats.dead_lettered, stats.cancelled, stats.expired, stats.failed, stats.waiting) == (0, 0, 0, 0, 1)
    assert store.inspect.dead_letters().items == ()


@both
def test_the_new_life_begins_with_attempt_one_and_keeps_the_history(hand, store):
    dead(hand, payload=LONG)
    store.control.requeue("a")
    claim = hand.claim_one("a")
    assert (claim.attempt, claim.restarts, claim.lease_expiries, claim.payload) == (1, 0, 0, LONG)
    assert [each.message for each in hand.task("a").errors] == ["first", "second"]
    assert hand.task("a").previous_attempts == 2


def test_attempts_of_all_former_lives_add_up(hand, store):
    dead(hand)
    for _ in range(2):
        store.control.requeue("a")
        hand.end(hand.claim_one("a"), DeadLetter(error(), "permanent"))
    assert (hand.task("a").previous_attempts, hand.task("a").attempt) == (3, 1)


def test_the_fence_goes_on_rising(hand, store):
    dead(hand)
    store.control.requeue("a")
    assert hand.claim_one("a").fence == 3


def test_what_belonged_to_the_former_life_is_cleared(hand, store):
    dead(hand, expires_in_ms=600_000)
    store.control.requeue("a")
    task = hand.task("a")
    assert (task.reason, task.finished_ms, task.started_ms, task.expires_ms, task.worker) == (None,) * 5
    assert (task.cancel_requested, task.result) == (False, None)


def test_a_cancel_request_of_the_former_life_is_cleared(hand, store):
    claim = hand.start("a")
    store.control.cancel("a")
    hand.end(claim, Release())
    store.control.requeue("a")
    again = hand.claim_one("a")
    assert not again.cancel_requested
    hand.end(again, Release())
    assert hand.status("a") == "queued"


def test_an_expiry_of_the_former_life_is_cleared(hand, store):
    expired(hand)
    store.control.requeue("a")
    assert ids(hand.claim()) == ["a"]


def test_satellites_live_on_with_the_requeued_task(hand, store, client):
    dead(hand, payload=LONG, headers={"h": "x" * 100})
    store.control.requeue("a")
    kept = [key for key in store.keys.satellites("default", "a") if client.exists(key)]
    assert len(kept) == 3
    assert [client.ttl(key) for key in kept] == [-1] * 3


def test_a_holder_of_the_former_life_cannot_end_the_new_one(hand, store):
    claim = hand.start("a")
    hand.end(claim, DeadLetter(error(), "permanent"))
    store.control.requeue("a")
    assert hand.end(claim) == "DUP"
    hand.claim_one("a")
    assert hand.end(claim) == "DUP"
    assert hand.status("a") == "running"


def test_a_requeue_wakes_a_worker(hand, store, client):
    dead(hand)
    client.delete(store.keys.wake("default"))
    store.control.requeue("a")
    assert client.llen(store.keys.wake("default")) == 1


def test_a_requeue_keeps_the_band(hand, store):
    hand.end(hand.start("a", priority=2), DeadLetter(error(), "permanent"))
    store.control.requeue("a")
    assert store.inspect.queue("default").waiting_by_priority == {2: 1}


# Idempotency


def test_a_requeued_task_holds_its_key_without_end(hand, store, client):
    dead(hand, idempotency_key="k")
    store.control.requeue("a")
    assert client.ttl(store.keys.idempotency("default", "k")) == -1
    assert hand.submit("b", idempotency_key="k")[0].status is TaskStatus.QUEUED


@both
def test_a_key_that_is_another_tasks_by_now_is_a_conflict(hand, store, clock):
    dead(hand, idempotency_key="k")
    clock.advance(86_401, ttls=True)
    hand.submit("b", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        store.control.requeue("a")
    assert (hand.status("a"), len(store.inspect.dead_letters().items)) == ("dead_lettered", 1)


@both
def test_a_key_that_has_expired_stands_for_the_requeued_task_again(hand, store, client):
    dead(hand, idempotency_key="k", payload=b'{"n":1}')
    client.delete(store.keys.idempotency("default", "k"))
    store.control.requeue("a")
    assert client.ttl(store.keys.idempotency("default", "k")) == -1
    for task_id, payload in (("b", b'{"n":1}'), ("c", b'{"n":2}')):
        (receipt,) = hand.submit(task_id, idempotency_key="k", payload=payload)
        assert (receipt.id, receipt.outcome) == ("a", SubmitOutcome.DUPLICATE)
    hand.end(hand.claim_one("a"))
    assert client.ttl(store.keys.idempotency("default", "k")) > 0
    assert hand.submit("d", idempotency_key="k")[0].status is TaskStatus.SUCCEEDED


# Refused


@pytest.mark.parametrize("verb", ["requeue", "discard"])
def test_a_living_or_successful_task_is_refused_with_its_status(hand, store, verb):
    hand.submit("queued")
    hand.submit("pending", delay_ms=9000)
    hand.end(hand.start("succeeded", priority=9))
    hand.end(hand.start("retrying", priority=9), Reschedule(error(), 9000))
    hand.start("running", priority=9)
    for task_id in ("queued", "pending", "succeeded", "retrying", "running"):
        with pytest.raises(InvalidTransition, match=f"is {task_id}: only one"):
            getattr(store.control, verb)(task_id)
        assert hand.status(task_id) == task_id


@pytest.mark.parametrize("verb", ["requeue", "discard"])
def test_a_task_that_does_not_exist_is_not_found(hand, store, verb):
    hand.submit("a")
    with pytest.raises(TaskNotFound):
        getattr(store.control, verb)("never-heard-of")
    with pytest.raises(TaskNotFound):
        getattr(store.control, verb)("never-heard-of", queue="default")


# Discard


@both
@unsuccessful
def test_a_discarded_task_is_gone_with_all_its_keys(hand, store, client, bring):
    bring(hand)
    store.control.discard("a")
    assert client.exists(store.keys.task("default", "a"), *store.keys.satellites("default", "a")) == 0
    assert store.inspect.dead_letters().items == ()
    assert store.inspect.tasks().items == ()


def test_a_discarded_tasks_key_still_absorbs_late_duplicates(hand, store):
    dead(hand, idempotency_key="k")
    store.control.discard("a")
    assert hand.submit("b", idempotency_key="k")[0].status is TaskStatus.DEAD_LETTERED


@pytest.mark.parametrize(("verb", "counter"), [("requeue", "requeued"), ("discard", "discarded")])
def test_the_verb_is_audited_and_counted(hand, store, verb, counter):
    dead(hand)
    getattr(store.control, verb)("a", actor="alice", reason="fixed", request="r1")
    (entry,) = store.events.audit("default", 9)
    assert (entry.action, entry.target, entry.actor, entry.reason, entry.request) == (verb, "a", "alice", "fixed", "r1")
    assert store.inspect.counters("default")["mail"][counter] == 1


@pytest.mark.parametrize("verb", ["requeue", "discard"])
def test_a_request_sent_again_acts_once(hand, store, verb):
    dead(hand)
    for _ in range(2):
        getattr(store.control, verb)("a", request="r1")
    assert len(store.events.audit("default", 9)) == 1


def test_another_request_is_judged_anew(hand, store):
    dead(hand)
    store.control.requeue("a", request="r1")
    with pytest.raises(InvalidTransition):
        store.control.requeue("a", request="r2")

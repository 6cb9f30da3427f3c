"""Finalizing: every execution ends once, by its holder, in one step."""

import pytest
from msgspec.structs import replace

from dtq_engine.model import (
    Block,
    Cancel,
    DeadLetter,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    Settled,
    Succeed,
    TaskStatus,
    Transition,
)
from tests.store.hand import Hand, error, ids

both = pytest.mark.both_servers

OK, DUP, FENCED, GONE = Settled.OK, Settled.DUP, Settled.FENCED, Settled.GONE

EVERY_WAY: list[tuple[Transition, TaskStatus]] = [
    (Succeed(b'"fine"'), TaskStatus.SUCCEEDED),
    (Reschedule(error(), 60_000), TaskStatus.RETRYING),
    (Reschedule(error(), 0), TaskStatus.QUEUED),
    (DeadLetter(error(), "max_attempts"), TaskStatus.DEAD_LETTERED),
    (Cancel(error()), TaskStatus.CANCELLED),
    (Release(), TaskStatus.QUEUED),
    (Postpone(60_000), TaskStatus.RETRYING),
    (Postpone(0), TaskStatus.QUEUED),
    (Block("a reason"), TaskStatus.BLOCKED),
]
every_way = pytest.mark.parametrize(("transition", "status"), EVERY_WAY)


@both
@every_way
def test_every_end_of_an_execution_leads_to_its_status(hand, transition, status):
    assert hand.end(hand.start("a"), transition) is OK
    assert hand.task("a").status is status


@every_way
def test_the_delivery_is_gone_with_the_execution(hand, store, client, transition, status):
    hand.end(hand.start("a"), transition)
    waits = status is TaskStatus.QUEUED
    assert client.xlen(store.keys.stream("default", 5)) == int(waits)
    assert client.xpending(store.keys.stream("default", 5), "workers")["pending"] == 0


@both
@every_way
def test_what_was_recorded_answers_dup_when_sent_again(hand, transition, status):
    claim = hand.start("a")
    hand.end(claim, transition)
    assert hand.end(claim, transition) is DUP
    assert hand.task("a").status is status


@every_way
def test_a_holder_that_lost_its_task_is_fenced(hand, other, clock, transition, status):
    claim = hand.start("a")
    clock.advance(31)
    other.reclaim()
    assert hand.end(claim, transition) is FENCED
    assert hand.status("a") == "running"


@both
def test_a_fenced_result_is_an_event_and_no_result(hand, other, store, clock):
    claim = hand.start("a")
    clock.advance(31)
    (taken,) = other.reclaim()
    hand.end(claim, Succeed(b'"late"'))
    assert store.events.tail("default", 1)[0].type == "TASK_FENCED"
    other.end(taken, Succeed(b'"kept"'))
    assert hand.task("a").result == b'"kept"'


def test_a_recorded_end_answers_dup_even_when_the_task_runs_again(hand):
    claim = hand.start("a")
    hand.end(claim, Reschedule(error(), 0))
    again = hand.claim_one("a")
    assert hand.end(claim, Reschedule(error(), 0)) is DUP
    assert hand.end(again) is OK


def test_the_holder_before_the_last_one_is_fenced(hand):
    first = hand.start("a")
    hand.end(first, Release())
    hand.end(hand.claim_one("a"), Release())
    hand.claim_one("a")
    assert hand.end(first) is FENCED


@both
def test_a_task_that_is_gone_answers_gone(hand, client, store):
    claim = hand.start("a")
    client.delete(store.keys.task("default", "a"))
    assert hand.end(claim) is GONE
    hand.reclaim()


def test_an_invented_token_is_fenced(hand):
    claim = hand.start("a")
    assert hand.end(replace(claim, token="")) is FENCED
    assert hand.end(replace(claim, token="x")) is FENCED


def test_nobody_ends_a_task_that_does_not_run(hand):
    claim = hand.start("a")
    hand.end(claim, Release())
    assert hand.end(replace(claim, token="")) is FENCED
    assert hand.status("a") == "queued"


# Batches


def test_a_batch_is_answered_item_by_item_in_order(hand, other, clock):
    hand.submit("a", "b", "c", "d")
    claims = hand.claim()
    hand.end(claims[3])
    clock.advance(31)
    other.reclaim()
    alien = replace(claims[0], task_id="never-heard-of")
    fresh = hand.start("e")
    assert hand.end_all([claims[0], alien, fresh, claims[3]]) == [FENCED, GONE, OK, DUP]


@both
def test_the_same_execution_twice_in_a_batch_counts_once(hand):
    claim = hand.start("a")
    answers = hand.store.leases.finalize([(claim, Succeed(b"1")), (claim, DeadLetter(error(), "max_attempts"))])
    assert answers == [OK, DUP]
    assert (hand.status("a"), hand.task("a").result) == ("succeeded", b"1")


def test_a_batch_may_mix_queues_bands_and_ends(store):
    hands = {queue: Hand(store, queue=queue) for queue in ("q1", "q2")}
    names = [f"t{n}" for n in range(len(EVERY_WAY) * 2)]
    store.intake.submit(
        [NewTask(id=name, type="mail", queue=f"q{n % 2 + 1}", priority=n % 10) for n, name in enumerate(names)]
    )
    claims = sorted(
        (claim for each in hands.values() for claim in each.claim()), key=lambda claim: int(claim.task_id[1:])
    )
    ends = [EVERY_WAY[n // 2] for n in range(len(claims))]
    answers = store.leases.finalize([(claim, end[0]) for claim, end in zip(claims, ends, strict=True)])
    assert set(answers) == {OK}
    assert [task and task.status for task in store.inspect.find(names)] == [status for _, status in ends]


def test_more_than_a_hundred_are_ended_in_one_call(hand):
    hand.submit(*[f"t{n}" for n in range(130)])
    claims = hand.claim() + hand.claim()
    assert hand.end_all(claims) == [OK] * 130


def test_ending_nothing_answers_nothing(store):
    assert store.leases.finalize([]) == []


@pytest.mark.parametrize("end", [lambda e: Reschedule(e, 0), Cancel, lambda e: DeadLetter(e, "permanent")])
def test_an_error_type_of_any_length_is_cut(hand, store, end):
    hand.end(hand.start("a"), end(error(type="é" * 100_000)))
    (kept,) = hand.task("a").errors
    assert kept.type == "é" * 200
    assert all(len(event.detail or "") <= 200 for event in store.events.tail("default", 9))


# Retries


def test_a_rescheduled_task_waits_for_its_delay(hand, store, clock):
    hand.end(hand.start("a"), Reschedule(error(), 5000))
    assert hand.claim() == []
    assert 4000 < store.schedule.promote("default").next_due_in_ms <= 5000
    clock.advance(5)
    store.schedule.promote("default")
    assert ids(hand.claim()) == ["a"]


def test_a_delay_of_zero_is_at_once_with_nobodys_help(hand):
    hand.end(hand.start("a"), Reschedule(error(), 0))
    assert hand.claim_one("a").attempt == 2


def test_a_retry_counts_the_attempt(hand):
    hand.end(hand.start("a"), Reschedule(error(), 0))
    assert hand.task("a").attempt == 1


@pytest.mark.parametrize("transition", [Release(), Postpone(0), Block("a reason")])
def test_giving_back_does_not_count_the_attempt(hand, transition):
    hand.end(hand.start("a"), Reschedule(error(), 0))
    hand.end(hand.claim_one("a"), transition)
    assert hand.task("a").attempt == 1


def test_a_retried_task_keeps_its_band(hand, store, client):
    hand.end(hand.start("a", priority=8), Reschedule(error(), 0))
    assert client.xlen(store.keys.stream("default", 8)) == 1


@both
def test_releases_add_up_until_an_outcome_is_recorded(hand):
    hand.submit("a")
    for _ in range(3):
        hand.end(hand.claim_one("a"), Release())
    assert hand.claim_one("a").restarts == 3


@pytest.mark.parametrize("transition", [Reschedule(error(), 0), Postpone(0)])
def test_a_recorded_outcome_forgets_the_restarts(hand, transition):
    hand.end(hand.start("a"), Release())
    hand.end(hand.claim_one("a"), transition)
    assert hand.task("a").restarts == 0


# Cancelled meanwhile


@every_way
def test_after_a_cancel_request_all_but_a_success_is_cancelled(hand, store, transition, status):
    claim = hand.start("a")
    store.control.cancel("a")
    assert hand.end(claim, transition) is OK
    expected = status if status is TaskStatus.SUCCEEDED else TaskStatus.CANCELLED
    assert hand.task("a").status is expected


@both
def test_a_success_after_a_cancel_request_says_that_it_came_too_late(hand, store):
    claim = hand.start("a")
    store.control.cancel("a")
    hand.end(claim)
    event = store.events.tail("default", 1)[0]
    assert (event.type, event.detail) == ("TASK_SUCCEEDED", "cancel_came_too_late")


def test_a_reapers_decision_on_a_cancelled_task_cancels_it(hand, other, store, clock):
    hand.start("a")
    store.control.cancel("a")
    clock.advance(31)
    (taken,) = other.reclaim()
    assert taken.cancel_requested
    other.end(taken, Reschedule(error(), 1000))
    assert hand.status("a") == "cancelled"

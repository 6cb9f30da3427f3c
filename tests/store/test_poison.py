"""Tasks that take their workers down, or are never finished: the store counts, the policy gives up."""

from dtq_engine.model import AskedSnooze, LeaseExpired, ShutDown
from dtq_engine.policy import decide
from tests.store.hand import error, ids


def test_a_task_that_loses_three_workers_is_a_dead_letter(hand, other, clock):
    hand.submit("a")
    for _ in range(3):
        hand.claim_one("a")
        clock.advance(31)
        (taken,) = other.reclaim()
        other.end(taken, decide(taken, LeaseExpired(error(), delay_ms=0), luck=0, max_lease_expiries=3))
    assert (hand.status("a"), hand.task("a").reason) == ("dead_lettered", "worker_lost")


def test_tasks_beside_one_that_kills_its_worker_share_its_lost_workers(hand, other, clock):
    hand.submit("killer", "beside")
    for lost in range(1, 4):
        assert ids(hand.claim()) == ["killer", "beside"]
        clock.advance(31)
        for taken in other.reclaim():
            assert taken.lease_expiries == lost
            other.end(taken, decide(taken, LeaseExpired(error(), delay_ms=0), luck=0, max_lease_expiries=3))
    assert [hand.task(each).reason for each in ("killer", "beside")] == ["worker_lost", "worker_lost"]


def test_a_task_that_is_given_back_again_and_again_is_a_dead_letter(hand):
    claim = hand.start("a")
    while (
        hand.end(claim, decide(claim, ShutDown(error()), luck=0, max_lease_expiries=3)) and hand.status("a") == "queued"
    ):
        claim = hand.claim_one("a")
    assert (claim.restarts, hand.status("a"), hand.task("a").reason) == (20, "dead_lettered", "restart_loop")


def test_a_task_that_snoozes_for_a_day_is_no_poison(hand):
    claim = hand.start("a")
    for _ in range(30):
        hand.end(claim, decide(claim, AskedSnooze(0), luck=0, max_lease_expiries=3))
        claim = hand.claim_one("a")
    assert (claim.attempt, claim.restarts) == (1, 0)

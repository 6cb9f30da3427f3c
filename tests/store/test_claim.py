"""Claiming: who gets what, in which order, and never twice."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from dtq_engine.ids import new_token
from dtq_engine.model import ClaimStatus, NewTask, Release, TaskStatus
from dtq_engine.store import Store
from tests.store.hand import Hand, ids

both = pytest.mark.both_servers


def idle_ms(client, store: Store, priority: int = 5) -> dict[str, int]:
    """How long each pending delivery of a band has been idle, by its holder."""
    pending = client.xpending_range(store.keys.stream("default", priority), "workers", "-", "+", 100)
    return {each["consumer"].decode(): each["time_since_delivered"] for each in pending}


@both
def test_the_most_urgent_come_first_and_the_oldest_first_within_a_priority(hand, store):
    priorities = [n % 10 for n in range(40)]
    random.Random(1).shuffle(priorities)
    store.intake.submit([NewTask(id=f"t{n:02}", type="mail", priority=p) for n, p in enumerate(priorities)])
    expected = sorted(range(40), key=lambda n: (-priorities[n], n))
    assert ids(hand.claim()) == [f"t{n:02}" for n in expected]


def test_the_order_holds_over_claims_one_by_one(hand):
    for task_id, priority in [("low", 0), ("old", 5), ("new", 5), ("urgent", 9)]:
        hand.submit(task_id, priority=priority)
    assert [hand.claim_one().task_id for _ in range(4)] == ["urgent", "old", "new", "low"]


@pytest.mark.parametrize("limit", [1, 7, 29])
def test_a_claim_is_never_larger_than_its_limit_over_all_bands(hand, store, limit):
    store.intake.submit([NewTask(id=f"t{n}", type="mail", priority=n % 10) for n in range(30)])
    assert len(hand.claim(limit)) == limit
    assert store.inspect.queue("default").running == limit


def test_a_claim_takes_at_most_a_hundred(hand):
    hand.submit(*[f"t{n}" for n in range(120)])
    assert len(hand.claim(1000)) == 100


def test_an_empty_queue_answers_empty(hand):
    hand.end(hand.start("a"))
    assert hand.ask().status is ClaimStatus.EMPTY


@both
def test_a_claim_carries_all_that_running_a_task_needs(hand, store):
    given = NewTask(
        id="a",
        type="mail",
        payload=b'{"n":1}',
        priority=7,
        timeout_ms=5000,
        headers={"h": "1"},
        keep_result=False,
        restartable=True,
    )
    store.intake.submit([given])
    claim = hand.claim_one()
    assert (claim.task_id, claim.queue, claim.type, claim.payload) == ("a", "default", "mail", b'{"n":1}')
    assert (claim.priority, claim.timeout_ms, claim.headers, claim.retry) == (7, 5000, {"h": "1"}, given.retry)
    assert (claim.keep_result, claim.restartable, claim.cancel_requested) == (False, True, False)
    assert (claim.attempt, claim.fence, claim.worker, claim.lease_ms) == (1, 1, "w1", 30_000)
    assert claim.deadline_ms == claim.started_ms + 5000


def test_a_claimed_task_runs(hand):
    claim = hand.start("a")
    task = hand.task("a")
    assert (task.status, task.attempt, task.worker) == (TaskStatus.RUNNING, 1, "w1")
    assert (task.started_ms, task.deadline_ms) == (claim.started_ms, claim.deadline_ms)


def test_a_claimed_task_is_nobody_elses(hand, other):
    hand.start("a")
    assert other.claim() == []


def test_claimers_at_once_share_the_tasks_without_a_double(store, hand):
    hand.submit(*[f"t{n}" for n in range(100)])
    hands = [Hand(store, f"w{n}") for n in range(8)]

    def claim_all(each: Hand) -> list[str]:
        found: list[str] = []
        while part := each.claim(7):
            found += ids(part)
        return found

    with ThreadPoolExecutor(8) as pool:
        claimed = [task_id for part in pool.map(claim_all, hands) for task_id in part]
    assert sorted(claimed) == sorted(f"t{n}" for n in range(100))


def test_an_unregistered_queue_is_registered_by_a_claim(hand, store):
    assert hand.ask().status is ClaimStatus.EMPTY
    assert store.inspect.queues() == ["default"]


@both
def test_a_paused_queue_gives_nothing(hand, store):
    hand.submit("a")
    store.control.pause("default")
    assert hand.ask() == hand.ask()
    assert hand.ask().status is ClaimStatus.PAUSED
    assert hand.status("a") == "queued"


@both
def test_without_a_published_type_set_nothing_is_claimed(hand, store):
    hand.submit("a")
    reply = store.leases.claim("default", worker="w1", token=new_token(), limit=1, types_digest="unheard-of")
    assert (reply.status, reply.claims) == (ClaimStatus.TYPES, ())
    assert hand.status("a") == "queued"


def test_a_type_set_lapses_and_can_be_published_again(hand, clock):
    hand.submit("a")
    clock.advance(301, ttls=True)
    assert hand.ask().status is ClaimStatus.TYPES
    hand.store.workers.announce(["default"], ["mail"])
    assert ids(hand.claim()) == ["a"]


# Sent again


@both
def test_a_claim_sent_again_answers_with_the_same_executions(hand):
    hand.submit("a", "b", "c")
    token = new_token()
    first = hand.claim(2, token)
    assert hand.claim(2, token) == first
    assert [hand.task(task_id).attempt for task_id in "abc"] == [1, 1, 0]


def test_a_claim_sent_again_leaves_out_what_has_ended_meanwhile(hand):
    hand.submit("a", "b")
    token = new_token()
    hand.end(hand.claim(2, token)[0])
    assert ids(hand.claim(2, token)) == ["b"]


def test_a_claim_sent_again_leaves_out_what_a_reaper_took(hand, other, clock):
    token = new_token()
    hand.submit("a")
    hand.claim(1, token)
    clock.advance(31)
    other.reclaim()
    assert hand.claim(1, token) == []


@both
def test_a_claim_sent_again_renews_its_leases(hand, client, store, clock):
    token = new_token()
    hand.submit("a")
    hand.claim(1, token)
    clock.advance(20)
    hand.claim(1, token)
    assert idle_ms(client, store)["w1"] < 10_000


def test_another_token_is_another_claim(hand):
    hand.submit("a", "b")
    assert ids(hand.claim(1)) + ids(hand.claim(1)) == ["a", "b"]


def test_each_claim_raises_the_fence(hand):
    hand.submit("a")
    fences = []
    for _ in range(3):
        claim = hand.claim_one()
        fences.append(claim.fence)
        hand.end(claim, Release())
    assert fences == [1, 2, 3]


# Expiry


@both
def test_a_task_that_waited_too_long_expires_instead_of_starting(hand, clock):
    hand.submit("a", expires_in_ms=5000)
    clock.advance(5.1)
    assert hand.ask().status is ClaimStatus.EMPTY
    assert (hand.status("a"), hand.task("a").attempt) == ("expired", 0)


def test_a_task_may_start_until_it_expires(hand, clock):
    hand.submit("a", expires_in_ms=60_000)
    clock.advance(50)
    assert ids(hand.claim()) == ["a"]


def test_a_task_that_was_started_once_never_expires(hand, clock):
    hand.end(hand.start("a", expires_in_ms=5000), Release())
    clock.advance(60)
    assert ids(hand.claim()) == ["a"]


def test_expired_tasks_do_not_count_against_the_limit(hand, clock):
    hand.submit(*"abc", expires_in_ms=1000)
    clock.advance(2)
    hand.submit("d")
    assert ids(hand.claim(1)) == ["d"]

"""Renewing: a worker keeps the leases that are still its own, and learns of the others."""

import pytest
from msgspec.structs import replace

from dtq_engine.model import NewTask, Renewal
from dtq_engine.store import Store
from tests.store.hand import Hand, ids

both = pytest.mark.both_servers

KEPT = Renewal()


@pytest.fixture
def stream(store: Store) -> str:
    return store.keys.stream("default", 5)


def pending(client, stream: str) -> list[bytes]:
    return [each["message_id"] for each in client.xpending_range(stream, "workers", "-", "+", 100)]


@both
def test_a_renewed_lease_does_not_expire(hand, other, store, clock):
    claim = hand.start("a")
    for _ in range(4):
        clock.advance(20)
        assert store.leases.renew([claim]) == KEPT
    assert other.reclaim() == []
    assert hand.end(claim) == "OK"


def test_renewing_nothing_is_nothing(store):
    assert store.leases.renew([]) == KEPT


def test_many_leases_of_several_queues_are_renewed_at_once(store, clock):
    hands = [Hand(store, queue=queue) for queue in ("q1", "q2")]
    store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=f"q{n % 2 + 1}", priority=n % 10) for n in range(240)])
    claims = [claim for hand in hands for _ in range(2) for claim in hand.claim()]
    clock.advance(20)
    assert store.leases.renew(claims) == KEPT
    clock.advance(20)
    assert [hand.reclaim() for hand in hands] == [[], []]
    assert set(Hand(store, queue="q1").end_all(claims)) == {"OK"}


# Lost


def test_the_lease_of_a_finished_task_is_lost(hand, store):
    claim = hand.start("a")
    hand.end(claim)
    assert store.leases.renew([claim]).lost == {claim.key}


@both
def test_a_reclaimed_lease_is_lost(hand, other, store, clock):
    claim = hand.start("a")
    clock.advance(31)
    other.reclaim()
    assert store.leases.renew([claim]).lost == {claim.key}


def test_the_lease_of_a_task_that_is_gone_is_lost(hand, store):
    claim = replace(hand.start("a"), task_id="never-heard-of")
    assert store.leases.renew([claim]).lost == {claim.key}


def test_a_lease_under_another_token_is_lost(hand, store):
    claim = replace(hand.start("a"), token="another")
    assert store.leases.renew([claim]).lost == {claim.key}


def test_one_lost_lease_does_not_cost_the_others_theirs(hand, other, store, clock):
    hand.submit("a", "b", "c")
    claims = hand.claim()
    hand.end(claims[1])
    clock.advance(20)
    assert store.leases.renew(claims).lost == {claims[1].key}
    clock.advance(20)
    assert other.reclaim() == []


def test_a_lost_lease_is_not_renewed_for_its_new_holder(hand, other, store, clock):
    claim = hand.start("a")
    clock.advance(31)
    other.reclaim()
    clock.advance(9)
    store.leases.renew([claim])
    clock.advance(2)
    assert ids(hand.reclaim()) == ["a"]


# Cancel requests and deadlines


@both
def test_a_cancel_request_is_carried_back(hand, store):
    hand.submit("a", "b")
    claims = hand.claim()
    store.control.cancel("b")
    assert store.leases.renew(claims) == Renewal(cancel=frozenset({claims[1].key}))


def test_a_lease_is_kept_up_to_one_lease_beyond_the_deadline(hand, store, clock):
    claim = hand.start("a", timeout_ms=10_000)
    clock.advance(25)
    assert store.leases.renew([claim]) == KEPT


def test_a_lease_is_refused_beyond_deadline_and_lease(hand, store, clock):
    claim = hand.start("a", timeout_ms=10_000)
    clock.advance(25)
    store.leases.renew([claim])
    clock.advance(16)
    assert store.leases.renew([claim]).lost == {claim.key}


@both
def test_an_overdue_execution_keeps_its_lease(hand, other, store, clock):
    claim = hand.start("a", timeout_ms=10_000)
    for _ in range(5):
        clock.advance(20)
        assert store.leases.renew([claim], overdue={claim.key}) == KEPT
    assert other.reclaim() == []


def test_overdue_is_said_of_one_execution_only(hand, store, clock):
    hand.submit("a", "b", timeout_ms=1000)
    first, second = hand.claim()
    clock.advance(29)
    store.leases.renew([first, second])
    clock.advance(3)
    assert store.leases.renew([first, second], overdue=[first.key]).lost == {second.key}


HOUR_MS = 3_600_000


@both
@pytest.mark.parametrize("set_ms", [HOUR_MS, -HOUR_MS, 48 * HOUR_MS])
def test_a_clock_that_is_set_takes_no_execution_from_a_worker_that_knows_how_long_it_has_run(
    hand, store, client, set_ms
):
    claim = hand.start("a", timeout_ms=10_000)
    client.set(store.keys.clock("default"), set_ms)
    assert store.leases.renew([claim], ran_ms={claim.key: 500}) == KEPT
    assert store.leases.renew([claim], ran_ms={claim.key: 40_000}) == KEPT
    assert store.leases.renew([claim], ran_ms={claim.key: 40_001}).lost == {claim.key}
    assert hand.end(claim) == "OK"


@pytest.mark.parametrize("ran_ms", [10**18, -5])
def test_how_long_an_execution_has_run_may_be_any_number(hand, store, ran_ms):
    claim = hand.start("a")
    assert (claim.key in store.leases.renew([claim], ran_ms={claim.key: ran_ms}).lost) is (ran_ms > 0)


# What is missing is restored


@both
def test_a_missing_pending_entry_is_restored(hand, other, store, client, stream):
    claim = hand.start("a")
    client.xack(stream, "workers", claim.entry)
    assert store.leases.renew([claim]) == KEPT
    assert pending(client, stream) == [claim.entry.encode()]
    assert other.claim() == []
    assert hand.end(claim) == "OK"


@both
@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_deleted_entry_is_restored_under_the_same_token(hand, other, store, client, stream, acknowledged):
    claim = hand.start("a")
    if acknowledged:
        client.xack(stream, "workers", claim.entry)
    client.xdel(stream, claim.entry)
    assert store.leases.renew([claim]) == KEPT
    assert len(pending(client, stream)) == client.xlen(stream) == 1
    assert other.claim() == []
    assert hand.end(claim) == "OK"


@both
def test_a_deleted_stream_is_restored(hand, other, store, client, stream):
    claim = hand.start("a")
    client.delete(stream)
    assert store.leases.renew([claim]) == KEPT
    assert other.claim() == []
    assert hand.end(claim) == "OK"
    assert (client.xlen(stream), pending(client, stream)) == (0, [])


def test_a_lost_group_is_restored_and_hides_no_waiting_task(hand, other, store, client, stream):
    hand.submit("a", "b")
    claim = hand.claim_one("a")
    client.xgroup_destroy(stream, "workers")
    assert store.leases.renew([claim]) == KEPT
    assert ids(other.claim()) == ["b"]
    assert hand.end(claim) == "OK"


def test_a_restored_lease_expires_like_any_other(hand, other, store, client, stream, clock):
    claim = hand.start("a")
    client.delete(stream)
    store.leases.renew([claim])
    clock.advance(29)
    assert other.reclaim() == []
    clock.advance(2)
    assert ids(other.reclaim()) == ["a"]


@pytest.mark.keeps_keys
def test_of_two_missing_entries_both_are_restored(hand, store, client, stream):
    hand.submit("a", "b", "c")
    claims = hand.claim()
    client.xack(stream, "workers", claims[0].entry, claims[2].entry)
    assert store.leases.renew(claims) == KEPT
    assert pending(client, stream) == [claim.entry.encode() for claim in claims]


@pytest.mark.keeps_keys
def test_a_stream_that_takes_no_more_entries_costs_no_neighbour_its_lease(hand, other, store, client, stream, clock):
    hand.submit("a", "b")
    claims = hand.claim()
    client.execute_command("XSETID", stream, "18446744073709551615-18446744073709551615")
    client.xdel(stream, claims[0].entry)
    clock.advance(20)
    assert store.leases.renew(claims) == KEPT
    clock.advance(20)
    assert other.reclaim() == []
    assert hand.end_all(claims) == ["OK", "OK"]

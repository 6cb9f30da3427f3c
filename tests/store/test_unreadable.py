"""Records whose state nobody can read: none vanishes, each ends as undecodable, and no neighbour waits for it."""

from collections.abc import Callable

import pytest

from dtq_engine.model import Succeed
from tests.store.hand import ids

both = pytest.mark.both_servers

GRACE_S = 3600
SPOILS: tuple[tuple[str, ...], ...] = (("HSET", "s", "Z"), ("HSET", "s", ""), ("HDEL", "s"))


@pytest.fixture
def spoil(client, store) -> Callable[[str, tuple[str, ...]], None]:
    """Make a record's state unreadable: `spoil("a", ("HSET", "s", "Z"))`."""

    def do(task_id: str, how: tuple[str, ...]) -> None:
        command, *rest = how
        client.execute_command(command, store.keys.task("default", task_id), *rest)

    return do


def dies(hand, store, clock) -> None:
    """It waits blocked, may be started by nobody, and after the grace time it is a dead letter."""
    assert (hand.status("b"), hand.task("b").reason) == ("blocked", "undecodable_record")
    for _ in range(2):
        clock.advance(GRACE_S / 2 + 70)
        store.schedule.promote("default")
        assert ids(hand.claim()) == []
    assert (hand.status("b"), hand.task("b").reason) == ("dead_lettered", "undecodable_record")
    (letter,) = store.inspect.dead_letters(queue="default").items
    assert (letter.task_id, letter.type, letter.reason) == ("b", "mail", "undecodable_record")
    assert store.health.damage() == {}
    assert store.connection.call("PTTL", store.keys.task("default", "b")) > 0


@both
@pytest.mark.parametrize("how", SPOILS)
def test_a_waiting_task_whose_state_is_lost_ends_undecodable_and_its_neighbours_start(hand, store, clock, spoil, how):
    hand.submit("a", "b", "c")
    spoil("b", how)
    claims = hand.claim()
    assert ids(claims) == ["a", "c"]
    hand.end_all(claims)
    dies(hand, store, clock)


@both
@pytest.mark.parametrize("how", SPOILS)
def test_a_running_task_whose_state_is_lost_is_taken_from_its_worker_and_ends_undecodable(
    hand, other, store, clock, spoil, how
):
    claim = hand.start("b")
    spoil("b", how)
    assert store.leases.renew([claim]).lost == {claim.key}
    clock.advance(1)
    assert other.reclaim() == []
    assert hand.end(claim) == "FENCED"
    dies(hand, store, clock)
    assert hand.end(claim) == "FENCED"


@pytest.mark.parametrize("how", SPOILS)
def test_a_delayed_task_whose_state_is_lost_ends_undecodable_at_its_time(hand, store, clock, spoil, how):
    hand.submit("b", delay_ms=60_000)
    spoil("b", how)
    clock.advance(61)
    store.schedule.promote("default")
    dies(hand, store, clock)


@pytest.mark.parametrize("how", SPOILS)
@pytest.mark.parametrize("is_running", [False, True])
def test_a_sweep_finds_a_task_whose_state_is_lost_and_a_look_at_health_before(
    hand, store, client, clock, spoil, how, is_running
):
    hand.submit("b")
    if is_running:
        hand.claim_one("b")
    client.delete(store.keys.stream("default", 5))
    spoil("b", how)
    assert store.health.damage()["state"] == 1
    assert store.sweep.run()["state"] == 1
    assert store.health.damage() == {}
    assert store.sweep.run() == {}
    dies(hand, store, clock)


@pytest.mark.parametrize("how", SPOILS)
def test_a_finished_task_whose_state_is_lost_gets_it_back_from_where_it_is_listed(hand, store, spoil, how):
    hand.end(hand.start("a"), Succeed(b"1"))
    spoil("a", how)
    assert store.health.damage() == {"state": 1}
    assert store.sweep.run() == {"state": 1}
    assert (hand.status("a"), hand.task("a").result) == ("succeeded", b"1")
    assert store.health.damage() == {}


@pytest.mark.parametrize("how", SPOILS)
def test_one_whose_state_is_lost_can_be_cancelled_and_once_dead_it_can_be_requeued(hand, store, clock, spoil, how):
    hand.submit("a", "b")
    spoil("a", how)
    assert store.control.cancel("a", queue="default") == "cancelled"
    spoil("b", how)
    assert hand.claim() == []
    dies(hand, store, clock)
    store.control.requeue("b", queue="default")
    assert ids(hand.claim()) == ["b"]


@pytest.mark.keeps_keys
def test_a_state_that_only_a_newer_release_knows_is_left_to_it(hand, store, client):
    hand.submit("b")
    client.hset(store.keys.task("default", "b"), mapping={"s": "Z", "v": "2"})
    hand.claim()
    assert store.sweep.run() == {}
    assert client.hget(store.keys.task("default", "b"), "s") == b"Z"


def test_a_damaged_place_for_blocked_tasks_keeps_what_nobody_can_read_where_it_is(hand, store, client, clock, spoil):
    hand.submit("a", "b")
    spoil("b", ("HSET", "s", "Z"))
    client.set(store.keys.blocked("default"), "damaged")
    assert ids(claims := hand.claim()) == ["a"]
    assert hand.end_all(claims) == ["OK"]
    clock.advance(31)
    assert hand.reclaim() == []
    assert store.sweep.run() == {}
    client.delete(store.keys.blocked("default"))
    hand.reclaim()
    dies(hand, store, clock)

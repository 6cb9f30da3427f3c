"""What an execution saves for later ones of its task."""

import msgspec
import pytest
import redis

from dtq_engine.errors import ClaimLost, RedisDamaged
from dtq_engine.model import DeadLetter, Release, Reschedule
from dtq_engine.store import Store
from tests.store.hand import QUEUE, Hand, error

pytestmark = pytest.mark.both_servers


def test_a_later_execution_finds_what_was_saved(store: Store, hand: Hand):
    claim = hand.start("t", payload=b'{"n":1}', headers={"a": "1"})
    assert claim.saved == {}
    assert store.steps.save(claim, "sfetch", b"[1, 2.0]")
    assert store.steps.save(claim, "c", b"7")
    hand.end(claim, Reschedule(error(), 0))
    later = hand.claim_one("t")
    assert later.saved == {"sfetch": b"[1, 2.0]", "c": b"7"}
    assert (later.payload, later.headers, later.attempt) == (b'{"n":1}', {"a": "1"}, 2)


def test_a_save_that_is_sent_again_changes_nothing(store: Store, hand: Hand):
    claim = hand.start("t")
    assert store.steps.save(claim, "sa", b"1")
    assert store.steps.save(claim, "sa", b"1")
    assert store.steps.save(claim, "oa", b"token", first=True)
    assert store.steps.save(claim, "oa", b"token", first=True)
    assert not store.steps.save(claim, "oa", b"another", first=True)


def test_whoever_does_not_hold_the_task_saves_nothing(store: Store, hand: Hand):
    claim = hand.start("t")
    with pytest.raises(ClaimLost):
        store.steps.save(msgspec.structs.replace(claim, token="other"), "sa", b"1")
    hand.end(claim, Release())
    with pytest.raises(ClaimLost):
        store.steps.save(claim, "sa", b"1")
    assert hand.claim_one("t").saved == {}
    with pytest.raises(ClaimLost):
        store.steps.save(claim, "sa", b"1")


def test_something_else_in_its_place_is_named(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    client.set(store.keys.steps(QUEUE, "t"), "junk")
    with pytest.raises(RedisDamaged):
        store.steps.save(claim, "sa", b"1")
    client.delete(store.keys.steps(QUEUE, "t"))


@pytest.mark.keeps_keys
def test_damage_in_its_place_keeps_no_task_from_starting(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    client.set(store.keys.steps(QUEUE, "t"), "junk")
    hand.end(claim, Release())
    assert hand.claim_one("t").saved == {}


def test_a_requeued_task_goes_on_where_it_was(store: Store, hand: Hand):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    hand.end(claim, DeadLetter(error(), "permanent"))
    store.control.requeue("t")
    assert hand.claim_one("t").saved == {"sa": b"1"}


def test_a_requeued_task_begins_anew_if_it_is_told_to(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    hand.end(claim, DeadLetter(error(), "permanent"))
    store.control.requeue("t", keep_steps=False)
    assert not client.exists(store.keys.steps(QUEUE, "t"))
    assert hand.claim_one("t").saved == {}


def test_a_release_counts_as_a_restart_unless_something_was_saved(store: Store, hand: Hand):
    claim = hand.start("t")
    hand.end(claim, Release())
    claim = hand.claim_one("t")
    assert (claim.attempt, claim.restarts) == (1, 1)
    hand.end(claim, Release(restarts=False))
    claim = hand.claim_one("t")
    assert (claim.attempt, claim.restarts) == (1, 1)


def test_sweep_lets_go_of_what_is_left_of_a_task_that_is_gone(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    hand.end(claim)
    client.delete(store.keys.task(QUEUE, "t"))
    client.persist(store.keys.steps(QUEUE, "t"))
    assert store.sweep.run()["satellite_without_record"] == 1
    assert not client.exists(store.keys.steps(QUEUE, "t"))


def test_sweep_gives_what_an_older_release_left_its_time(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    hand.end(claim)
    client.persist(store.keys.steps(QUEUE, "t"))
    assert store.sweep.run() == {"time_to_live": 1}
    assert client.ttl(store.keys.steps(QUEUE, "t")) > 0
    assert store.sweep.run() == {}

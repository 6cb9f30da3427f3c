"""Sweeping: each kind of damage is found, repaired and counted, and what is in order is left alone."""

import pytest

from dtq_engine.model import Block, Cancel, DeadLetter, Reschedule, TaskStatus
from tests.store.hand import Hand, error, ids

both = pytest.mark.both_servers


@pytest.fixture
def world(hand: Hand) -> Hand:
    """A queue with a task in every state."""
    hand.end(hand.start("done", idempotency_key="k"))
    hand.end(hand.start("dead"), DeadLetter(error(), "permanent"))
    hand.end(hand.start("off"), Cancel(error()))
    hand.end(hand.start("retrying"), Reschedule(error(), 60_000))
    hand.end(hand.start("blocked"), Block("why"))
    hand.start("running", priority=9)
    hand.submit("pending", delay_ms=60_000)
    hand.submit("queued")
    return hand


@both
def test_what_is_in_order_is_left_alone(world, store):
    assert store.sweep.run() == {}


def test_a_queue_that_is_empty_is_in_order(store):
    store.workers.register_queue("default")
    assert store.sweep.run() == {}


def test_a_walk_goes_step_by_step_to_its_end_and_begins_anew(world, store, client):
    client.delete(store.keys.stream("default", 5))
    found: dict[str, int] = {}
    while (step := store.sweep.step()) is not None:
        found |= step
    assert found == {"delivery": 1}
    assert store.sweep.step() is not None


@both
@pytest.mark.parametrize("lost", ["entry", "stream"])
def test_a_queued_task_without_a_delivery_is_available_again(world, store, client, lost):
    stream = store.keys.stream("default", 5)
    if lost == "stream":
        client.delete(stream)
    else:
        client.xtrim(stream, maxlen=0, approximate=False)
    assert store.sweep.run() == {"delivery": 1}
    assert ids(world.claim()) == ["queued"]
    assert store.sweep.run() == {}


@both
@pytest.mark.parametrize("lost", ["entry", "pending entry", "group", "stream"])
def test_a_running_task_without_a_lease_gets_one_and_is_reclaimed_if_nobody_renews_it(
    world, store, client, clock, lost
):
    stream = store.keys.stream("default", 9)
    (entry,) = (each[0] for each in client.xrange(stream))
    {
        "entry": lambda: client.xdel(stream, entry),
        "pending entry": lambda: client.xack(stream, "workers", entry),
        "group": lambda: client.xgroup_destroy(stream, "workers"),
        "stream": lambda: client.delete(stream),
    }[lost]()
    assert store.sweep.run() == {"lease": 1}
    assert "running" not in ids(world.claim())
    clock.advance(31)
    assert "running" in ids(world.reclaim())


@pytest.mark.parametrize(
    ("task_id", "schedule"), [("pending", "schedule"), ("retrying", "retry_schedule"), ("blocked", "blocked")]
)
def test_a_waiting_task_without_its_place_gets_one(world, store, client, task_id, schedule):
    client.delete(getattr(store.keys, schedule)("default"))
    assert store.sweep.run() == {"schedule": 1}
    assert store.schedule.promote("default").moved >= 1
    assert world.status(task_id) == "queued"


@pytest.mark.parametrize(
    ("task_id", "status"),
    [("done", TaskStatus.SUCCEEDED), ("dead", TaskStatus.DEAD_LETTERED), ("off", TaskStatus.CANCELLED)],
)
def test_an_ended_task_without_index_gets_its_place_back(world, store, client, task_id, status):
    client.delete(store.keys.index("default", status))
    assert store.sweep.run() == {"index": 1}
    assert [task.id for task in store.inspect.tasks(status=status).items] == [task_id]


def test_an_ended_task_that_would_live_for_ever_gets_its_time(world, store, client):
    client.persist(store.keys.task("default", "done"))
    assert store.sweep.run() == {"time_to_live": 1}
    assert client.ttl(store.keys.task("default", "done")) > 0


def test_a_dead_task_without_its_letter_gets_one(world, store, client):
    client.delete(store.keys.dead_letters("default"))
    assert store.sweep.run() == {"dead_letter": 1}
    (letter,) = store.inspect.dead_letters().items
    assert (letter.task_id, letter.reason) == ("dead", "permanent")
    store.control.requeue("dead")
    assert store.inspect.dead_letters().items == ()


@pytest.mark.parametrize("kind", ["schedule", "retry_schedule", "blocked"])
def test_members_of_schedules_without_a_record_go(world, store, client, kind):
    client.zadd(getattr(store.keys, kind)("default"), {"nobody": 9e12})
    assert store.sweep.run() == {"member_without_record": 1}
    assert client.zscore(getattr(store.keys, kind)("default"), "nobody") is None


def test_members_of_indexes_without_a_record_go(world, store, client):
    client.zadd(store.keys.index("default", TaskStatus.FAILED), {"nobody": 5})
    assert store.sweep.run() == {"member_without_record": 1}


@both
def test_a_group_that_is_ahead_of_its_stream_is_set_back_and_everything_is_delivered(world, store, client):
    client.xgroup_setid(store.keys.stream("default", 5), "workers", "99999999999999-0")
    assert world.claim() == []
    assert store.sweep.run() == {"group": 1, "delivery": 1}
    world.submit("next")
    assert ids(world.claim()) == ["queued", "next"]
    assert store.sweep.run() == {}


def test_a_group_that_is_ahead_of_an_empty_band_is_set_back(hand, store, client):
    hand.end(hand.start("a"))
    client.xgroup_setid(store.keys.stream("default", 5), "workers", "99999999999999-0")
    assert store.sweep.run() == {"group": 1}
    hand.submit("b")
    assert ids(hand.claim()) == ["b"]


@both
def test_a_dead_letter_without_its_task_goes(world, store, client):
    client.delete(store.keys.task("default", "dead"), *store.keys.satellites("default", "dead"))
    lost = client.xadd(store.keys.dead_letters("default"), {"i": "nobody"})
    client.xadd(store.keys.dead_letters("default"), {"i": "done"})
    client.xadd(store.keys.dead_letters("default"), {"junk": "\x00"})
    world.end(world.start("dies", priority=8), DeadLetter(error(), "permanent"))
    assert store.sweep.run() == {"letter_without_task": 4, "member_without_record": 1}
    assert client.xrange(store.keys.dead_letters("default"), lost, lost) == []
    assert [letter.task_id for letter in store.inspect.dead_letters().items] == ["dies"]
    assert store.sweep.run() == {}


@pytest.mark.parametrize("score", ["inf", "-inf", 1e300])
def test_a_place_that_is_no_time_becomes_now(world, store, client, score):
    key = store.keys.schedule("default")
    client.zadd(key, {"pending": score})
    assert world.task("pending").due_ms is None
    assert store.schedule.promote("default").next_due_in_ms is not None
    if world.status("pending") == "pending":
        assert store.sweep.run() == {"schedule": 1}
        assert abs(client.zscore(key, "pending") - store.now_ms()) < 5_000
        assert store.schedule.promote("default").moved == 1
    assert world.status("pending") == "queued"


def test_a_place_in_a_list_that_is_no_time_becomes_its_end(world, store, client):
    client.zadd(store.keys.index("default", TaskStatus.SUCCEEDED), {"done": "inf"})
    assert store.sweep.run() == {"index": 1}
    assert client.zscore(store.keys.index("default", TaskStatus.SUCCEEDED), "done") == world.task("done").finished_ms


def test_a_key_whose_living_task_is_gone_goes(world, store, client):
    client.set(store.keys.idempotency("default", "lost"), "f nobody L")
    assert store.sweep.run() == {"idempotency_key": 1}
    assert client.exists(store.keys.idempotency("default", "k")) == 1


def test_a_delivery_that_leads_nowhere_and_was_passed_over_goes(world, store, client):
    stream = store.keys.stream("default", 5)
    waiting = [entry for entry, _ in client.xrange(stream)]
    strays = [client.xadd(stream, fields) for fields in ({"i": "nobody"}, {"i": "queued"}, {"junk": "\x00"})]
    assert store.sweep.run() == {}, "the next claim drops them"
    client.xgroup_setid(stream, "workers", "$")
    assert store.sweep.run() == {"delivery": 1, "stray_delivery": 3}
    left = [entry for entry, _ in client.xrange(stream)]
    assert not set(left) & set(strays)
    assert len(left) == len(waiting)
    assert store.sweep.run() == {}


@pytest.mark.keeps_keys
def test_records_that_cannot_be_read_do_not_stop_a_walk(world, store, client):
    client.delete(store.keys.task("default", "pending"))
    client.set(store.keys.task("default", "pending"), "no hash")
    client.hset(store.keys.task("default", "queued"), "r", "high 1 2 3 4 5 6")
    client.hset(store.keys.task("default", "running"), "r", "55 1 2 3 4 5 6")
    client.hset(store.keys.task("default", "off"), "s", "?")
    client.hset(store.keys.task("default", "dead"), "e", "nonsense")
    client.delete(store.keys.index("default", TaskStatus.SUCCEEDED))
    assert store.sweep.run()["index"] == 1
    assert client.exists(store.keys.stream("default", 55)) == 0


def test_a_record_of_a_newer_release_is_left_alone(world, store, client):
    client.hset(store.keys.task("default", "pending"), "v", 2)
    client.zrem(store.keys.schedule("default"), "pending")
    assert store.sweep.run() == {}
    client.zadd(store.keys.schedule("default"), {"pending": 9e12})


def test_ids_and_keys_of_any_kind_are_walked_over(store):
    hand = Hand(store, queue="q-1_x")
    hand.submit("-_-", idempotency_key="with blanks {and} : braces é")
    assert store.sweep.run() == {}

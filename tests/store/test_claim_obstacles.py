"""What a claim meets on the way: types nobody here knows, records it cannot read, deliveries that lead nowhere."""

import pytest

from dtq_engine.ids import new_token
from dtq_engine.model import ClaimStatus, TaskStatus
from tests.store.hand import Hand, ids

both = pytest.mark.both_servers

HOUR_S = 3600


def block(hand: Hand, task_id: str = "a", **fields: object) -> None:
    """Submit a task of a type that the hand does not know, and let it look."""
    hand.submit(task_id, type="new.type", **fields)
    assert hand.claim() == []


def look_again(hand: Hand, clock, seconds: float) -> None:
    clock.advance(seconds)
    hand.store.schedule.promote(hand.queue)
    hand.claim()


# Unknown types


@both
def test_a_task_of_an_unknown_type_is_blocked_and_says_why(hand):
    block(hand)
    task = hand.task("a")
    assert (task.status, task.reason) == (TaskStatus.BLOCKED, "unknown_task_type:new.type")


def test_blocking_burns_no_attempt_and_counts_no_start(hand, store):
    block(hand)
    assert hand.task("a").attempt == 0
    assert store.inspect.counters("default")["new.type"] == {"submitted": 1}
    assert [event.type for event in store.events.tail("default", 9)] == ["TASK_QUEUED"]


def test_tasks_behind_a_blocked_one_go_on(hand):
    hand.submit("a", type="new.type", priority=9)
    hand.submit("b")
    assert ids(hand.claim(1)) == ["b"]


def test_a_blocked_task_is_looked_at_again_after_a_second(hand, store, client):
    block(hand)
    due = client.zscore(store.keys.blocked("default"), "a")
    assert 0 < due - store.now_ms() <= 1000


def test_the_looks_are_further_and_further_apart_up_to_a_minute(hand, clock, store):
    block(hand)
    pauses = []
    for _ in range(8):
        pauses.append(store.schedule.promote("default").next_due_in_ms / 1000)
        look_again(hand, clock, pauses[-1])
    assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 16, 32, 60, 60]


@both
def test_a_blocked_task_is_free_as_soon_as_a_worker_announces_its_type(hand, store):
    block(hand)
    knowing = Hand(store, "w2", ["mail", "new.type"])
    assert store.schedule.promote("default").moved == 1
    assert ids(knowing.claim()) == ["a"]


def test_an_announcement_wakes_the_scheduler(hand, store, client):
    block(hand)
    client.delete(store.keys.wake_schedule("default"))
    Hand(store, "w2", ["new.type"])
    assert client.llen(store.keys.wake_schedule("default")) == 1


def test_an_announcement_of_other_types_frees_nothing(hand, store):
    block(hand)
    Hand(store, "w2", ["other.type"])
    assert store.schedule.promote("default").moved == 0


def test_a_task_that_started_after_a_block_has_forgotten_it(hand, store):
    block(hand)
    knowing = Hand(store, "w2", ["new.type"])
    store.schedule.promote("default")
    knowing.claim()
    assert hand.task("a").reason is None


@both
def test_a_type_that_nobody_knows_for_the_grace_time_is_a_dead_letter(hand, store, clock):
    block(hand)
    look_again(hand, clock, HOUR_S + 1)
    assert (hand.status("a"), hand.task("a").reason) == ("dead_lettered", "unknown_task_type:new.type")
    assert store.inspect.dead_letters().items[0].reason == "unknown_task_type:new.type"


def test_the_grace_time_is_a_setting(make_store, clock):
    hand = Hand(make_store(unknown_type_grace_s=10))
    block(hand)
    look_again(hand, clock, 11)
    assert hand.status("a") == "dead_lettered"


def test_a_blocked_task_expires_when_it_is_looked_at_too_late(hand, clock):
    block(hand, expires_in_ms=30_000)
    look_again(hand, clock, 31)
    assert hand.status("a") == "expired"


@both
def test_what_another_living_build_knows_is_put_off_for_a_second_and_nothing_is_counted(hand, store, client, clock):
    block(hand)
    counted = client.hmget(store.keys.task("default", "a"), "B", "N")
    knowing = Hand(store, "w2", ["mail", "new.type"])
    for _ in range(5):
        store.schedule.promote("default")
        assert hand.claim() == []
        assert 0 < store.schedule.promote("default").next_due_in_ms <= 1000
        clock.advance(1.1)
    assert client.hmget(store.keys.task("default", "a"), "B", "N") == counted
    store.schedule.promote("default")
    assert ids(knowing.claim()) == ["a"]


def test_a_task_that_only_ever_met_the_wrong_build_was_never_blocked(hand, store, client):
    Hand(store, "w2", ["new.type"])
    block(hand)
    assert (hand.status("a"), hand.task("a").reason) == ("blocked", "unknown_task_type:new.type")
    assert client.hmget(store.keys.task("default", "a"), "B", "N") == [None, None]


def test_no_grace_runs_out_while_a_living_build_knows_the_type(make_store, clock):
    hand = Hand(make_store(unknown_type_grace_s=1))
    block(hand)
    Hand(hand.store, "w2", ["new.type"])
    for _ in range(3):
        look_again(hand, clock, 60)
    assert hand.status("a") == "blocked"


def test_a_build_whose_types_have_lapsed_is_waited_for_no_longer(make_store, client, clock):
    hand = Hand(make_store(unknown_type_grace_s=1))
    block(hand)
    gone = Hand(hand.store, "w2", ["new.type"])
    client.delete(hand.store.keys.types("default", gone.digest))
    look_again(hand, clock, 60)
    assert hand.status("a") == "dead_lettered"


def test_builds_that_lapsed_are_forgotten_at_the_next_announcement(hand, store, client):
    client.zadd(store.keys.builds("default"), {"long-gone": 1})
    Hand(store, "w2", ["other.type"])
    assert b"long-gone" not in client.zrange(store.keys.builds("default"), 0, -1)
    assert 0 < client.ttl(store.keys.builds("default")) <= 300


@pytest.mark.parametrize("field", ["B", "N"])
@pytest.mark.parametrize("value", ["nan", "-nan", "inf", "1e999", "x"])
def test_damage_to_what_is_known_of_a_block_stops_nobody(hand, store, client, clock, field, value):
    block(hand)
    hand.submit("b")
    client.hset(store.keys.task("default", "a"), field, value)
    look_again(hand, clock, 2)
    assert hand.status("b") == "running"
    look_again(hand, clock, HOUR_S + 61)
    look_again(hand, clock, HOUR_S + 61)
    assert hand.status("a") == "dead_lettered"


# Records that cannot be read

UNDECODABLE = [
    ("HSET", "r", "5 1795986779688 1 2 3 4 " + "9" * 15),
    ("HSET", "r", "5 1795986779688 " + "9" * 400 + " 2 3 4 5"),
    ("HSET", "r", "5 nan"),
    ("HDEL", "t"),
    ("HDEL", "r"),
    ("HSET", "r", "5 1 2 soon"),
    ("HSET", "r", "high 1 2 3 4 5 6"),
    ("HSET", "r", "55 1 2 3 4 5 6"),
]


def damage(hand: Hand, client, task_id: str, command: tuple[str, ...]) -> None:
    client.execute_command(command[0], hand.store.keys.task(hand.queue, task_id), *command[1:])


@pytest.mark.parametrize("command", UNDECODABLE)
def test_an_undecodable_record_is_blocked_and_its_neighbours_go_on(hand, store, client, command):
    hand.submit("a", "b", "c")
    damage(hand, client, "b", command)
    assert ids(hand.claim()) == ["a", "c"]
    assert client.hmget(store.keys.task("default", "b"), "s", "m") == [b"B", b"undecodable_record"]


@pytest.mark.parametrize("command", UNDECODABLE)
def test_an_undecodable_record_is_a_dead_letter_after_the_grace_time(hand, store, client, clock, command):
    hand.submit("b")
    damage(hand, client, "b", command)
    hand.claim()
    look_again(hand, clock, HOUR_S + 1)
    letter = store.inspect.dead_letters().items[0]
    assert (letter.task_id, letter.reason) == ("b", "undecodable_record")


@pytest.mark.parametrize("command", UNDECODABLE)
def test_an_undecodable_record_can_be_cancelled(hand, store, client, command):
    hand.submit("b")
    damage(hand, client, "b", command)
    assert store.control.cancel("b") == "cancelled"
    assert hand.claim() == []


@pytest.mark.parametrize("command", UNDECODABLE)
def test_a_dead_letter_of_an_undecodable_record_can_be_requeued_and_discarded(hand, store, client, clock, command):
    hand.submit("b")
    damage(hand, client, "b", command)
    hand.claim()
    look_again(hand, clock, HOUR_S + 1)
    store.control.requeue("b")
    hand.claim()
    look_again(hand, clock, HOUR_S + 1)
    store.control.discard("b")
    assert client.exists(store.keys.task("default", "b")) == 0


@pytest.mark.keeps_keys
def test_a_record_of_another_type_loses_only_its_own_delivery(hand, store, client):
    hand.submit("a", "b")
    client.delete(store.keys.task("default", "a"))
    client.set(store.keys.task("default", "a"), "not a hash", ex=60)
    assert ids(hand.claim()) == ["b"]


def newer(hand: Hand, client, task_id: str = "a") -> None:
    hand.submit(task_id)
    client.hset(hand.store.keys.task("default", task_id), "v", 2)


def test_a_record_of_a_newer_release_is_blocked(hand, client):
    newer(hand, client)
    assert hand.claim() == []
    assert (hand.status("a"), hand.task("a").reason) == ("blocked", "newer_record")


def test_a_record_of_a_newer_release_is_never_ended_by_this_one(hand, client, clock):
    newer(hand, client)
    hand.claim()
    look_again(hand, clock, HOUR_S + 1)
    look_again(hand, clock, HOUR_S + 1)
    assert hand.status("a") == "blocked"


def test_a_record_of_a_newer_release_does_not_expire_here(hand, client, clock):
    newer(hand, client)
    client.hset(hand.store.keys.task("default", "a"), "z", 1)
    hand.claim()
    look_again(hand, clock, 61)
    assert hand.status("a") == "blocked"


# Deliveries


def test_a_delivery_without_a_record_is_dropped(hand, store, client):
    hand.submit("a", "b")
    client.delete(store.keys.task("default", "a"))
    assert ids(hand.claim()) == ["b"]
    assert client.xlen(store.keys.stream("default", 5)) == 1


@both
def test_a_second_delivery_of_a_task_is_dropped(hand, store, client):
    hand.submit("a")
    client.xadd(store.keys.stream("default", 5), {"i": "a"})
    client.xadd(store.keys.stream("default", 9), {"i": "a"})
    assert ids(hand.claim()) == ["a"]
    assert client.xlen(store.keys.stream("default", 5)) == 1
    assert client.xlen(store.keys.stream("default", 9)) == 0


def test_a_delivery_of_an_ended_task_is_dropped(hand, store, client):
    hand.end(hand.start("a"))
    client.xadd(store.keys.stream("default", 5), {"i": "a"})
    assert hand.claim() == []
    assert (client.xlen(store.keys.stream("default", 5)), hand.status("a")) == (0, "succeeded")


def test_a_delivery_in_a_foreign_shape_is_dropped(hand, store, client):
    client.xadd(store.keys.stream("default", 5), {"something": "else"})
    assert hand.claim() == []
    assert client.xlen(store.keys.stream("default", 5)) == 0


@both
def test_a_recreated_group_does_not_start_a_running_task_again(hand, other, store, client):
    claim = hand.start("a")
    stream = store.keys.stream("default", 5)
    client.xgroup_destroy(stream, "workers")
    client.xgroup_create(stream, "workers", "0")
    assert other.claim() == []
    assert client.xpending(stream, "workers")["pending"] == 1
    assert hand.end(claim) == "OK"


@both
def test_a_lost_group_hides_no_waiting_task(hand, store, client):
    hand.submit("a", "b")
    hand.claim_one("a")
    client.xgroup_destroy(store.keys.stream("default", 5), "workers")
    assert ids(hand.claim()) == ["b"]
    assert hand.ask().status is ClaimStatus.EMPTY


@both
def test_a_claim_bounds_its_work_and_asks_to_go_on(hand, store, client):
    for _ in range(102):
        client.xadd(store.keys.stream("default", 9), {"i": "nobody"})
    hand.submit("a")
    assert hand.ask(1, new_token()).status is ClaimStatus.AGAIN
    assert ids(hand.claim(1)) == ["a"]


def test_an_interrupted_claim_leaves_a_wake_up_for_the_next(hand, store, client):
    for _ in range(102):
        client.xadd(store.keys.stream("default", 9), {"i": "nobody"})
    hand.ask(1)
    assert client.llen(store.keys.wake("default")) == 1

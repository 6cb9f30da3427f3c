"""Run-now, reprioritise and purge: what operators do to tasks that wait; and consumers that are retired."""

import pytest

from dtq_engine.errors import InvalidTask, InvalidTransition, NewerRecord, TaskNotFound
from dtq_engine.model import Block, NewTask, Postpone, Reschedule
from tests.store.hand import Hand, error, ids, info

both = pytest.mark.both_servers


def delayed(hand: Hand) -> None:
    hand.submit("a", delay_ms=60_000)


def retrying(hand: Hand) -> None:
    hand.end(hand.start("a"), Reschedule(error(), 60_000))


def snoozed(hand: Hand) -> None:
    hand.end(hand.start("a"), Postpone(60_000))


def blocked(hand: Hand) -> None:
    hand.end(hand.start("a"), Block("why"))


waiting = pytest.mark.parametrize("bring", [delayed, retrying, snoozed, blocked])


# Run now


@both
@waiting
@pytest.mark.drains
def test_a_task_that_waits_for_its_time_can_run_now(hand, store, client, bring):
    bring(hand)
    client.delete(store.keys.wake("default"))
    store.control.run_now("a", actor="alice", reason="hurry")
    assert client.llen(store.keys.wake("default")) == 1
    hand.end(hand.claim_one("a"))


@waiting
@pytest.mark.drains
def test_a_task_that_waits_can_be_moved_to_another_band(hand, store, bring):
    bring(hand)
    store.control.reprioritise("a", 9)
    store.control.run_now("a")
    assert store.inspect.queue("default").waiting_by_priority == {9: 1}
    hand.end(hand.claim_one("a"))


def test_only_what_waits_for_its_time_can_run_now(hand, store):
    hand.submit("queued")
    hand.start("running", priority=9)
    for task_id in ("queued", "running"):
        with pytest.raises(InvalidTransition, match=f"is {task_id}"):
            store.control.run_now(task_id)


# Reprioritise


@both
@pytest.mark.drains
def test_a_queued_task_comes_last_in_its_new_band(hand, store):
    hand.submit("low", priority=1)
    hand.submit("first", "second", priority=7)
    store.control.reprioritise("low", 7)
    claims = hand.claim()
    assert ids(claims) == ["first", "second", "low"]
    hand.end_all(claims)


def test_the_same_priority_again_keeps_the_place(hand, store):
    hand.submit("first", "second")
    store.control.reprioritise("first", 5)
    assert ids(hand.claim()) == ["first", "second"]


def test_a_running_or_ended_task_keeps_its_priority(hand, store):
    hand.end(hand.start("succeeded"))
    hand.start("running")
    for task_id in ("succeeded", "running"):
        with pytest.raises(InvalidTransition, match=f"is {task_id}"):
            store.control.reprioritise(task_id, 9)


@pytest.mark.parametrize("priority", [-1, 10, 55, 5.0, True, False, "5", None, float("nan")])
def test_a_priority_that_is_none_is_refused(hand, store, client, priority):
    hand.submit("a")
    asked = client.hget(store.keys.task("default", "a"), "r")
    with pytest.raises(InvalidTask, match="whole number from 0 to 9"):
        store.control.reprioritise("a", priority)
    assert client.hget(store.keys.task("default", "a"), "r") == asked


# Pause


@pytest.mark.parametrize("for_ms", [0, -1, True, 1.5, 1e20, 10**18, "60000", float("nan")])
def test_a_pause_for_what_is_no_time_is_refused_and_pauses_nothing(store, client, for_ms):
    with pytest.raises(InvalidTask, match="for_ms"):
        store.control.pause("default", for_ms=for_ms)
    assert not client.exists(store.keys.paused("default"))
    assert store.events.audit("default", 9) == []


# Requests


def test_one_request_may_be_for_several_verbs_and_tasks(hand, store, client):
    hand.submit("a", "b", "c", delay_ms=60_000)
    for task_id in ("a", "b"):
        assert store.control.cancel(task_id, request="r1") == "cancelled"
    store.control.run_now("c", request="r1")
    assert [hand.status(each) for each in "abc"] == ["cancelled", "cancelled", "queued"]
    store.control.pause("default", request="r1")
    store.control.resume("default", request="r1")
    assert not client.exists(store.keys.paused("default"))
    assert store.control.cancel("a", request="r1") == "cancelled", "sent again it answers the same"
    assert len(store.events.audit("default", 9)) == 5


def test_a_discard_that_is_sent_again_without_its_queue_answers_the_same(hand, store):
    hand.submit("a")
    store.control.cancel("a")
    for _ in range(2):
        store.control.discard("a", request="r1")
    with pytest.raises(TaskNotFound):
        store.control.discard("b", request="r1")


@pytest.mark.parametrize("verb", ["run_now", "reprioritise"])
def test_the_verbs_are_audited_safe_to_repeat_and_know_what_is_not_there(hand, store, verb):
    args = (9,) if verb == "reprioritise" else ()
    delayed(hand)
    for _ in range(2):
        getattr(store.control, verb)("a", *args, actor="alice", reason="hurry", request="r1")
    (entry,) = store.events.audit("default", 9)
    assert (entry.action, entry.target, entry.actor, entry.reason, entry.request) == (verb, "a", "alice", "hurry", "r1")
    with pytest.raises(TaskNotFound):
        getattr(store.control, verb)("never-heard-of", *args, queue="default")


@pytest.mark.parametrize("verb", ["run_now", "reprioritise"])
def test_a_record_of_a_newer_release_is_left_alone(hand, store, client, verb):
    delayed(hand)
    client.hset(store.keys.task("default", "a"), "v", 2)
    with pytest.raises(NewerRecord):
        getattr(store.control, verb)("a", *((9,) if verb == "reprioritise" else ()))
    assert hand.status("a") == "pending"


# Purge


def test_a_purge_cancels_what_waits_in_every_band_and_never_what_runs(hand, store):
    hand.start("running", priority=9)
    store.intake.submit([NewTask(id=f"t{n}", type="mail", priority=n) for n in range(10)])
    hand.submit("later", delay_ms=60_000)
    assert store.control.purge("default") == 10
    stats = store.inspect.queue("default")
    assert (stats.waiting, stats.running, stats.delayed, stats.cancelled) == (0, 1, 1, 10)
    assert hand.claim() == []


@both
@pytest.mark.drains
def test_a_purge_of_delayed_tasks_too_leaves_nothing_waiting(hand, store):
    hand.end(hand.start("retrying"), Reschedule(error(), 60_000))
    hand.end(hand.start("blocked"), Block("why"))
    hand.submit("delayed", delay_ms=60_000)
    hand.submit("queued")
    assert store.control.purge("default", delayed=True) == 4
    assert store.inspect.queue("default").depth == 0


def test_a_purge_of_hundreds_goes_on_to_the_end(hand, store):
    hand.submit(*[f"t{n}" for n in range(230)], priority=3)
    hand.submit(*[f"u{n}" for n in range(120)], delay_ms=60_000)
    assert store.control.purge("default", delayed=True) == 350
    assert store.inspect.queue("default").depth == 0


def test_a_purged_task_says_why(hand, store):
    hand.submit("a")
    store.control.purge("default", reason="wrong data")
    assert (hand.status("a"), hand.task("a").reason) == ("cancelled", "wrong data")


def test_a_purge_sent_again_cancels_nothing_that_came_later(hand, store):
    hand.submit("a")
    assert store.control.purge("default", request="r1") == 1
    hand.submit("b")
    assert store.control.purge("default", request="r1") == 1
    assert hand.status("b") == "queued"


def test_a_purge_of_an_empty_queue_is_nothing(store):
    store.workers.register_queue("default")
    assert store.control.purge("default", delayed=True) == 0


def test_a_purge_is_audited_with_its_number(hand, store):
    hand.submit(*"abc")
    store.control.purge("default", actor="alice", reason="wrong data")
    entries = store.events.audit("default", 9)
    assert {(entry.action, entry.target, entry.actor, entry.reason) for entry in entries} == {
        ("purge", "default", "alice", "wrong data")
    }
    assert sum(entry.count or 0 for entry in entries) == 3


def test_a_purge_passes_over_records_of_a_newer_release(hand, store, client):
    hand.submit(*"abc")
    client.hset(store.keys.task("default", "b"), "v", 2)
    assert store.control.purge("default") == 2
    assert hand.status("b") == "queued"


def test_a_purge_leaves_what_runs_even_when_the_group_was_lost(hand, store, client):
    claim = hand.start("a")
    hand.submit("b")
    stream = store.keys.stream("default", 5)
    client.xgroup_destroy(stream, "workers")
    assert store.control.purge("default") == 1
    assert client.xrange(stream, claim.entry, claim.entry) != []
    store.leases.renew([claim])
    assert hand.end(claim) == "OK"


# Retire


def consumers(client, stream: str) -> set[bytes]:
    return {each["name"] for each in client.xinfo_consumers(stream, "workers")}


def test_consumers_of_dead_workers_go_unless_something_is_pending_for_them(hand, other, store, client):
    stream = store.keys.stream("default", 5)
    hand.end(hand.start("a"))
    other.start("b")
    assert store.workers.retire("default", idle_ms=0) > 0
    assert consumers(client, stream) == {b"w2"}


def test_consumers_of_living_workers_stay(hand, store, client):
    hand.end(hand.start("a"))
    store.workers.beat(info("w1"), 30)
    assert store.workers.retire("default", idle_ms=0) == 0
    store.workers.leave("w1")
    assert store.workers.retire("default", idle_ms=0) > 0


@both
def test_consumers_that_were_busy_lately_stay(hand, store):
    hand.end(hand.start("a"))
    assert store.workers.retire("default", idle_ms=60_000) == 0

"""The event log and the counters: what happened, numbered without a gap, and counted exactly."""

import math
import time
from collections import Counter

import pytest

from dtq_engine.model import (
    Block,
    Cancel,
    DeadLetter,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    Succeed,
    TaskStatus,
    Transition,
)
from tests.store.hand import Hand, error

both = pytest.mark.both_servers

ENDS: list[Transition] = [
    Succeed(b"1"),
    Reschedule(error(), 0),
    DeadLetter(error(), "permanent"),
    Cancel(error()),
    Release(),
    Postpone(0),
    Reschedule(error(), 1000),
    Block("why"),
    Succeed(None),
]


def busy(hand: Hand, clock, rounds: int = 6) -> None:
    """A history with every way an execution can end."""
    for n in range(rounds):
        hand.submit(*[f"t{n}-{k}" for k in range(5)], priority=n)
        claims = hand.claim(7)
        hand.store.leases.finalize([(claim, ENDS[(n + k) % len(ENDS)]) for k, claim in enumerate(claims)])
        clock.advance(1)
        hand.store.schedule.promote("default")
    hand.submit("late", delay_ms=9000)
    hand.store.control.cancel("late")


# Events


@both
def test_events_are_numbered_without_a_gap_from_one(hand, store, clock):
    busy(hand, clock)
    numbers = [event.event_id for event in store.events.tail("default", 10_000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 60


@both
def test_a_life_is_told_in_order(hand, store):
    hand.end(hand.start("a"), Reschedule(error(type="KeyError"), 0))
    hand.end(hand.claim_one("a"), Succeed(b"1"))
    told = [(event.type, event.attempt, event.worker_id, event.detail) for event in store.events.tail("default", 9)]
    assert told == [
        ("TASK_QUEUED", 0, None, None),
        ("TASK_STARTED", 1, "w1", None),
        ("TASK_RETRY_SCHEDULED", 1, "w1", "KeyError"),
        ("TASK_STARTED", 2, "w1", None),
        ("TASK_SUCCEEDED", 2, "w1", None),
    ]


def test_the_latest_events_come_oldest_first(hand, store):
    hand.submit(*[f"t{n}" for n in range(30)])
    assert [event.task_id for event in store.events.tail("default", 3)] == ["t27", "t28", "t29"]


def test_no_events_are_none(store):
    assert store.events.tail("default", 5) == []


def test_an_event_carries_time_queue_and_type(hand, store):
    before = store.now_ms()
    hand.submit("a", type="mail")
    (event,) = store.events.tail("default", 1)
    assert (event.queue, event.task_type, event.task_id) == ("default", "mail", "a")
    assert before <= event.ts_ms <= store.now_ms()


def test_a_call_with_many_events_writes_one_log_entry(hand, store, client):
    hand.submit(*[f"t{n}" for n in range(100)])
    assert client.xlen(store.keys.events("default")) == 1


@both
def test_events_are_published_as_they_happen(hand, store, conn):
    with conn.listen([store.keys.events_channel("default")]) as messages:
        hand.submit("a", "b")
        _, told = messages.get(2) or pytest.fail("nothing was published")
    head, first, second = told.decode().split("\n")
    assert head.split(" ")[0] == "2"
    assert (first, second) == ("TASK_QUEUED a mail 0 - -", "TASK_QUEUED b mail 0 - -")


@both
def test_the_log_is_bounded_by_events_and_their_numbers_go_on(hand, store, client):
    for n in range(250):
        hand.submit(f"early{n}")
    client.hset(store.keys.counters("default"), "_events", 49_990)
    for n in range(20):
        hand.submit(f"late{n}")
    numbers = [event.event_id for event in store.events.tail("default", 20_000)]
    assert numbers[-20:] == list(range(49_991, 50_011))
    assert client.xinfo_stream(store.keys.events("default"))["length"] < 150  # it is cut in parts of up to 100 entries


@pytest.mark.keeps_keys
def test_a_damaged_log_is_begun_anew_and_blocks_nothing(hand, store, client):
    client.set(store.keys.events("default"), "no stream")
    hand.end(hand.start("a"))
    assert [event.type for event in store.events.tail("default", 9)][-1] == "TASK_SUCCEEDED"


# Counters


@both
def test_counters_equal_what_became_of_the_tasks(hand, store, clock):
    busy(hand, clock)
    told = Counter(event.type for event in store.events.tail("default", 10_000))
    counted = store.inspect.counters("default")["mail"]
    tasks = store.inspect.tasks(limit=200).items
    assert counted["submitted"] == told["TASK_QUEUED"] == len(tasks) == 31
    assert counted["started"] == told["TASK_STARTED"]
    assert counted["retried"] == told["TASK_RETRY_SCHEDULED"]
    for status in (TaskStatus.SUCCEEDED, TaskStatus.DEAD_LETTERED, TaskStatus.CANCELLED):
        ended = sum(task.status is status for task in tasks)
        assert counted[status.value] == ended == told[f"TASK_{status.value.upper()}"]


def test_failed_attempts_are_counted_whatever_follows(hand, store):
    hand.end(hand.start("a"), Reschedule(error(), 0))
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    assert store.inspect.counters("default")["mail"]["attempts_failed"] == 2


def test_a_call_sent_again_counts_once(hand, store):
    claim = hand.start("a")
    hand.submit("a")
    for _ in range(3):
        hand.end(claim)
    counted = store.inspect.counters("default")["mail"]
    assert (counted["submitted"], counted["started"], counted["succeeded"]) == (1, 1, 1)


def test_types_are_counted_apart(store):
    hand = Hand(store, types=["a", "b"])
    store.intake.submit([NewTask(id=f"t{n}", type="a" if n % 3 else "b") for n in range(9)])
    hand.end_all(hand.claim())
    counted = store.inspect.counters("default")
    assert (counted["a"]["succeeded"], counted["b"]["succeeded"]) == (6, 3)


def test_beyond_a_thousand_types_new_ones_share_a_counter(store):
    tasks = [NewTask(id=f"t{n}", type=f"type{n}") for n in range(1003)]
    store.intake.submit(tasks)
    counted = store.inspect.counters("default")
    assert len(counted) == 1001
    assert counted["_other"]["submitted"] == 3
    assert counted["type7"]["submitted"] == 1


@pytest.mark.parametrize(("waited_s", "bucket"), [(0, 0), (1, 10), (60, 16), (3600, 22)])
def test_durations_are_counted_in_powers_of_two(hand, store, clock, waited_s, bucket):
    began = time.monotonic()
    claim = hand.start("a")
    clock.advance(waited_s)
    hand.end(claim)
    most_ms = (waited_s + time.monotonic() - began) * 1000
    counted = store.inspect.counters("default")["mail"]
    buckets = [int(name.split(" ")[1]) for name in counted if name.startswith("execution ")]
    assert len(buckets) == 1
    assert bucket <= buckets[0] <= math.ceil(math.log2(most_ms + 2))
    assert counted["execution_ms"] >= waited_s * 1000


@pytest.mark.keeps_keys
@pytest.mark.parametrize("way", ["submit", "claim", "finalize", "cancel", "promote", "reclaim"])
def test_damaged_counters_block_nothing(hand, store, client, clock, way):
    if way == "submit":
        client.set(store.keys.counters("default"), "no hash")
    hand.submit("a")
    hand.submit("later", delay_ms=1000)
    client.set(store.keys.counters("default"), "no hash")
    claim = hand.claim_one("a")
    if way == "reclaim":
        clock.advance(31)
        (claim,) = hand.reclaim()
    assert hand.end(claim) == "OK"
    clock.advance(2)
    assert store.schedule.promote("default").moved == 1
    assert store.control.cancel("later") == "cancelled"


def test_older_events_are_read_from_before_any_number(hand, store):
    hand.submit(*(f"t{number}" for number in range(5)))
    hand.submit(*(f"u{number}" for number in range(5)))
    numbers = [event.event_id for event in store.events.newest("default")]
    assert numbers == list(range(10, 0, -1))
    for before in range(12):
        found = [event.event_id for event in store.events.newest("default", before)]
        assert found == [number for number in numbers if number < before]


def test_older_actions_are_read_from_before_an_entry(store):
    store.workers.register_queue("default")
    for number in range(4):
        store.control.pause("default", reason=str(number))
    entries = store.events.audit("default", 2)
    older = store.events.audit("default", 10, entries[-1].entry)
    assert [entry.reason for entry in entries + older] == ["3", "2", "1", "0"]

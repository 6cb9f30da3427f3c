"""Throttling: at most so many tasks with one key are accepted in so long, at whatever time one looks."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from dtq_engine.model import Deduplication, NewTask, Receipt, SubmitOutcome, TaskStatus, Unique
from dtq_engine.store import Store
from tests.store.hand import QUEUE, Hand

both = pytest.mark.both_servers

NEW, THROTTLED = SubmitOutcome.NEW, SubmitOutcome.THROTTLED


def throttle(at_most: int = 1, per_ms: int = 60_000, **more: object) -> Deduplication:
    return Deduplication(at_most=at_most, per_ms=per_ms, **more)  # type: ignore[arg-type]


def submit(hand: Hand, task_id: str, wanted: Deduplication | None = None, **fields: object) -> Receipt:
    return hand.submit(task_id, deduplication=wanted or throttle(), **fields)[0]


@both
def test_one_too_many_is_answered_with_the_latest_that_was_accepted(hand):
    wanted = throttle(2)
    assert [submit(hand, each, wanted).outcome for each in "ab"] == [NEW, NEW]
    assert submit(hand, "c", wanted) == Receipt("b", QUEUE, THROTTLED, TaskStatus.QUEUED)
    assert len(hand.claim()) == 2


@both
def test_it_does_not_matter_what_became_of_those_that_were_accepted(hand):
    submit(hand, "a")
    hand.end(hand.claim_one("a"))
    assert submit(hand, "b") == Receipt("a", QUEUE, THROTTLED, TaskStatus.SUCCEEDED)


@both
def test_the_window_slides(hand, clock):
    wanted = throttle(2, 10_000)
    submit(hand, "a", wanted)
    clock.advance(6)
    submit(hand, "b", wanted)
    clock.advance(3)
    assert submit(hand, "c", wanted).outcome is THROTTLED
    clock.advance(1.1)
    assert submit(hand, "d", wanted).outcome is NEW
    assert submit(hand, "e", wanted).outcome is THROTTLED
    clock.advance(5.9)
    assert submit(hand, "f", wanted).outcome is NEW


def test_what_was_throttled_does_not_count(hand, clock):
    submit(hand, "a")
    for n in range(5):
        clock.advance(11)
        assert submit(hand, f"b{n}").outcome is THROTTLED
    clock.advance(6)
    assert submit(hand, "c").outcome is NEW


@pytest.mark.parametrize("seed", range(5))
def test_no_window_ever_holds_more_than_it_may(hand, clock, seed):
    dice = random.Random(seed)
    at_most, per_ms = dice.choice(((1, 1_000), (3, 5_000), (7, 60_000)))
    for n in range(120):
        hand.submit(*(f"t{n}-{k}" for k in range(dice.choice((1, 1, 2, 9)))), deduplication=throttle(at_most, per_ms))
        clock.advance(dice.uniform(0, 2.2 * per_ms / at_most) / 1000)
    accepted = sorted(task.created_ms for task in hand.store.inspect.tasks(queue=QUEUE, limit=200).items)
    assert len(accepted) > at_most
    spans = [last - first for first, last in zip(accepted, accepted[at_most:], strict=False)]
    assert min(spans) >= per_ms


def test_threads_together_get_no_more_than_one_alone(hand, store):
    def submit_all(thread: int) -> int:
        tasks = [NewTask(id=f"t{thread}-{n}", type="mail", deduplication=throttle(25, 3_600_000)) for n in range(100)]
        one_by_one = [store.intake.submit([task])[0] for task in tasks[:50]]
        return sum(each.outcome is NEW for each in [*one_by_one, *store.intake.submit(tasks[50:])])

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(submit_all, range(20))) == 25


@both
def test_tasks_of_one_call_count_together(hand):
    receipts = hand.submit(*"abcde", deduplication=throttle(3))
    assert [(each.id, each.outcome) for each in receipts] == [
        *(("a", NEW), ("b", NEW), ("c", NEW)),
        *(("c", THROTTLED), ("c", THROTTLED)),
    ]


def test_keys_types_queues_and_periods_count_for_themselves(hand, store):
    wanted = throttle(key="account 7")
    assert submit(hand, "a", wanted).outcome is NEW
    assert submit(hand, "b", throttle(key="account 8")).outcome is NEW
    assert submit(hand, "c", wanted, type="sms").outcome is NEW
    assert submit(Hand(store, queue="q2"), "d", wanted).outcome is NEW
    assert submit(hand, "e", throttle(per_ms=5_000, key="account 7")).outcome is NEW
    assert submit(hand, "f", throttle(3, key="account 7")).outcome is NEW, "another number looks at the same window"
    assert submit(hand, "g", wanted).outcome is THROTTLED


def test_what_a_full_queue_refuses_does_not_count(make_store, store):
    hand = Hand(make_store(max_queue_depth=1))
    hand.submit("in the way")
    assert submit(hand, "a").outcome is SubmitOutcome.FULL
    assert submit(Hand(store), "b").outcome is NEW


@both
def test_a_submit_that_is_sent_again_is_answered_as_the_first_time(hand, clock):
    submit(hand, "a")
    submit(hand, "b")
    clock.advance(20, ttls=True)
    assert submit(hand, "b").id == "a"
    assert submit(hand, "a").outcome is SubmitOutcome.EXISTS
    wanted = throttle(per_ms=10_000)
    submit(hand, "c", wanted)
    submit(hand, "d", wanted)
    clock.advance(15, ttls=True)
    assert submit(hand, "d", wanted) == Receipt("c", QUEUE, THROTTLED, TaskStatus.QUEUED)


def test_a_task_may_be_unique_and_throttled(hand, clock):
    wanted = throttle(unique=Unique.UNTIL_DONE)
    submit(hand, "a", wanted)
    assert submit(hand, "b", wanted) == Receipt("a", QUEUE, SubmitOutcome.DUPLICATE, TaskStatus.QUEUED, unique=True)
    hand.end(hand.claim_one("a"))
    assert submit(hand, "c", wanted).outcome is THROTTLED
    clock.advance(61)
    assert submit(hand, "d", wanted).outcome is NEW


def test_a_window_goes_when_nothing_in_it_counts_any_more(hand, client, store):
    submit(hand, "a")
    (key,) = client.keys(f"{store.keys.prefix}:throttle:*")
    assert client.pttl(key) in range(55_000, 60_001)
    assert client.lrange(key, 0, -1)[0].endswith(b" a")


def test_a_window_keeps_no_more_than_matters(hand, client, store, clock):
    for n in range(20):
        submit(hand, f"t{n}", throttle(3))
        clock.advance(21)
    (key,) = client.keys(f"{store.keys.prefix}:throttle:*")
    assert client.llen(key) == 3


def test_a_clock_that_was_put_back_holds_tasks_back_for_one_period_at_most(hand, clock):
    submit(hand, "a")
    clock.advance(-3600)
    assert submit(hand, "b").outcome is THROTTLED
    clock.advance(61, ttls=True)
    assert submit(hand, "c").outcome is NEW


@pytest.mark.parametrize("junk", [b"junk", b"", b"nan a", b"9" * 400 + b" a", b"1 "])
def test_a_window_with_junk_in_it_holds_nothing_back_for_ever(hand, client, store, junk, clock):
    submit(hand, "a")
    (key,) = client.keys(f"{store.keys.prefix}:throttle:*")
    client.lset(key, 0, junk)
    submit(hand, "b")
    clock.advance(61, ttls=True)
    assert submit(hand, "c").outcome is NEW


@pytest.mark.keeps_keys
def test_a_window_that_does_not_expire_is_damaged_and_counts_for_nothing(hand, client, store):
    submit(hand, "a")
    (key,) = client.keys(f"{store.keys.prefix}:throttle:*")
    client.persist(key)
    assert submit(hand, "b").outcome is NEW
    assert submit(hand, "c").outcome is THROTTLED


@pytest.mark.keeps_keys
def test_a_window_that_is_none_is_the_answer_of_its_own_task_only(hand, client, store):
    submit(hand, "a")
    (key,) = client.keys(f"{store.keys.prefix}:throttle:*")
    client.set(key, "junk")
    tasks = [NewTask(id="b", type="mail", deduplication=throttle()), NewTask(id="c", type="mail")]
    assert [each.outcome for each in store.intake.submit(tasks)] == [SubmitOutcome.DAMAGED, NEW]


def test_throttled_tasks_are_events_and_counted(hand, store: Store):
    submit(hand, "a")
    submit(hand, "b")
    event = store.events.tail(QUEUE, 1)[0]
    assert (event.type, event.task_id, event.detail) == ("TASK_DUPLICATE_ABSORBED", "a", "throttled")
    assert store.stats.totals([QUEUE])[0].types["mail"].counts == {"submitted": 1, "throttled": 1}

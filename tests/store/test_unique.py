"""Unique keys: one task for all that are alike, while it waits or until it has ended."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from dtq_engine.errors import UniqueConflict
from dtq_engine.model import (
    Block,
    DeadLetter,
    Deduplication,
    NewTask,
    Receipt,
    Release,
    Reschedule,
    SubmitOutcome,
    Succeed,
    TaskStatus,
    Unique,
)
from dtq_engine.store import Store
from tests.store.hand import QUEUE, Hand, error, ids

both = pytest.mark.both_servers

NEW, EXISTS, DUPLICATE = SubmitOutcome.NEW, SubmitOutcome.EXISTS, SubmitOutcome.DUPLICATE
WAITING, UNTIL_DONE = Deduplication(unique=Unique.WAITING), Deduplication(unique=Unique.UNTIL_DONE)
MODES = pytest.mark.parametrize("wanted", [WAITING, UNTIL_DONE], ids=["waiting", "until_done"])


def unique(hand: Hand, task_id: str, wanted: Deduplication = UNTIL_DONE, **fields: object) -> Receipt:
    return hand.submit(task_id, deduplication=wanted, **fields)[0]


def locks(store: Store) -> dict[str, str]:
    """By unique key, who holds it."""
    client = store.connection.client
    keys = sorted(client.keys(f"{store.keys.prefix}:unique:*"))
    return {key.decode(): client.get(key).decode() for key in keys}


@both
@MODES
def test_while_a_task_waits_another_like_it_is_absorbed(hand, wanted):
    assert unique(hand, "a", wanted).outcome is NEW
    assert unique(hand, "b", wanted) == Receipt("a", QUEUE, DUPLICATE, TaskStatus.QUEUED, unique=True)
    assert ids(hand.claim()) == ["a"]


@both
def test_one_that_is_unique_while_it_waits_makes_room_as_it_starts(hand, store):
    unique(hand, "a", WAITING)
    hand.claim_one("a")
    assert locks(store) == {}
    assert unique(hand, "b", WAITING).outcome is NEW


@both
def test_one_that_is_unique_until_done_makes_room_as_it_ends(hand, store):
    unique(hand, "a")
    claim = hand.claim_one("a")
    assert unique(hand, "b") == Receipt("a", QUEUE, DUPLICATE, TaskStatus.RUNNING, unique=True)
    hand.end(claim)
    assert locks(store) == {}
    assert unique(hand, "c").outcome is NEW


@MODES
@pytest.mark.parametrize("end", ["cancelled", "expired", "purged", "dead"])
def test_every_end_gives_the_key_back(hand, store, clock, wanted, end):
    unique(hand, "a", wanted, expires_in_ms=60_000)
    if end == "cancelled":
        store.control.cancel("a", queue=QUEUE)
    elif end == "purged":
        store.control.purge(QUEUE)
    elif end == "dead":
        hand.end(hand.claim_one(), DeadLetter(error(), "permanent"))
    else:
        clock.advance(61)
        hand.claim()
    assert hand.task("a").status.is_final
    assert locks(store) == {}
    assert unique(hand, "b", wanted).outcome is NEW


def test_one_that_is_to_be_tried_again_still_holds_its_key_until_done(hand):
    unique(hand, "a")
    hand.end(hand.claim_one(), Reschedule(error(), 60_000))
    assert unique(hand, "b").status is TaskStatus.RETRYING


@pytest.mark.parametrize("way_back", [Release(), Reschedule(error(), 0), Block("unknown_task_type:mail")])
def test_one_that_has_started_never_takes_its_waiting_key_again(hand, store, way_back):
    unique(hand, "a", WAITING)
    hand.end(hand.claim_one(), way_back)
    assert not hand.task("a").status.is_final
    assert unique(hand, "b", WAITING).outcome is NEW
    assert set(locks(store).values()) == {"b"}


@MODES
def test_a_task_that_no_worker_knows_waits_and_holds_its_key(hand, wanted):
    unique(hand, "a", wanted, type="other")
    hand.claim()
    assert hand.status("a") == "blocked"
    assert unique(hand, "b", wanted, type="other").status is TaskStatus.BLOCKED


def test_one_that_has_waited_too_long_holds_no_key_though_nobody_has_ended_it_yet(hand, clock):
    unique(hand, "a", expires_in_ms=1_000)
    clock.advance(2)
    assert unique(hand, "b").outcome is NEW
    assert ids(hand.claim()) == ["b"]
    assert unique(hand, "c").id == "b"


@both
def test_tasks_that_differ_in_an_argument_are_different(hand):
    first = [unique(hand, f"a{n}", payload=b'{"n":%d}' % n).outcome for n in range(3)]
    assert first == [NEW] * 3


@pytest.mark.parametrize("payload", [b'{"a":1,"b":{"d":2,"c":3}}', b'{ "b": {"c":3, "d":2}, "a": 1 }'])
def test_arguments_may_be_written_differently(hand, payload):
    unique(hand, "a", payload=b'{"b":{"c":3,"d":2},"a":1}')
    assert unique(hand, "b", payload=payload).id == "a"


def test_a_key_of_ones_own_stands_for_any_arguments(hand):
    wanted = Deduplication(unique=Unique.UNTIL_DONE, key="account 7")
    unique(hand, "a", wanted, payload=b'{"n":1}')
    assert unique(hand, "b", wanted, payload=b'{"n":2}').id == "a"
    assert unique(hand, "c", Deduplication(unique=Unique.UNTIL_DONE, key="account 8")).outcome is NEW


def test_a_key_is_its_types_and_its_queues_own(store):
    hand, elsewhere = Hand(store, types=("mail", "sms")), Hand(store, queue="q2")
    assert [unique(hand, "a").outcome, unique(hand, "b", type="sms").outcome] == [NEW, NEW]
    assert unique(elsewhere, "c").outcome is NEW


def test_both_ways_to_be_unique_share_a_key_and_its_holder_says_for_how_long(hand):
    unique(hand, "a", WAITING)
    assert unique(hand, "b", UNTIL_DONE).id == "a"
    claim = hand.claim_one("a")
    unique(hand, "c", UNTIL_DONE)
    assert unique(hand, "d", WAITING).id == "c"
    hand.end(claim)
    assert unique(hand, "e", WAITING).id == "c"


@both
@MODES
def test_tasks_of_one_call_are_compared_with_each_other(hand, wanted):
    receipts = hand.submit("a", "b", "c", deduplication=wanted)
    assert [(each.id, each.outcome) for each in receipts] == [("a", NEW), ("a", DUPLICATE), ("a", DUPLICATE)]


def test_a_task_that_is_not_unique_is_neither_absorbed_nor_in_the_way(hand):
    hand.submit("a")
    assert unique(hand, "b").outcome is NEW
    assert hand.submit("c")[0].outcome is NEW


@both
@pytest.mark.keeps_keys
def test_a_lock_whose_holder_is_gone_blocks_nobody(hand, store, client):
    unique(hand, "a")
    client.delete(store.keys.task(QUEUE, "a"))
    assert unique(hand, "b").outcome is NEW
    assert set(locks(store).values()) == {"b"}


@pytest.mark.parametrize("state", ["S", "", "?", "nan"])
@pytest.mark.keeps_keys
def test_a_lock_counts_only_while_its_holders_record_says_so(hand, store, client, state):
    unique(hand, "a")
    client.hset(store.keys.task(QUEUE, "a"), "s", state)
    assert unique(hand, "b").outcome is NEW


@pytest.mark.keeps_keys
def test_a_holder_that_is_unique_by_another_key_by_now_is_no_holder(hand, store, client):
    unique(hand, "a")
    client.hset(store.keys.task(QUEUE, "a"), "u", "d0123")
    assert unique(hand, "b").outcome is NEW


@pytest.mark.keeps_keys
def test_a_damaged_lock_is_the_answer_of_its_own_task_only(hand, store, client):
    unique(hand, "a")
    (key,) = locks(store)
    client.delete(key)
    client.rpush(key, "junk")
    tasks = [NewTask(id="b", type="mail", deduplication=UNTIL_DONE), NewTask(id="c", type="mail")]
    assert [each.outcome for each in store.intake.submit(tasks)] == [SubmitOutcome.DAMAGED, NEW]
    assert hand.end(hand.claim_one("a")) == "OK"


@both
def test_a_submit_that_is_sent_again_is_answered_as_the_first_time(hand, store):
    unique(hand, "a")
    first = unique(hand, "b")
    hand.end(hand.claim_one("a"))
    again = unique(hand, "b")
    assert (first.id, first.outcome) == (again.id, again.outcome) == ("a", DUPLICATE)
    assert hand.claim() == []
    assert len([each for each in store.events.tail(QUEUE, 10) if each.type == "TASK_DUPLICATE_ABSORBED"]) == 1
    assert unique(hand, "a").outcome is EXISTS


def test_what_was_absorbed_is_remembered_for_half_a_minute(hand, store, clock):
    unique(hand, "a")
    unique(hand, "b")
    hand.end(hand.claim_one("a"))
    clock.advance(31, ttls=True)
    assert unique(hand, "b").outcome is NEW


def test_a_full_queue_absorbs_and_takes_nothing_new(make_store):
    hand = Hand(make_store(max_queue_depth=1))
    unique(hand, "a")
    assert unique(hand, "b").outcome is DUPLICATE
    assert unique(hand, "c", payload=b'{"n":1}').outcome is SubmitOutcome.FULL
    assert unique(hand, "d", payload=b'{"n":1}').outcome is SubmitOutcome.FULL, "what was refused holds no key"


def test_a_delayed_task_and_one_of_another_priority_hold_the_same_key(hand):
    unique(hand, "a", delay_ms=60_000)
    assert unique(hand, "b", priority=9).status is TaskStatus.PENDING
    hand.store.control.run_now("a", queue=QUEUE)
    hand.store.control.reprioritise("a", 9, queue=QUEUE)
    assert unique(hand, "c").status is TaskStatus.QUEUED


def test_the_idempotency_key_of_an_absorbed_task_leads_to_the_one_that_stands_for_it(hand, store, client):
    unique(hand, "a")
    assert unique(hand, "b", idempotency_key="k").id == "a"
    hand.end(hand.claim_one("a"))
    assert unique(hand, "c", idempotency_key="k") == Receipt("a", QUEUE, DUPLICATE, TaskStatus.SUCCEEDED)
    assert unique(hand, "d", idempotency_key="k", type="sms").outcome is SubmitOutcome.MISMATCH
    assert 0 < client.ttl(store.keys.idempotency(QUEUE, "k")) <= 86_400


def test_an_idempotency_key_is_looked_at_first(hand):
    unique(hand, "a", idempotency_key="k")
    hand.end(hand.claim_one("a"))
    unique(hand, "b")
    assert unique(hand, "c", idempotency_key="k") == Receipt("a", QUEUE, DUPLICATE, TaskStatus.SUCCEEDED)


@MODES
def test_a_requeued_task_takes_its_key_again(hand, store, wanted):
    unique(hand, "a", wanted)
    store.control.cancel("a", queue=QUEUE)
    store.control.requeue("a", queue=QUEUE)
    assert unique(hand, "b", wanted).id == "a"
    assert hand.end(hand.claim_one("a")) == "OK"
    assert locks(store) == {}


@MODES
def test_a_task_whose_key_another_one_holds_is_not_requeued(hand, store, wanted):
    unique(hand, "a", wanted)
    store.control.cancel("a", queue=QUEUE)
    unique(hand, "b", wanted)
    with pytest.raises(UniqueConflict, match="unique key of task a"):
        store.control.requeue("a", queue=QUEUE)
    hand.end(hand.claim_one("b"))
    store.control.requeue("a", queue=QUEUE)
    assert set(locks(store).values()) == {"a"}


def test_a_requeued_one_that_is_unique_while_it_waits_waits_again(hand, store):
    unique(hand, "a", WAITING)
    hand.end(hand.claim_one(), DeadLetter(error(), "permanent"))
    store.control.requeue("a", queue=QUEUE)
    assert unique(hand, "b", WAITING).id == "a"
    hand.claim_one("a")
    assert locks(store) == {}


def test_discarding_trimming_and_sweeping_leave_no_lock(hand, store):
    unique(hand, "a")
    hand.end(hand.claim_one(), DeadLetter(error(), "permanent"))
    store.control.discard("a", queue=QUEUE)
    assert store.sweep.run() == {}
    assert locks(store) == {}


def test_a_sweep_drops_locks_without_holder_and_gives_holders_theirs(hand, store, client):
    unique(hand, "a")
    (key,) = locks(store)
    client.delete(key)
    client.set(store.keys.unique(QUEUE, "0123"), "gone")
    client.set(store.keys.unique(QUEUE, "4567"), "a")
    assert store.sweep.run() == {"unique_key": 3}
    assert locks(store) == {key: "a"}


def test_absorbed_tasks_are_events_and_counted(hand, store):
    unique(hand, "a")
    unique(hand, "b")
    event = store.events.tail(QUEUE, 1)[0]
    assert (event.type, event.task_id, event.detail) == ("TASK_DUPLICATE_ABSORBED", "a", "unique")
    assert store.stats.totals([QUEUE])[0].types["mail"].counts == {"submitted": 1, "unique": 1}


@MODES
def test_a_task_says_how_it_is_unique(hand, wanted):
    unique(hand, "a", wanted)
    assert (hand.task("a").unique, hand.task("a").debounced) == (wanted.unique, False)


def test_of_ten_thousand_submits_by_twenty_threads_one_is_accepted(hand, store):
    def submit(thread: int) -> Counter[tuple[str, str]]:
        seen: Counter[tuple[str, str]] = Counter()
        for n in range(0, 500, 50):
            tasks = [NewTask(id=f"t{thread}-{n + k}", type="mail", deduplication=UNTIL_DONE) for k in range(49)]
            single = NewTask(id=f"t{thread}-{n + 49}", type="mail", deduplication=UNTIL_DONE)
            receipts = [*store.intake.submit([single]), *store.intake.submit(tasks)]
            seen.update((each.id, each.outcome) for each in receipts)
        return seen

    with ThreadPoolExecutor(20) as pool:
        seen = sum(pool.map(submit, range(20)), Counter[tuple[str, str]]())
    (claim,) = hand.claim()
    assert seen == {(claim.task_id, NEW): 1, (claim.task_id, DUPLICATE): 9_999}
    assert hand.end(claim, Succeed(None)) == "OK"

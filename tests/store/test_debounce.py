"""Debouncing: of many submits in a row one task is made, which starts a while after the last, with what that said."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dtq_engine.model import DeadLetter, Deduplication, NewTask, Receipt, RetryPolicy, SubmitOutcome, TaskStatus, Unique
from dtq_engine.store import Store
from tests.store.hand import QUEUE, Hand, error

both = pytest.mark.both_servers

NEW, REPLACED = SubmitOutcome.NEW, SubmitOutcome.REPLACED
LAST = b'{"n":"last"}'
BIG = b'{"n":"%s"}' % (b"x" * 100)
REPLACED_A = Receipt("a", QUEUE, REPLACED, TaskStatus.PENDING)


def debounce(ms: int = 5_000, most_ms: int | None = None) -> Deduplication:
    return Deduplication(debounce_ms=ms, debounce_max_ms=most_ms, key="k")


def submit(hand: Hand, task_id: str, wanted: Deduplication | None = None, **fields: object) -> Receipt:
    return hand.submit(task_id, deduplication=wanted or debounce(), **fields)[0]


def run(hand: Hand) -> list[tuple[str, bytes]]:
    """What a worker runs of what is due by now."""
    hand.store.schedule.promote(QUEUE)
    claims = hand.claim()
    hand.end_all(claims)
    return [(claim.task_id, claim.payload) for claim in claims]


@both
def test_a_second_submit_replaces_the_first_and_postpones_it(hand, clock):
    assert submit(hand, "a").status is TaskStatus.PENDING
    clock.advance(3)
    assert submit(hand, "b", payload=LAST) == REPLACED_A
    clock.advance(3)
    assert run(hand) == []
    clock.advance(2.1)
    assert run(hand) == [("a", LAST)]


@both
def test_what_comes_after_the_start_is_a_task_of_its_own(hand, clock):
    submit(hand, "a")
    clock.advance(5.1)
    hand.store.schedule.promote(QUEUE)
    assert submit(hand, "b").outcome is NEW
    assert [task_id for task_id, _ in run(hand)] == ["a"]
    clock.advance(5.1)
    assert [task_id for task_id, _ in run(hand)] == ["b"]


@both
def test_it_starts_at_the_latest_when_it_must(hand, clock):
    submit(hand, "a", debounce(5_000, 12_000))
    for n in range(5):
        clock.advance(2.9)
        if n < 4:
            assert submit(hand, f"b{n}", debounce(5_000, 12_000), payload=b'{"n":%d}' % n) == REPLACED_A
    assert run(hand) == [("a", b'{"n":3}')]


def test_a_shorter_time_brings_it_forward(hand, client, store, clock):
    submit(hand, "a", debounce(600_000))
    hand.store.schedule.promote(QUEUE)
    client.delete(store.keys.wake_schedule(QUEUE))
    submit(hand, "b", debounce(1_000))
    assert client.llen(store.keys.wake_schedule(QUEUE)) == 1, "the scheduler is woken for what is due earlier"
    clock.advance(1.1)
    assert len(run(hand)) == 1


def test_everything_that_was_given_is_replaced(hand, store, client):
    submit(hand, "a", payload=BIG, headers={"h": "x" * 100}, expires_in_ms=60_000, keep_result=False, restartable=True)
    retry = RetryPolicy(2, 1, 2, 0.5)
    fields: dict[str, Any] = {"payload": LAST, "priority": 9, "timeout_ms": 7, "retry": retry, "headers": {"h": "1"}}
    submit(hand, "b", **fields)
    task = hand.task("a")
    assert (task.payload, task.priority, task.timeout_ms, task.retry) == (LAST, 9, 7, retry)
    assert (dict(task.headers), task.expires_ms) == ({"h": "1"}, None)
    record = client.hgetall(store.keys.task(QUEUE, "a"))
    assert not record.keys() & {b"K", b"Z", b"z", b"S"}
    assert client.exists(store.keys.payload(QUEUE, "a"), store.keys.headers(QUEUE, "a")) == 0


def test_a_small_payload_may_become_a_large_one(hand):
    submit(hand, "a", payload=b"{}")
    submit(hand, "b", payload=BIG, headers={"h": "x" * 100})
    task = hand.task("a")
    assert (task.payload, dict(task.headers)) == (BIG, {"h": "x" * 100})


@both
def test_tasks_of_one_call_are_one_with_the_last_payload(hand, store, clock):
    tasks = [
        NewTask(id=f"t{n}", type="mail", payload=b'{"n":%d}' % n, deduplication=debounce(1_000)) for n in range(10)
    ]
    assert [each.outcome for each in store.intake.submit(tasks)] == [NEW, *[REPLACED] * 9]
    clock.advance(1.1)
    assert run(hand) == [("t0", b'{"n":9}')]


def test_a_storm_of_a_thousand_submits_ends_in_one_run_with_the_last_payload(hand, store, clock):
    def storm(thread: int) -> None:
        for n in range(50):
            payload = b'{"thread":%d,"n":%d}' % (thread, n)
            store.intake.submit([NewTask(id=f"t{thread}-{n}", type="mail", payload=payload, deduplication=debounce())])

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(storm, range(20)))
    submit(hand, "last", payload=LAST)
    clock.advance(5.1)
    ((_, payload),) = run(hand)
    assert payload == LAST
    assert store.stats.totals([QUEUE])[0].types["mail"].counts["replaced"] == 1_000
    clock.advance(60)
    assert run(hand) == []


@both
def test_a_submit_that_is_sent_again_replaces_nothing_again(hand, clock):
    submit(hand, "a")
    submit(hand, "b", payload=b'{"n":1}')
    submit(hand, "c", payload=LAST)
    assert submit(hand, "b", payload=b'{"n":1}') == REPLACED_A
    assert hand.task("a").payload == LAST
    clock.advance(5.1)
    assert run(hand) == [("a", LAST)]
    assert submit(hand, "b", payload=b'{"n":1}') == Receipt("a", QUEUE, REPLACED, TaskStatus.SUCCEEDED)
    assert submit(hand, "a").outcome is SubmitOutcome.EXISTS


@pytest.mark.parametrize("verb", ["cancel", "run_now", "purge"])
def test_what_an_operator_takes_out_of_the_schedule_is_not_replaced(hand, store, client, verb):
    submit(hand, "a")
    if verb == "purge":
        store.control.purge(QUEUE, delayed=True)
    else:
        getattr(store.control, verb)("a", queue=QUEUE)
    assert client.keys(f"{store.keys.prefix}:unique:*") == []
    assert submit(hand, "b").outcome is NEW


def test_a_requeued_task_does_not_wait_again_and_holds_no_key(hand, store, clock):
    submit(hand, "a")
    clock.advance(6)
    store.schedule.promote(QUEUE)
    hand.end(hand.claim_one("a"), DeadLetter(error(), "permanent"))
    submit(hand, "b")
    store.control.requeue("a", queue=QUEUE)
    assert hand.status("a") == "queued"
    assert submit(hand, "c").id == "b"


def test_one_that_has_expired_is_not_replaced_though_nobody_has_ended_it_yet(hand, clock):
    submit(hand, "a", expires_in_ms=1_000)
    clock.advance(2)
    assert submit(hand, "b").outcome is NEW
    clock.advance(4)
    assert [task_id for task_id, _ in run(hand)] == []
    assert hand.status("a") == "expired"


def test_another_priority_of_an_operator_is_replaced_too(hand, store):
    submit(hand, "a")
    store.control.reprioritise("a", 9, queue=QUEUE)
    submit(hand, "b", priority=2)
    assert hand.task("a").priority == 2


def test_who_waits_for_the_first_hears_of_the_end(hand, store, clock):
    submit(hand, "a")
    store.leases.watch("a", QUEUE, "process")
    submit(hand, "b", payload=LAST)
    record = store.connection.client.hgetall(store.keys.task(QUEUE, "a"))
    assert record[b"W"] == b"process"


def test_idempotency_keys_of_those_that_were_replaced_lead_to_the_task(hand, clock):
    submit(hand, "a", idempotency_key="k1")
    submit(hand, "b", idempotency_key="k2", payload=LAST)
    assert hand.task("a").idempotency_key == "k1"
    clock.advance(6)
    run(hand)
    again = [submit(hand, f"c{key}", idempotency_key=key, payload=p) for key, p in (("k1", b"{}"), ("k2", LAST))]
    assert again == [Receipt("a", QUEUE, SubmitOutcome.DUPLICATE, TaskStatus.SUCCEEDED)] * 2


def test_a_full_queue_replaces_and_takes_nothing_new(make_store):
    hand = Hand(make_store(max_queue_depth=1))
    submit(hand, "a")
    assert submit(hand, "b", payload=LAST).outcome is REPLACED
    assert submit(hand, "c", Deduplication(debounce_ms=1, key="other")).outcome is SubmitOutcome.FULL


@pytest.mark.keeps_keys
def test_a_record_of_a_newer_release_is_left_as_it_is(hand, store, client):
    submit(hand, "a")
    client.hset(store.keys.task(QUEUE, "a"), "v", "2")
    assert submit(hand, "b", payload=LAST).outcome is NEW
    assert hand.task("a").payload == b"{}"


@pytest.mark.keeps_keys
@pytest.mark.parametrize("field", ["r", "d", "z", "S", "h"])
@pytest.mark.parametrize("junk", ["", "x", "nan", "9" * 400])
def test_a_damaged_record_is_replaced_or_left_behind(hand, store: Store, client, field, junk):
    submit(hand, "a", expires_in_ms=60_000)
    client.hset(store.keys.task(QUEUE, "a"), field, junk)
    receipt = submit(hand, "b", payload=LAST)
    assert hand.task(receipt.id).payload == LAST


@pytest.mark.keeps_keys
def test_where_the_schedule_is_damaged_nothing_is_replaced(hand, store, client):
    submit(hand, "a")
    client.delete(store.keys.schedule(QUEUE))
    client.set(store.keys.schedule(QUEUE), "junk")
    assert submit(hand, "b", payload=LAST).outcome is SubmitOutcome.DAMAGED
    assert hand.task("a").payload == b"{}"


def test_what_was_replaced_is_an_event(hand, store):
    submit(hand, "a")
    submit(hand, "b")
    event = store.events.tail(QUEUE, 1)[0]
    assert (event.type, event.task_id, event.detail) == ("TASK_DUPLICATE_ABSORBED", "a", "replaced")
    assert (hand.task("a").debounced, hand.task("a").unique) == (True, None)


def test_a_debounced_task_and_a_unique_one_with_the_same_key_do_not_meet(hand):
    submit(hand, "a")
    assert hand.submit("b", deduplication=Deduplication(unique=Unique.UNTIL_DONE, key="k"))[0].outcome is NEW

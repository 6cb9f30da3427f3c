"""Submitting: each task is accepted exactly once, or refused with its own receipt."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dtq_engine.model import NewTask, Receipt, Reschedule, SubmitOutcome, TaskStatus
from tests.store.hand import Hand, error

both = pytest.mark.both_servers

NEW, EXISTS, FULL = SubmitOutcome.NEW, SubmitOutcome.EXISTS, SubmitOutcome.FULL


def outcomes(receipts: Iterable[Receipt]) -> list[SubmitOutcome]:
    return [receipt.outcome for receipt in receipts]


@both
def test_a_new_task_is_queued(hand: Hand):
    assert hand.submit("a") == [Receipt("a", "default", NEW, TaskStatus.QUEUED)]
    assert hand.task("a").status is TaskStatus.QUEUED


@both
def test_a_task_is_read_back_as_it_was_given(hand, store):
    task = NewTask(
        id="a",
        type="mail",
        payload=b'{"to": "x"}',
        priority=8,
        timeout_ms=1234,
        expires_in_ms=60_000,
        idempotency_key="k",
        headers={"traceparent": "00-abc"},
    )
    store.intake.submit([task])
    found = store.inspect.get("a")
    assert (found.type, found.payload, found.priority, found.timeout_ms) == ("mail", b'{"to": "x"}', 8, 1234)
    assert (found.idempotency_key, found.headers, found.retry) == ("k", {"traceparent": "00-abc"}, task.retry)
    assert found.expires_ms == found.created_ms + 60_000


def test_a_task_is_created_at_the_time_of_redis(hand, store):
    before = store.now_ms()
    hand.submit("a")
    assert before <= hand.task("a").created_ms <= store.now_ms()


def test_the_same_id_twice_is_one_task(hand):
    hand.submit("a")
    assert hand.submit("a") == [Receipt("a", "default", EXISTS, TaskStatus.QUEUED)]
    assert len(hand.claim()) == 1


@both
def test_the_same_id_twice_in_one_call_is_one_task(hand):
    assert outcomes(hand.submit("a", "b", "a")) == [NEW, NEW, EXISTS]
    assert len(hand.claim()) == 2


def test_an_id_that_exists_keeps_its_first_payload(hand):
    hand.submit("a", payload=b'{"n":1}')
    hand.submit("a", payload=b'{"n":2}')
    assert hand.task("a").payload == b'{"n":1}'


def test_an_id_that_has_ended_exists_with_its_final_status(hand):
    hand.end(hand.start("a"))
    assert hand.submit("a") == [Receipt("a", "default", EXISTS, TaskStatus.SUCCEEDED)]


@both
def test_receipts_come_in_the_order_of_the_tasks_whatever_their_queues(store):
    names = ["q1", "q2", "q1", "q3", "q2"]
    receipts = store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=name) for n, name in enumerate(names)])
    assert [(receipt.id, receipt.queue) for receipt in receipts] == [(f"t{n}", name) for n, name in enumerate(names)]


def test_submitting_nothing_answers_nothing(store):
    assert store.intake.submit([]) == []


def test_the_first_submit_makes_the_queue_known(store):
    store.intake.submit([NewTask(id="a", type="mail", queue="reports")])
    assert store.inspect.queues() == ["reports"]


def test_a_queue_forgotten_by_redis_is_made_known_again(hand, store, client):
    hand.submit("a")
    client.delete(store.keys.queues())
    client.delete(store.keys.queue("default"))
    hand.submit("b")
    assert store.inspect.queues() == ["default"]
    assert client.get(store.keys.queue("default")) == b"1"


# Time


def test_a_delayed_task_is_pending_until_it_is_due(hand):
    assert hand.submit("a", delay_ms=60_000)[0].status is TaskStatus.PENDING
    assert hand.claim() == []
    assert hand.task("a").status is TaskStatus.PENDING


@both
@pytest.mark.parametrize("delay_ms", [1, 2**31, 2**31 + 1, 10 * 365 * 86_400_000])
def test_a_delay_is_kept_to_the_millisecond(hand, store, client, delay_ms):
    hand.submit("a", delay_ms=delay_ms)
    due = client.zscore(store.keys.schedule("default"), "a")
    assert due == hand.task("a").created_ms + delay_ms


def test_an_instant_wins_over_a_delay(hand, store, client):
    run_at = store.now_ms() + 5_000
    hand.submit("a", delay_ms=60_000, run_at_ms=run_at)
    assert client.zscore(store.keys.schedule("default"), "a") == run_at


def test_an_instant_in_the_past_is_now(hand, store):
    assert hand.submit("a", run_at_ms=0)[0].status is TaskStatus.QUEUED
    assert hand.submit("b", run_at_ms=store.now_ms() - 1)[0].status is TaskStatus.QUEUED


# The depth gate


def test_a_full_queue_refuses_and_writes_nothing(make_store, client):
    hand = Hand(make_store(max_queue_depth=2))
    hand.submit("a", "b")
    assert hand.submit("c", payload=b'"' + b"x" * 99 + b'"', idempotency_key="k") == [Receipt("c", "default", FULL)]
    keys = hand.store.keys
    assert client.exists(keys.task("default", "c"), keys.payload("default", "c"), keys.idempotency("default", "k")) == 0


@both
def test_a_batch_fills_a_queue_to_the_last_place(make_store):
    hand = Hand(make_store(max_queue_depth=3))
    assert outcomes(hand.submit("a", "b", "c", "d", "e")) == [NEW, NEW, NEW, FULL, FULL]


def test_a_known_id_is_found_in_a_full_queue(make_store):
    hand = Hand(make_store(max_queue_depth=1))
    hand.submit("a")
    assert outcomes(hand.submit("a")) == [EXISTS]


@both
def test_waiting_running_delayed_and_retrying_tasks_all_take_a_place(make_store):
    hand = Hand(make_store(max_queue_depth=4))
    hand.end(hand.start("retrying"), Reschedule(error(), 60_000))
    hand.start("running")
    hand.submit("delayed", delay_ms=60_000)
    assert outcomes(hand.submit("waiting", "beyond")) == [NEW, FULL]


def test_a_task_that_ends_gives_its_place_to_another(make_store):
    hand = Hand(make_store(max_queue_depth=1))
    hand.end(hand.start("a"))
    assert outcomes(hand.submit("b")) == [NEW]


def test_a_limit_of_zero_is_no_limit(make_store):
    hand = Hand(make_store(max_queue_depth=0))
    assert set(outcomes(hand.submit(*[f"t{n}" for n in range(50)]))) == {NEW}


def test_the_limit_is_each_queues_own(make_store):
    store = make_store(max_queue_depth=1)
    tasks = [NewTask(id=f"t{n}", type="mail", queue=f"q{n % 2}") for n in range(4)]
    assert outcomes(store.intake.submit(tasks)) == [NEW, NEW, FULL, FULL]


def test_fifty_submitters_at_once_fill_a_queue_exactly(make_store):
    store = make_store(max_queue_depth=100)

    def submit(thread: int) -> list[SubmitOutcome]:
        tasks = [NewTask(id=f"t{thread}-{n}", type="mail", delay_ms=60_000 * (n % 2)) for n in range(5)]
        return [outcome for at in range(5) for outcome in outcomes(store.intake.submit(tasks[at : at + 1]))]

    with ThreadPoolExecutor(50) as pool:
        answers = [outcome for part in pool.map(submit, range(50)) for outcome in part]
    assert (answers.count(NEW), answers.count(FULL)) == (100, 150)
    assert store.inspect.queue("default").depth == 100

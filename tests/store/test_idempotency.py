"""Idempotency keys: one key, one task, from its submit until a while after its end."""

import pytest

from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from tests.store.hand import Hand

both = pytest.mark.both_servers

NEW, DUPLICATE, MISMATCH = SubmitOutcome.NEW, SubmitOutcome.DUPLICATE, SubmitOutcome.MISMATCH
DAY_S = 86_400


def keyed(hand: Hand, task_id: str, key: str = "k", **fields: object) -> Receipt:
    return hand.submit(task_id, idempotency_key=key, **fields)[0]


@both
def test_a_repeated_key_answers_with_the_first_task(hand):
    keyed(hand, "a")
    assert keyed(hand, "b") == Receipt("a", "default", DUPLICATE, TaskStatus.QUEUED)


def test_a_duplicate_leaves_no_task_behind(hand, store):
    keyed(hand, "a")
    keyed(hand, "b")
    assert store.inspect.find(["b"]) == [None]
    assert len(hand.claim()) == 1


@both
def test_a_key_twice_in_one_call_is_one_task(hand):
    assert [each.outcome for each in hand.submit("a", "b", idempotency_key="k")] == [NEW, DUPLICATE]


def test_a_delayed_task_holds_its_key_as_well(hand):
    assert [each.status for each in hand.submit("a", "b", idempotency_key="k", delay_ms=9)] == [TaskStatus.PENDING] * 2


@both
def test_another_payload_under_a_key_is_a_mismatch(hand):
    keyed(hand, "a", payload=b'{"n":1}')
    assert keyed(hand, "b", payload=b'{"n":2}') == Receipt("a", "default", MISMATCH, TaskStatus.QUEUED)


def test_another_payload_under_a_key_is_a_mismatch_within_one_call(store):
    tasks = [
        NewTask(id=each, type="mail", payload=b'{"id":"%s"}' % each.encode(), idempotency_key="k") for each in "ab"
    ]
    assert [receipt.outcome for receipt in store.intake.submit(tasks)] == [NEW, MISMATCH]


def test_another_type_under_a_key_is_a_mismatch(hand):
    keyed(hand, "a")
    assert keyed(hand, "b", type="sms").outcome is MISMATCH


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b'{"a":1,"b":{"c":2,"d":3}}', b'{ "b": {"d":3, "c":2}, "a": 1 }'),
        (b'{"a":"\\u00e9"}', '{"a":"é"}'.encode()),
        (b'{"n":9223372036854775808}', b'{"n": 9223372036854775808}'),
    ],
)
def test_the_same_payload_written_differently_is_a_duplicate(hand, first, second):
    keyed(hand, "a", payload=first)
    assert keyed(hand, "b", payload=second).outcome is DUPLICATE


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b'{"n":9223372036854775808}', b'{"n":9223372036854775809}'),
        (b'{"n":12345678901234567}', b'{"n":12345678901234568}'),
        (b'{"n":36893488147419103232}', b'{"n":36893488147419103233}'),
        (b'{"n":[]}', b'{"n":{}}'),
        (b'{"n":1}', b'{"n":true}'),
        (b'{"n":[1,2]}', b'{"n":[2,1]}'),
    ],
)
def test_payloads_that_differ_a_little_are_a_mismatch(hand, first, second):
    keyed(hand, "a", payload=first)
    assert keyed(hand, "b", payload=second).outcome is MISMATCH


@both
@pytest.mark.parametrize("key", ["k", "with blanks  and : {braces}", "ключ-🔑", "x" * 255, "a%b*c?[d]\\"])
def test_a_key_may_be_any_printable_text(hand, key):
    keyed(hand, "a", key)
    assert keyed(hand, "b", key).id == "a"
    assert hand.task("a").idempotency_key == key


def test_keys_that_differ_are_different(hand):
    assert [keyed(hand, "a", "k").outcome, keyed(hand, "b", "k ").outcome, keyed(hand, "c", "K").outcome] == [NEW] * 3


def test_a_key_is_its_queues_own(store):
    tasks = [NewTask(id=f"t-{queue}", type="mail", queue=queue, idempotency_key="k") for queue in ("q1", "q2")]
    assert [receipt.outcome for receipt in store.intake.submit(tasks)] == [NEW, NEW]


def test_a_duplicate_of_a_running_task_says_that_it_runs(hand):
    hand.start("a", idempotency_key="k")
    assert keyed(hand, "b").status is TaskStatus.RUNNING


@both
def test_a_duplicate_of_an_ended_task_says_how_it_ended(hand):
    hand.end(hand.start("a", idempotency_key="k"))
    assert keyed(hand, "b") == Receipt("a", "default", DUPLICATE, TaskStatus.SUCCEEDED)


def test_a_key_does_not_expire_while_its_task_lives(hand, store, client):
    hand.start("a", idempotency_key="k")
    assert client.ttl(store.keys.idempotency("default", "k")) == -1


def test_a_key_outlives_its_task_by_the_time_set(make_store, client):
    hand = Hand(make_store(idem_ttl_s=77))
    hand.end(hand.start("a", idempotency_key="k"))
    assert client.ttl(hand.store.keys.idempotency("default", "k")) in {76, 77}


@both
def test_a_key_is_free_again_when_its_time_is_over(hand, clock):
    hand.end(hand.start("a", idempotency_key="k"))
    clock.advance(DAY_S - 10, ttls=True)
    assert keyed(hand, "b").outcome is DUPLICATE
    clock.advance(11, ttls=True)
    assert keyed(hand, "b").outcome is NEW


def test_a_key_still_answers_when_the_record_of_its_ended_task_is_gone(hand, client, store):
    hand.end(hand.start("a", idempotency_key="k"))
    client.delete(store.keys.task("default", "a"))
    assert keyed(hand, "b") == Receipt("a", "default", DUPLICATE, TaskStatus.SUCCEEDED)


@pytest.mark.keeps_keys
def test_a_key_whose_living_task_was_lost_is_free(hand, client, store):
    keyed(hand, "a")
    client.delete(store.keys.task("default", "a"))
    assert keyed(hand, "b").outcome is NEW


def test_the_end_of_a_task_does_not_touch_a_key_that_is_another_tasks_by_now(hand, client, store):
    claim = hand.start("a", idempotency_key="k")
    held_by_another = b"0123 b L"
    client.set(store.keys.idempotency("default", "k"), held_by_another)
    hand.submit("b")
    hand.end(claim)
    assert client.get(store.keys.idempotency("default", "k")) == held_by_another


@both
def test_an_absorbed_duplicate_is_an_event(hand, store):
    keyed(hand, "a")
    keyed(hand, "b")
    event = store.events.tail("default", 1)[0]
    assert (event.type, event.task_id, event.task_type) == ("TASK_DUPLICATE_ABSORBED", "a", "mail")

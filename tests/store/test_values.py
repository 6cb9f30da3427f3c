"""What goes in comes out: payloads, results, headers, errors, ids and types, byte for byte."""

import string

import pytest

from dtq_engine.model import (
    AttemptError,
    Cancel,
    DeadLetter,
    NewTask,
    Reschedule,
    RetryPolicy,
    SubmitOutcome,
    Succeed,
    TaskStatus,
)
from tests.store.hand import Hand, error

both = pytest.mark.both_servers

DEEP = b'{"d":' * 200 + b"1" + b"}" * 200
VALUES = [
    b"null",
    b"{}",
    b"[]",
    b'{"a":[],"b":{},"c":null}',
    b'{"n":9223372036854775808}',
    b'{"n":12345678901234567}',
    b'{"n":-9223372036854775809,"f":1e308,"g":-0.0,"h":0.1}',
    b'{"n": 1.0 , "spaces" :  "kept"}',
    DEEP,
    '{"t":"\u0000\u0001\u001f\u007f\u0080\u2028\u2029\ufeff"}'.encode(),
    '{"t":"𝔘𝔫𝔦𝔠𝔬𝔡𝔢 é e\u0301 \u202e 🧑‍🚀"}'.encode(),
    b'{"t":"\\u0000\\ud83d\\ude00 \\"quoted\\" \\\\ {tag} %s $1 \r\n*3"}',
    b"'; return redis.call('FLUSHALL') --",
    bytes(range(256)),
]
values = pytest.mark.parametrize("value", VALUES)
around_64 = pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 65, 66, 1000])


def of_size(size: int) -> bytes:
    return (b"0123456789" * 100)[:size]


@both
@values
def test_a_payload_reaches_the_worker_and_the_reader_exactly(hand, value):
    assert hand.start("a", payload=value).payload == value
    assert hand.task("a").payload == value


@values
def test_a_result_reaches_the_reader_exactly(hand, value):
    hand.end(hand.start("a"), Succeed(value))
    assert hand.task("a").result == value


@around_64
def test_a_payload_of_any_length_is_kept(hand, size):
    assert hand.start("a", payload=of_size(size)).payload == of_size(size)
    assert hand.task("a").payload == of_size(size)


@around_64
def test_a_result_of_any_length_is_kept(hand, size):
    hand.end(hand.start("a"), Succeed(of_size(size)))
    task = hand.task("a")
    assert (task.result, task.result_size, task.result_truncated) == (of_size(size), size, False)


@both
@pytest.mark.parametrize("size", [63, 64, 65])
def test_only_values_over_64_bytes_have_keys_of_their_own(hand, store, client, size):
    hand.end(hand.start("a", payload=of_size(size)), Succeed(of_size(size)))
    assert client.exists(store.keys.payload("default", "a"), store.keys.result("default", "a")) == 2 * (size > 64)


@pytest.mark.parametrize("length", [1, 40, 50, 51, 52, 53, 54, 55, 56, 57, 500])
def test_headers_of_any_length_are_kept(hand, length):
    headers = {"traceparent": "é" * length, "tenant": ""}
    assert hand.start("a", headers=headers).headers == headers
    assert hand.task("a").headers == headers


def test_a_large_payload_outlives_many_attempts(hand):
    hand.submit("a", payload=of_size(900))
    for _ in range(3):
        claim = hand.claim_one("a")
        assert claim.payload == of_size(900)
        hand.end(claim, Reschedule(error(), 0))


def test_a_quarter_of_a_mebibyte_is_kept(hand):
    value = b'"' + b"x" * 262_142 + b'"'
    hand.end(hand.start("a", payload=value), Succeed(value))
    assert (hand.task("a").payload, hand.task("a").result) == (value, value)


def test_none_is_no_result_and_needs_no_key(hand, store, client):
    hand.end(hand.start("a"), Succeed(None))
    assert (hand.task("a").result, hand.task("a").result_size) == (None, None)
    assert client.exists(store.keys.result("default", "a")) == 0


@both
@pytest.mark.parametrize("size", [3, 65, 1000])
def test_a_result_nobody_asked_for_is_not_kept(hand, size):
    hand.end(hand.start("a", keep_result=False), Succeed(of_size(size)))
    assert hand.task("a").result is None
    assert hand.status("a") == "succeeded"


@both
@pytest.mark.parametrize("shown", [10, 64, 65])
def test_a_cut_result_knows_its_true_size(hand, shown):
    hand.end(hand.start("a"), Succeed(of_size(shown), size=1_000_000))
    task = hand.task("a")
    assert (task.result, task.result_size, task.result_truncated) == (of_size(shown), 1_000_000, True)


# Names and numbers


@pytest.mark.parametrize("task_id", ["0", "z" * 64, "-", "_-_", string.ascii_letters, string.digits + "_-"])
def test_an_id_may_be_anything_an_id_may_be(hand, task_id):
    hand.end(hand.start(task_id), Succeed(b"1"))
    assert (hand.task(task_id).id, hand.task(task_id).result) == (task_id, b"1")


@pytest.mark.parametrize("name", ["a", "9", "_", "t" * 128, "mod.sub:Class-name_1", string.ascii_letters + "._:-0123"])
def test_a_type_may_be_anything_a_type_may_be(store, name):
    hand = Hand(store, types=[name])
    hand.end(hand.start("a", type=name))
    assert hand.task("a").type == name
    assert store.inspect.counters("default")[name]["succeeded"] == 1
    assert store.events.tail("default", 1)[0].task_type == name


@pytest.mark.parametrize("queue", ["a", "0", "q" * 64, "a-b_c-9"])
def test_a_queue_may_be_anything_a_queue_may_be(store, queue):
    hand = Hand(store, queue=queue)
    hand.end(hand.start("a"))
    assert store.inspect.queues() == [queue]
    assert store.inspect.get("a").queue == queue


def test_types_that_are_similar_stay_apart(store):
    hand = Hand(store, types=["a", "a.b", "a:b"])
    store.intake.submit([NewTask(id=f"t{n}", type=each) for n, each in enumerate(["a", "a.b", "a:b"])])
    hand.end_all(hand.claim())
    assert {name: totals["succeeded"] for name, totals in store.inspect.counters("default").items()} == {
        "a": 1,
        "a.b": 1,
        "a:b": 1,
    }


@pytest.mark.parametrize(
    "retry",
    [
        RetryPolicy(),
        RetryPolicy(1, 0, 0, 0.0),
        RetryPolicy(100, 315_360_000_000, 315_360_000_000, 1.0),
        RetryPolicy(3, 1, 2, 0.125),
    ],
)
def test_retry_numbers_come_back_exactly(hand, retry):
    assert hand.start("a", retry=retry).retry == retry
    assert hand.task("a").retry == retry


@pytest.mark.parametrize("timeout_ms", [1, 300_000, 86_400_000])
def test_a_timeout_comes_back_exactly(hand, timeout_ms):
    claim = hand.start("a", timeout_ms=timeout_ms)
    assert (claim.timeout_ms, claim.deadline_ms - claim.started_ms) == (timeout_ms, timeout_ms)
    assert hand.task("a").timeout_ms == timeout_ms


# Errors


HOSTILE = AttemptError("Über\nError", 'line\n"two" \u2028 \x00 {tag}', "Traceback …\n" + "x" * 4000, 3, "w 1", 7, 9)


def test_an_error_is_kept_with_attempt_worker_and_times(hand, store):
    claim = hand.start("a")
    given = AttemptError("ValueError", "no", "Traceback", claim.attempt, claim.worker, claim.started_ms)
    before = store.now_ms()
    hand.end(claim, Reschedule(given, 60_000))
    (kept,) = hand.task("a").errors
    assert (kept.type, kept.message, kept.traceback) == ("ValueError", "no", "Traceback")
    assert (kept.attempt, kept.worker, kept.started_ms) == (1, "w1", claim.started_ms)
    assert before <= kept.ended_ms <= store.now_ms()


@pytest.mark.parametrize("end", [Reschedule(HOSTILE, 60_000), DeadLetter(HOSTILE, "max_attempts"), Cancel(HOSTILE)])
def test_hostile_errors_are_kept_and_break_nothing(hand, store, end):
    hand.end(hand.start("a"), end)
    (kept,) = hand.task("a").errors
    assert (kept.type, kept.message, kept.traceback) == (HOSTILE.type, HOSTILE.message, HOSTILE.traceback)
    assert store.events.tail("default", 1)[0].task_id == "a"


@both
def test_the_last_ten_errors_are_kept_oldest_first(hand):
    hand.submit("a")
    for n in range(13):
        hand.end(hand.claim_one("a"), Reschedule(error(f"number {n}"), 0))
    assert [each.message for each in hand.task("a").errors] == [f"number {n}" for n in range(3, 13)]


@pytest.mark.keeps_keys
def test_an_error_that_cannot_be_read_back_says_so(hand, store, client):
    hand.end(hand.start("a"), Reschedule(error(), 60_000))
    client.rpush(store.keys.errors("default", "a"), b"\xff no json")
    assert [each.type for each in hand.task("a").errors] == ["ValueError", "Unreadable"]


def test_a_hostile_idempotency_key_breaks_nothing(hand):
    key = "k} {default} L\u00a0" + "é" * 50
    assert hand.submit("a", "b", idempotency_key=key)[1].outcome is SubmitOutcome.DUPLICATE
    assert hand.task("a").status is TaskStatus.QUEUED

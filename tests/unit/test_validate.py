"""What a task must look like: each wrong field is refused by name, with a hint."""

import math
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from dtq_engine import validate
from dtq_engine.config import Settings
from dtq_engine.errors import InvalidTask, PayloadTooLarge
from dtq_engine.model import NewTask, RetryPolicy

SETTINGS = Settings()
TASK = NewTask(id="t1", type="mail.send", payload=b'{"to":"a@b.c"}')
TEN_YEARS_MS = 315_360_000_000


def changed(**changes: Any) -> NewTask:
    return replace(TASK, **changes)


def refusal(under: Settings = SETTINGS, /, **changes: Any) -> InvalidTask:
    with pytest.raises(InvalidTask) as refused:
        validate.check(changed(**changes), under)
    return refused.value


def test_an_ordinary_task_passes():
    validate.check(TASK, SETTINGS)


def test_checking_an_ordinary_task_takes_microseconds():
    def once() -> float:
        start = time.perf_counter()
        for _ in range(1000):
            validate.check(TASK, SETTINGS)
        return (time.perf_counter() - start) / 1000

    assert min(once() for _ in range(10)) < 20e-6  # some 3 µs; the rest is for slow and busy machines


@pytest.mark.parametrize("good", ["a", "0", "a-b_c", "a" * 64])
def test_good_queue_names_pass(good):
    validate.check(replace(TASK, queue=good), SETTINGS)


@pytest.mark.parametrize("bad", ["", "A", "-a", "a b", "a" * 65, "a\n", "ä", "a:b", "{a}", None, 5, b"a", ["a"]])
def test_bad_queue_names_are_refused(bad):
    assert refusal(queue=bad).field == "queue"


def test_a_queue_that_is_not_on_the_list_is_refused_with_the_list():
    only = Settings(queues=("default", "mail"))
    validate.check(replace(TASK, queue="mail"), only)
    assert "default, mail" in str(refusal(only, queue="other"))


@pytest.mark.parametrize("good", ["a", "_x", "9", "Reports.Build:v2-x", "a" * 128])
def test_good_types_pass(good):
    validate.check(replace(TASK, type=good), SETTINGS)


@pytest.mark.parametrize("bad", ["", ".a", "-a", "a b", "a" * 129, "a\n", "ä", None, 5, b"a"])
def test_bad_types_are_refused(bad):
    assert refusal(type=bad).field == "type"


@pytest.mark.parametrize("bad", ["", "a b", "a" * 65, "a.b", "a\n", "ä", None, 5])
def test_bad_ids_are_refused(bad):
    assert refusal(id=bad).field == "id"


@pytest.mark.parametrize(
    "bad",
    [b"", b"[]", b"null", b"1", b'{"a":NaN}', b'{"a":1e999}', b'{"a"}', b"\xff", "{}", None, {}, bytearray(b"{}")],
)
def test_a_payload_that_is_no_json_object_is_refused(bad):
    assert refusal(payload=bad).field == "payload"


def test_a_payload_that_is_nested_too_deeply_is_refused():
    assert "nested" in str(refusal(payload=b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"))
    assert "nested" in str(refusal(payload=b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}"))


def test_a_payload_may_have_exactly_as_many_bytes_as_allowed():
    small = Settings(max_payload_bytes=10)
    validate.check(replace(TASK, payload=b'{"a":"bc"}'), small)
    error = refusal(small, payload=b'{"a":"bcd"}')
    assert isinstance(error, PayloadTooLarge)
    assert "11 bytes, and 10 are allowed" in str(error)


@pytest.mark.parametrize("good", [{}, {"a": "b"}, {"": ""}, {"traceparent": "00-" + "a" * 60, "ü": "ü"}])
def test_good_headers_pass(good):
    validate.check(replace(TASK, headers=good), SETTINGS)


@pytest.mark.parametrize("bad", [{"a": 1}, {1: "a"}, {"a": None}, ["a"], "ab", {"a": "\ud800"}, {"a": b"b"}])
def test_headers_that_are_not_strings_are_refused(bad):
    assert refusal(headers=bad).field == "headers"


def test_headers_over_4_kib_are_refused():
    validate.check(replace(TASK, headers={"a": "b" * (4096 - 8)}), SETTINGS)
    assert isinstance(refusal(headers={"a": "b" * (4096 - 7)}), PayloadTooLarge)


NO_NUMBERS = [None, True, "1", 1.0, math.nan, math.inf, [1]]
BOUNDS = {
    "priority": (0, 9),
    "delay_ms": (0, TEN_YEARS_MS),
    "timeout_ms": (1, 86_400_000),
    "expires_in_ms": (1, TEN_YEARS_MS),
}


@pytest.mark.parametrize("field", BOUNDS)
def test_numbers_pass_up_to_their_bounds_and_no_further(field):
    low, high = BOUNDS[field]
    for good in (low, high):
        validate.check(changed(**{field: good}), SETTINGS)
    for bad in (low - 1, high + 1, *(NO_NUMBERS if field != "expires_in_ms" else NO_NUMBERS[1:])):
        error = refusal(**{field: bad})
        assert error.field == field
        assert f"from {low} to {high}" in str(error)


def test_a_start_may_lie_in_the_past_but_not_ten_years_ahead():
    now_ms = int(time.time() * 1000)
    for good in (0, now_ms - 1000, now_ms + TEN_YEARS_MS - 10_000):
        validate.check(replace(TASK, run_at_ms=good), SETTINGS)
    for bad in (-1, now_ms + TEN_YEARS_MS + 10_000, 1.5, True, "2026"):
        assert refusal(run_at_ms=bad).field == "run_at_ms"


@pytest.mark.parametrize("bad", [0, 101, -1, True, 2.0, "3"])
def test_attempts_are_between_1_and_100(bad):
    assert refusal(retry=RetryPolicy(max_attempts=bad)).field == "max_attempts"


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, True, "0.5", None])
def test_jitter_is_between_0_and_1(bad):
    assert refusal(retry=RetryPolicy(jitter=bad)).field == "retry_jitter"


@pytest.mark.parametrize("field", ["base_delay_ms", "max_delay_ms"])
@pytest.mark.parametrize("bad", [-1, TEN_YEARS_MS + 1, 1.5, True, None])
def test_retry_delays_are_between_0_and_ten_years(field, bad):
    assert refusal(retry=replace(RetryPolicy(), **{field: bad})).field == f"retry_{field}"


@pytest.mark.parametrize("good", ["a", "order 7/ü", "x" * 255, "ü" * 127])
def test_good_idempotency_keys_pass(good):
    validate.check(replace(TASK, idempotency_key=good), SETTINGS)


@pytest.mark.parametrize("bad", ["", "x" * 256, "ü" * 128, "a\n", "a\x00", "\ud800", 5, b"a"])
def test_bad_idempotency_keys_are_refused(bad):
    assert refusal(idempotency_key=bad).field == "idempotency_key"


@pytest.mark.parametrize("field", ["keep_result", "restartable"])
def test_a_flag_is_true_or_false(field):
    for bad in (None, 0, 1, "yes"):
        assert refusal(**{field: bad}).field == field


def test_a_message_shows_little_of_a_large_value():
    assert len(str(refusal(queue="x" * 10_000))) < 250


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_a_time_out_of_range_is_named_as_it_was_given(year):
    with pytest.raises(InvalidTask) as error:
        validate.instant_ms("run_at", datetime(year, 12, 31, 23, 59, tzinfo=UTC))
    assert str(error.value) == (
        f"run_at cannot be {year:04}-12-31T23:59:00+00:00: use a time from 1970 to ten years from now."
    )


def test_a_value_without_repr_is_refused_all_the_same():
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "something of type Hostile" in str(refusal(queue=Hostile()))


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [(0, 0), (1, 1000), (0.25, 250), (0.0004, 0), (timedelta(days=1), 86_400_000), (timedelta(microseconds=1500), 2)],
)
def test_a_duration_is_seconds_or_a_timedelta(given, milliseconds):
    assert validate.duration_ms("delay", given) == milliseconds


@pytest.mark.parametrize(
    "bad",
    [-1, -0.001, math.nan, math.inf, True, "5", None, timedelta(seconds=-1), 10**9, 10**400, timedelta(days=4000)],
)
def test_a_bad_duration_is_refused_by_its_name(bad):
    with pytest.raises(InvalidTask, match="use seconds from 0 to 315360000") as refused:
        validate.duration_ms("delay", bad)
    assert refused.value.field == "delay"


@pytest.mark.parametrize("bad", [0, 0.0001, 86_401])
def test_a_timeout_is_positive_and_at_most_a_day(bad):
    with pytest.raises(InvalidTask):
        validate.timeout_ms(bad)


def test_an_instant_needs_a_time_zone():
    east = timezone(timedelta(hours=2))
    assert validate.instant_ms("run_at", datetime(1970, 1, 1, 2, 0, 1, tzinfo=east)) == 1000
    assert validate.instant_ms("run_at", datetime(2026, 10, 1, 12, 30, 0, 123_999, UTC)) == 1_790_857_800_123
    for bad in (datetime(2026, 10, 1), 5, "2026-10-01T00:00:00Z", None):  # noqa: DTZ001
        with pytest.raises(InvalidTask, match="time zone"):
            validate.instant_ms("run_at", bad)


@pytest.mark.parametrize("bad", [None, "mail.send", {"type": "mail.send"}, NewTask])
def test_only_a_new_task_is_a_task(bad):
    with pytest.raises(InvalidTask, match="use a NewTask"):
        validate.check(bad, SETTINGS)


def test_a_retry_policy_is_not_optional():
    assert refusal(retry=None).field == "retry"


@pytest.mark.parametrize(("delay_ms", "expires_in_ms", "fits"), [(5, 4, False), (5, 5, False), (5, 6, True)])
def test_a_task_whose_time_is_over_before_it_may_start_is_refused(delay_ms, expires_in_ms, fits):
    validate.check(changed(delay_ms=delay_ms, expires_in_ms=expires_in_ms, run_at_ms=1), SETTINGS)
    if fits:
        validate.check(changed(delay_ms=delay_ms, expires_in_ms=expires_in_ms), SETTINGS)
    else:
        refused = refusal(delay_ms=delay_ms, expires_in_ms=expires_in_ms)
        assert (refused.field, "could never start" in str(refused)) == ("expires_in", True)

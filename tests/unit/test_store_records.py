"""Records to and from the model, and how work is cut into calls."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtq_engine.model import AttemptError, RetryPolicy, TaskStatus
from dtq_engine.store import records, states
from dtq_engine.store.base import CALL_MAX_BYTES, chunks

COUNTS = st.integers(0, 10**12)


@given(COUNTS, COUNTS, COUNTS, st.integers(0, 1000), COUNTS)
def test_limits_come_back_as_they_were_packed(attempts, base, most, jitter, timeout):
    policy = RetryPolicy(attempts, base, most, jitter / 1000)
    assert records.unpack_limits(records.pack_limits(policy, timeout).encode()) == (policy, timeout)


UNREADABLE = [b"", b"1 2 3", b"a b c d e", b"1 2 3 4 5 6", b"\xff", b"1 2 3 4 " + b"9" * 15, b"9" * 5000 + b" 2 3 4 5"]


@pytest.mark.parametrize("packed", UNREADABLE)
def test_unreadable_limits_are_the_defaults(packed):
    assert records.unpack_limits(packed) == (RetryPolicy(), 0)


@given(st.builds(AttemptError, st.text(), st.text(), st.text(), st.integers(0, 99), st.text(), COUNTS, COUNTS))
def test_an_error_comes_back_with_the_time_redis_put_in_front(error):
    read = records.decode_error(b"123 " + records.encode_error(error))
    assert (read.type, read.message, read.traceback) == (error.type[:200], error.message, error.traceback)
    assert (read.attempt, read.worker, read.started_ms, read.ended_ms) == (
        error.attempt,
        error.worker,
        error.started_ms,
        123,
    )


@given(st.binary())
def test_whatever_is_in_a_history_is_read_as_an_error(item):
    assert isinstance(records.decode_error(item), AttemptError)


@given(st.dictionaries(st.binary(max_size=2), st.binary(max_size=20)))
def test_whatever_is_in_a_record_is_read_or_is_none(fields):
    records.decode_task("q", "a", fields, lambda _: None)
    records.decode_task("q", "a", {**fields, b"s": b"Q", b"t": b"mail"}, lambda _: None)


@given(st.binary() | st.lists(st.binary(), min_size=6, max_size=6) | st.lists(st.binary(), min_size=13, max_size=13))
def test_whatever_a_script_says_of_a_task_is_read_as_a_claim(described):
    claim = records.decode_claim(described, "default", "w", "t")
    assert (claim.queue, claim.token) == ("default", "t")


@pytest.mark.parametrize("at", range(11))
def test_one_unreadable_word_of_a_claim_leaves_the_others(at):
    words = b"a mail 1-1 t 2 3 1000 9 5 1795986779688 1 2 3 4 5".split(b" ")
    words[at] = b"\xff"
    claim = records.decode_claim(b" ".join(words) + b"\n{}", "default", "w", "t")
    read = (claim.task_id, claim.type, claim.payload, claim.entry)
    assert sum(each == right for each, right in zip(read, ("a", "mail", b"{}", "1-1"), strict=True)) >= 3


@given(st.binary())
def test_whatever_is_in_headers_is_read_as_headers(raw):
    assert isinstance(records.decode_headers(raw), dict)


@pytest.mark.parametrize(
    ("state", "status"), [("Q", TaskStatus.QUEUED), (b"S", TaskStatus.SUCCEEDED), ("x", None), (b"", None)]
)
def test_states_stand_for_statuses(state, status):
    assert states.status_of(state) is status


def test_every_status_has_a_state_of_its_own():
    assert sorted(states.STATES.values()) == sorted(TaskStatus)


# Chunks

SIZES = st.lists(st.integers(0, CALL_MAX_BYTES + 5))


@given(SIZES, st.integers(1, 20))
def test_chunks_lose_nothing_and_keep_the_order(sizes, most):
    parts = list(chunks(range(len(sizes)), sizes, most))
    assert [item for part in parts for item in part] == list(range(len(sizes)))


@given(SIZES, st.integers(1, 20))
def test_a_chunk_keeps_to_its_limits_unless_a_single_item_breaks_them(sizes, most):
    for part in chunks(range(len(sizes)), sizes, most):
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(sizes[item] for item in part) <= CALL_MAX_BYTES


@given(SIZES, st.integers(1, 20))
def test_no_chunk_is_cut_before_it_must_be(sizes, most):
    parts = list(chunks(range(len(sizes)), sizes, most))
    for part, following in pairwise(parts):
        assert len(part) == most or sum(sizes[item] for item in (*part, following[0])) > CALL_MAX_BYTES

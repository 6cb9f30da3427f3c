"""What follows an execution, for each way it can end."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dtq_engine.model import (
    AskedRetry,
    AskedSnooze,
    AttemptError,
    Cancel,
    Claim,
    DeadLetter,
    LeaseExpired,
    Outcome,
    Postpone,
    Raised,
    Release,
    Reschedule,
    RetryPolicy,
    Returned,
    ShutDown,
    Succeed,
    TimedOut,
    Transition,
    WasCancelled,
)
from dtq_engine.policy import RESTART_LIMIT, backoff_ms, decide

ERROR = AttemptError("ValueError", "boom")
CLAIM = Claim(
    task_id="t",
    queue="default",
    type="mail",
    payload=b"{}",
    token="k",
    entry="1-1",
    priority=5,
    attempt=1,
    fence=1,
    worker="w",
    created_ms=0,
    started_ms=0,
    deadline_ms=1000,
    timeout_ms=1000,
    lease_ms=1000,
    retry=RetryPolicy(max_attempts=3, base_delay_ms=1000, max_delay_ms=60_000, jitter=0.2),
)

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 100),
    base_delay_ms=st.integers(0, 10**12),
    max_delay_ms=st.integers(0, 10**12),
    jitter=st.floats(0, 1),
)
lucks = st.floats(-1, 1)
claims = st.builds(
    lambda retry, attempt, restarts, expiries, restartable: replace(
        CLAIM, retry=retry, attempt=attempt, restarts=restarts, lease_expiries=expiries, restartable=restartable
    ),
    policies,
    st.integers(1, 100),
    st.integers(0, 50),
    st.integers(0, 10),
    st.booleans(),
)
failures = st.sampled_from(
    [
        Raised(ERROR),
        Raised(ERROR, permanent=True),
        Raised(ERROR, delay_ms=7),
        TimedOut(ERROR),
        LeaseExpired(ERROR),
        AskedRetry(ERROR, 5),
        ShutDown(ERROR),
    ]
)


def follows(outcome: Outcome, claim: Claim = CLAIM, luck: float = 0.0) -> Transition:
    return decide(claim, outcome, luck=luck, max_lease_expiries=3)


def test_a_returned_value_is_a_success():
    assert follows(Returned(b"1")) == Succeed(b"1")


def test_a_preview_keeps_its_true_size():
    assert follows(Returned(b"[1,", 5000)) == Succeed(b"[1,", 5000)


@pytest.mark.parametrize("outcome", [Raised(ERROR), TimedOut(ERROR), LeaseExpired(ERROR)])
def test_a_failure_is_tried_again_after_a_delay(outcome):
    assert follows(outcome) == Reschedule(ERROR, 1000)


@pytest.mark.parametrize("outcome", [Raised(ERROR), TimedOut(ERROR), LeaseExpired(ERROR), AskedRetry(ERROR, 5)])
def test_the_last_attempt_is_followed_by_a_dead_letter(outcome):
    assert follows(outcome, replace(CLAIM, attempt=3)) == DeadLetter(ERROR, "max_attempts")


@pytest.mark.parametrize("kind", [Raised, TimedOut, LeaseExpired])
def test_a_permanent_failure_is_not_tried_again(kind):
    assert follows(kind(ERROR, permanent=True)) == DeadLetter(ERROR, "permanent")


@pytest.mark.parametrize("kind", [Raised, TimedOut, LeaseExpired])
def test_a_delay_that_a_callback_chose_is_kept_as_it_is(kind):
    assert follows(kind(ERROR, delay_ms=0), luck=1) == Reschedule(ERROR, 0)
    assert follows(kind(ERROR, delay_ms=77), luck=1) == Reschedule(ERROR, 77)


def test_a_handler_that_asks_for_a_retry_gets_the_delay_it_asked_for():
    assert follows(AskedRetry(ERROR, 12), luck=1) == Reschedule(ERROR, 12)


def test_a_snooze_does_not_count_even_on_the_last_attempt():
    assert follows(AskedSnooze(12), replace(CLAIM, attempt=3)) == Postpone(12)


def test_a_handler_that_gave_way_to_a_cancel_is_cancelled():
    assert follows(WasCancelled(ERROR)) == Cancel(ERROR)


def test_a_task_of_a_stopping_worker_is_given_back():
    assert follows(ShutDown(ERROR), replace(CLAIM, attempt=3)) == Release()


def test_a_task_with_a_single_attempt_is_not_started_twice_by_a_shutdown():
    once = replace(CLAIM, retry=dataclasses.replace(CLAIM.retry, max_attempts=1))
    assert follows(ShutDown(ERROR), once) == DeadLetter(ERROR, "max_attempts")
    assert follows(ShutDown(ERROR), replace(once, restartable=True)) == Release()


def test_a_task_that_lost_three_workers_kills_no_fourth():
    assert follows(LeaseExpired(ERROR), replace(CLAIM, lease_expiries=2)) == Reschedule(ERROR, 1000)
    assert follows(LeaseExpired(ERROR), replace(CLAIM, lease_expiries=3)) == DeadLetter(ERROR, "worker_lost")


def test_the_twenty_first_restart_is_one_too_many():
    twenty = replace(CLAIM, restarts=RESTART_LIMIT)
    assert follows(ShutDown(ERROR), replace(CLAIM, restarts=RESTART_LIMIT - 1)) == Release()
    assert follows(ShutDown(ERROR), twenty) == DeadLetter(ERROR, "restart_loop")
    assert follows(LeaseExpired(ERROR), twenty) == Reschedule(ERROR, 1000)  # the reclaim counted it already
    assert follows(LeaseExpired(ERROR), replace(twenty, restarts=21)) == DeadLetter(ERROR, "restart_loop")


def test_delays_double_up_to_the_longest_one():
    delays = [backoff_ms(CLAIM.retry, attempt, 0) for attempt in range(1, 9)]
    assert delays == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]


def test_jitter_reaches_both_ways():
    assert [backoff_ms(CLAIM.retry, 1, luck) for luck in (-1, -0.5, 0, 1)] == [800, 900, 1000, 1200]


def test_a_delay_of_zero_stays_zero():
    assert backoff_ms(dataclasses.replace(CLAIM.retry, base_delay_ms=0), 50, 1) == 0


@given(policies, st.integers(1, 100), lucks)
def test_a_delay_is_within_the_jitter_around_its_nominal_length(policy, attempt, luck):
    nominal = min(policy.max_delay_ms, policy.base_delay_ms * 2 ** (attempt - 1))
    delay = backoff_ms(policy, attempt, luck)
    assert isinstance(delay, int)
    assert nominal * (1 - policy.jitter) - 1 <= delay <= nominal * (1 + policy.jitter) + 1
    assert delay >= 0


@given(policies, st.integers(1, 99))
def test_without_jitter_delays_never_shrink(policy, attempt):
    assert backoff_ms(policy, attempt, 0) <= backoff_ms(policy, attempt + 1, 0)


@given(claims, failures, lucks, st.integers(1, 100))
def test_no_attempt_follows_the_last_one(claim, outcome, luck, expiries):
    transition = decide(claim, outcome, luck=luck, max_lease_expiries=expiries)
    if claim.attempt >= claim.retry.max_attempts:
        assert not isinstance(transition, Reschedule)


@given(claims, failures, lucks)
def test_a_failure_never_becomes_a_success_and_never_loses_its_error(claim, outcome, luck):
    transition = decide(claim, outcome, luck=luck, max_lease_expiries=3)
    assert isinstance(transition, Reschedule | DeadLetter | Release)
    assert isinstance(transition, Release) or transition.error == ERROR


@given(claims, lucks)
def test_a_task_is_given_back_without_end_by_nobody(claim, luck):
    given_back = decide(replace(claim, restarts=RESTART_LIMIT), ShutDown(ERROR), luck=luck, max_lease_expiries=3)
    assert not isinstance(given_back, Release)


def test_numbers_of_any_size_in_a_damaged_record_give_a_delay() -> None:
    damaged = RetryPolicy(base_delay_ms=10**400, max_delay_ms=10**400, jitter=0.5)
    assert backoff_ms(damaged, 10**18, 1) == backoff_ms(damaged, 1, 1) < 2**53

"""What follows an execution: pure decisions over values, never I/O."""

from typing import assert_never

from dtq_engine.model import (
    AskedRetry,
    AskedSnooze,
    AttemptError,
    Cancel,
    Claim,
    DeadLetter,
    HandedOver,
    LeaseExpired,
    Misfit,
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

LONGEST_MS = 10**15
RESTART_LIMIT = 20
"""How often a task may be given back or lost in a row before it counts as the cause."""


def decide(claim: Claim, outcome: Outcome, *, luck: float, max_lease_expiries: int) -> Transition:
    """What to do with a task whose execution ended in `outcome`.

    `luck` in [-1, 1] spreads retries over their jitter. A claim whose lease expired has that expiry counted
    already, in `restarts` and `lease_expiries`.
    """
    match outcome:
        case Returned(value, size):
            return Succeed(value, size)
        case Misfit(error):
            return DeadLetter(error, "permanent")
        case WasCancelled(error):
            return Cancel(error)
        case AskedSnooze(delay_ms):
            return Postpone(delay_ms)
        case AskedRetry(error, delay_ms):
            return _retry(claim, error, delay_ms, luck)
        case Raised(error, permanent, delay_ms) | TimedOut(error, permanent, delay_ms):
            return DeadLetter(error, "permanent") if permanent else _retry(claim, error, delay_ms, luck)
        case LeaseExpired():
            return _lost(claim, outcome, luck, max_lease_expiries)
        case ShutDown() | HandedOver():
            return _give_back(claim, outcome, luck)
        case _:
            assert_never(outcome)


def backoff_ms(policy: RetryPolicy, attempt: int, luck: float) -> int:
    """Milliseconds from the end of attempt number `attempt` to the next one.

    min(max, base * 2^(attempt - 1)) * (1 + jitter * luck), never negative.
    """
    # The last two are bounds for damaged records only, whose numbers may have any number of digits.
    delay = min(policy.max_delay_ms, policy.base_delay_ms << min(64, max(0, attempt - 1)), LONGEST_MS)
    return max(0, round(delay * (1 + policy.jitter * luck)))


def _retry(claim: Claim, error: AttemptError, delay_ms: int | None, luck: float) -> Transition:
    if claim.attempt >= claim.retry.max_attempts:
        return DeadLetter(error, "max_attempts")
    return Reschedule(error, backoff_ms(claim.retry, claim.attempt, luck) if delay_ms is None else delay_ms)


def _lost(claim: Claim, outcome: LeaseExpired, luck: float, max_lease_expiries: int) -> Transition:
    if claim.restarts > RESTART_LIMIT:
        return DeadLetter(outcome.error, "restart_loop")
    if claim.lease_expiries >= max_lease_expiries:
        return DeadLetter(outcome.error, "worker_lost")
    if outcome.permanent:
        return DeadLetter(outcome.error, "permanent")
    return _retry(claim, outcome.error, outcome.delay_ms, luck)


def _give_back(claim: Claim, outcome: ShutDown | HandedOver, luck: float) -> Transition:
    """A handler that hands over means it; an execution that saved something has brought its task on."""
    if isinstance(outcome, ShutDown) and claim.retry.max_attempts == 1 and not claim.restartable:
        return _retry(claim, outcome.error, None, luck)
    if not outcome.saved and claim.restarts >= RESTART_LIMIT:
        return DeadLetter(outcome.error, "restart_loop")
    return Release(restarts=not outcome.saved)

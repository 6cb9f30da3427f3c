"""Asking a task's own `retry` callback, which is the user's code and may hang or raise."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeGuard

from dtq_engine.model import Claim, LeaseExpired, Outcome, Raised, TimedOut
from dtq_engine.registry import RetryCallback
from dtq_engine.worker.outcomes import MAX_DELAY_S

log = logging.getLogger("dtq.worker")

LIMIT_S = 1.0

Failure = Raised | TimedOut | LeaseExpired
Question = tuple[Failure, RetryCallback, BaseException]


def may_decide(outcome: Outcome, claim: Claim) -> TypeGuard[Failure]:
    """Whether a retry callback has a say: in failures that neither end the task for good nor use up its attempts."""
    return isinstance(outcome, Failure) and not outcome.permanent and claim.attempt < claim.retry.max_attempts


def ask(questions: Sequence[Question], limit_s: float = LIMIT_S) -> list[Failure]:
    """Each failure with what its callback answered, all of them within `limit_s`.

    A number of seconds becomes the delay, None makes the failure permanent. A callback that raises, hangs or
    answers anything else leaves the decision to the task's retry numbers.
    """
    answers: SimpleQueue[tuple[int, Failure]] = SimpleQueue()
    for position, question in enumerate(questions):
        target = partial(_ask_one, position, question, answers)
        threading.Thread(target=target, name="dtq-retry-callback", daemon=True).start()
    decided: list[Failure] = [failure for failure, _, _ in questions]
    deadline = monotonic() + limit_s
    for _ in questions:
        try:
            position, failure = answers.get(timeout=max(0.0, deadline - monotonic()))
        except Empty:
            log.warning("a retry callback took longer than %g s: the task's retry numbers decide", limit_s)
            break
        decided[position] = failure
    return decided


def _ask_one(position: int, question: Question, answers: "SimpleQueue[tuple[int, Failure]]") -> None:
    failure, callback, error = question
    try:
        failure = _apply(failure, callback(error, failure.error.attempt))
    except BaseException:
        log.exception("a retry callback failed: the task's retry numbers decide")
    answers.put((position, failure))


def _apply(failure: Failure, answer: object) -> Failure:
    if answer is None:
        return replace(failure, permanent=True)
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise TypeError(f"a retry callback must return seconds or None, not {answer!r}")
    if not 0 <= answer <= MAX_DELAY_S:  # neither is NaN
        raise ValueError(f"a retry callback must return 0 to {MAX_DELAY_S} seconds, not {answer!r}")
    return replace(failure, delay_ms=round(answer * 1000))

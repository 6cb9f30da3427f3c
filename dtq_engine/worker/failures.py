"""Telling an app's `on_failure` hooks, which are the user's code and may be slow or raise."""

import logging
import threading
import time
from contextlib import suppress
from queue import Full, Queue

from dtq_engine.around import name_of
from dtq_engine.hooks import Failure, Hooks
from dtq_engine.model import AttemptError, Claim, DeadLetter, Reschedule, Settled, Transition
from dtq_engine.worker.event_loop import EventLoop
from dtq_engine.worker.logs import facts, title

log = logging.getLogger("dtq.worker")

ROOM = 10_000
COUNTED = frozenset({Settled.OK, Settled.DUP})

Told = tuple[Claim, Failure]


class Failures:
    """Calls the hooks in a thread of its own, one failure after the other, once Redis has recorded it.

    Up to 10,000 failures wait for slow hooks; those beyond are dropped, which is logged. Nothing is started
    before there is something to tell.
    """

    def __init__(self, hooks: Hooks, loop: EventLoop) -> None:
        self._hooks = hooks
        self._loop = loop
        self._waiting: Queue[Told | None] = Queue(ROOM)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._dropped = 0
        self._closed = False
        self._now: str = "(none)"

    def tell(
        self, claim: Claim, transition: Transition, answer: Settled, exception: BaseException | None = None
    ) -> None:
        """Tell of an execution that has ended so, if that is a failure that Redis has recorded."""
        if not self._hooks.failure or answer not in COUNTED:
            return
        match transition:
            case DeadLetter(error, reason):
                self._put((claim, _failure(claim, error, exception, reason=reason)))
            case Reschedule(error, delay_ms):
                self._put((claim, _failure(claim, error, exception, retry_in_s=delay_ms / 1000)))
            case _:
                pass

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` until all have been told."""
        thread = self._thread
        if thread is None:
            return
        deadline = time.monotonic() + timeout_s
        with suppress(Full):
            self._waiting.put(None, timeout=timeout_s)
        thread.join(max(0.0, deadline - time.monotonic()))
        self._closed = True
        if thread.is_alive():
            log.error("the hook %s is too slow: the last failures were not told", self._now)

    def _put(self, told: Told) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="dtq-failures", daemon=True)
                self._thread.start()
        try:
            self._waiting.put_nowait(told)
        except Full:
            self._dropped += 1
            # Now and then: a log line for each would be the next thing to overflow.
            if self._dropped % 1000 == 1:
                log.error("the hook %s is too slow: %d failures were not told", self._now, self._dropped)

    def _work(self) -> None:
        while (told := self._waiting.get()) is not None and not self._closed:
            claim, failure = told
            for hook in self._hooks.failure:
                self._now = f"on_failure {name_of(hook)} for {title(claim)}"
                try:
                    self._loop.finish(hook(failure))
                except Exception:
                    log.exception("the hook %s failed", self._now, extra=facts(claim))


def _failure(
    claim: Claim,
    error: AttemptError,
    exception: BaseException | None,
    *,
    reason: str | None = None,
    retry_in_s: float | None = None,
) -> Failure:
    return Failure(
        task_id=claim.task_id,
        type=claim.type,
        queue=claim.queue,
        attempt=claim.attempt,
        max_attempts=claim.retry.max_attempts,
        error=error,
        final=reason is not None,
        reason=reason,
        retry_in_s=retry_in_s,
        exception=exception,
        headers=claim.headers,
    )

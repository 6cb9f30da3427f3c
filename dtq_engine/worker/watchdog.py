"""Policing what cannot police itself: deadlines, threads that do not return, a loop that is blocked."""

import logging
import time
from collections.abc import Callable

from dtq_engine.worker.execution import Cause, Execution
from dtq_engine.worker.executor import Executor
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.logs import facts, title
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage

log = logging.getLogger("dtq.worker")

TICK_S = 0.1
SILENCE_S = 5.0
HOPELESS = 10
COOPERATION_S = 1.0
ALIVE_S = 1.0
LOOP_PATIENCE_S = 20.0
NOBODYS_S = 60.0


class Watchdog(Loop):
    """Ends executions at their deadlines, and the worker when too many of its threads are stuck.

    `give_up` is told once, with the reason, when an execution is overdue by 10 times its timeout or half of
    the slots are held by overdue ones; when what blocks the event loop is overdue by that much, or by 20 s; and when
    the loop is blocked for a minute by what has no deadline. `show_life` is called once a second while `is_alive`
    says so.
    """

    name = "watchdog"

    def __init__(
        self,
        *,
        inflight: InFlight,
        executor: Executor,
        give_up: Callable[[str], None],
        is_alive: Callable[[], bool],
        show_life: Callable[[], None],
        outage: Outage,
    ) -> None:
        super().__init__(outage, TICK_S)
        self._inflight = inflight
        self._executor = executor
        self._give_up = give_up
        self._gave_up = False
        self._is_alive = is_alive
        self._show_life = show_life
        self._shown_at = 0.0
        self._silent = False
        self._rests_until = 0.0

    def lets_claim(self) -> bool:
        """Whether new tasks would make progress: not while the event loop is blocked, or was just now."""
        return not self._silent and time.monotonic() >= self._rests_until

    def step(self) -> None:
        """Look at everything once."""
        now = time.monotonic()
        overdue: list[Execution] = []
        for execution in self._inflight.running():
            if execution.deadline <= now and execution.cause is not Cause.TIMEOUT:
                self._overran(execution)
            if execution.overdue_since is not None:
                overdue.append(execution)
        self._judge(overdue, now)
        self._listen()
        if now - self._shown_at >= ALIVE_S and self._is_alive():
            self._shown_at = now
            self._show_life()

    def _overran(self, execution: Execution) -> None:
        claim = execution.claim
        if execution.never_began:
            # Without a rest it would be claimed and given back again and again.
            self._rests_until = time.monotonic() + SILENCE_S
            log.warning("%s is given back: the event loop never came to it", title(claim), extra=facts(claim))
        else:
            log.warning("%s passed its timeout of %g s", title(claim), claim.timeout_ms / 1000, extra=facts(claim))
        self._executor.time_out(execution)

    def _judge(self, overdue: list[Execution], now: float) -> None:
        if self._gave_up or not overdue:
            return
        hopeless = [each for each in overdue if now - each.deadline >= HOPELESS * each.claim.timeout_ms / 1000]
        # Handlers that look at `ctx.cancelled` get a moment to come back before they count as stuck.
        stuck = [each for each in overdue if now - each.deadline >= COOPERATION_S]
        if hopeless:
            self._end_worker(f"a thread is overdue by {HOPELESS} times its timeout ({hopeless[0].claim.type})")
        elif len(stuck) * 2 >= self._inflight.slots:
            self._end_worker(f"{len(stuck)} of {self._inflight.slots} slots are held by overdue threads")

    def _end_worker(self, reason: str) -> None:
        self._gave_up = True
        self._give_up(reason)

    def _listen(self) -> None:
        silent_s = self._executor.event_loop.silent_s()
        silent = silent_s >= SILENCE_S
        if silent and not self._silent:
            stack = self._executor.event_loop.stack()
            log.error("the event loop is blocked for %g s, and nothing is claimed meanwhile:\n%s", SILENCE_S, stack)
        elif self._silent and not silent:
            log.warning("the event loop goes on")
        self._silent = silent
        if silent and not self._gave_up:
            self._judge_loop(silent_s)

    def _judge_loop(self, silent_s: float) -> None:
        blocker = self._executor.blocker()
        if blocker is None:
            if silent_s >= NOBODYS_S:
                self._end_worker(f"the event loop is blocked for {NOBODYS_S:g} s")
            return
        timeout_s = blocker.claim.timeout_ms / 1000
        if time.monotonic() - blocker.deadline >= min(HOPELESS * timeout_s, LOOP_PATIENCE_S):
            self._end_worker(f"a handler blocks the event loop far beyond its timeout ({blocker.claim.type})")

"""How a worker leaves: nothing is lost, and no attempt is burnt."""

import logging
import threading
import time
from collections.abc import Callable

from dtq_engine import crash
from dtq_engine.errors import DtqError
from dtq_engine.model import Release
from dtq_engine.worker import outcomes
from dtq_engine.worker.execution import Cause
from dtq_engine.worker.parts import Parts

log = logging.getLogger("dtq.worker")

LOOK_S = 0.1
HALT_S = 0.3
HALT_MOST_S = 2.0
# A worker has a second after its drain time. The first two count from there, the last two follow one by one.
UNWIND_S = 0.25
LAST_CALL_S = 0.6
GOODBYE_S = 0.15
# Within the drain time there is more of it for saying so in each queue.
GOODBYE_MOST_S = 1.0
END_S = 0.15
# What the app's own hooks may add to that second.
FAILURES_S = 2.0


class Drain:
    """Claims no more, waits for what runs, gives back what is left, and says goodbye.

    `is_hurried` cuts the waiting short. Everything after the drain time is bounded, whatever Redis or the
    handlers do, so that the process ends within a second of it.
    """

    def __init__(self, parts: Parts, timeout_s: float, is_hurried: Callable[[], bool]) -> None:
        self._parts = parts
        self._timeout_s = timeout_s
        self._is_hurried = is_hurried

    def run(self) -> None:
        """Leave."""
        deadline = time.monotonic() + self._timeout_s
        self._stop_taking()
        crash.at("in-drain")
        if not self._wait_for_handlers(deadline):
            self._give_back()
        self._say_goodbye(deadline)
        self._parts.failures.close(FAILURES_S)
        self._parts.lifetime.end(self._is_hurried)
        self._end_loops(deadline)

    def _stop_taking(self) -> None:
        parts = self._parts
        parts.executor.announce_stop()
        for loop in (parts.scheduler, parts.schedule_watch, parts.housekeeper, parts.reaper):
            loop.stop()
        parts.poll.halt(min(HALT_MOST_S, max(HALT_S, self._timeout_s)))
        parts.waiting.close()
        if (children := parts.executor.children) is not None:
            children.dismiss()

    def _wait_for_handlers(self, deadline: float) -> bool:
        inflight = self._parts.inflight
        if inflight.taken:
            log.info("waits up to %g s for %d running tasks", self._timeout_s, inflight.taken)
        while not inflight.wait_until_empty(min(LOOK_S, deadline - time.monotonic())):
            if time.monotonic() >= deadline or self._is_hurried():
                return False
        return True

    def _give_back(self) -> None:
        """Cancel async handlers and end processes, then end whatever is left, as the last call."""
        inflight, begun = self._parts.inflight, time.monotonic()
        to_end = [each for each in inflight.running() if each.handler.is_async or each.handler.isolation is not None]
        for execution in to_end:
            self._parts.executor.interrupt(execution.key, Cause.SHUTDOWN)
        if to_end:
            inflight.wait_until_empty(UNWIND_S)
        left = inflight.running()
        for execution in left:
            shut_down = outcomes.verdict(execution, outcomes.shut_down(execution))
            inflight.settle(execution, Release() if execution.never_began else shut_down)
        if left:
            log.warning("gave back %d tasks that were still running", len(left))
        if not inflight.wait_until_empty(begun + LAST_CALL_S - time.monotonic()):
            log.error("Redis did not take it in time: %d tasks come back when their leases expire", inflight.taken)

    def _end_loops(self, drained_by: float) -> None:
        for loop in self._parts.loops:
            loop.stop()
        self._parts.executor.stop(drained_by - time.monotonic(), self._is_hurried)
        # Closed sockets end the calls that loops may still be in.
        self._parts.connection.close()
        deadline = time.monotonic() + END_S
        for loop in self._parts.loops:
            loop.join(max(0.0, deadline - time.monotonic()))

    def _say_goodbye(self, deadline: float) -> None:
        # In a thread of its own, because Redis may be away and nobody can wait for it long.
        goodbye = threading.Thread(target=self._leave, name="dtq-goodbye", daemon=True)
        goodbye.start()
        left_s = 0.0 if self._is_hurried() else deadline - time.monotonic()
        goodbye.join(max(GOODBYE_S, min(left_s, GOODBYE_MOST_S)))

    def _leave(self) -> None:
        try:
            self._parts.scheduler.release()
            self._parts.heartbeat.leave()
        except DtqError as error:
            log.debug("left without a goodbye: %s", error)

"""What the leader does so that nothing piles up or stays broken: trimming, retiring consumers, sweeping."""

import logging
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.store import Store
from dtq_engine.worker.attendance import Absences
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.scheduler import Scheduler

log = logging.getLogger("dtq.worker")

T = TypeVar("T")

TIDY_S = 60.0
TRIM_S = 1.5
"""For so long a step trims at most, with pauses that are as long: a server that was emptied of its work has time."""
SWEEP_STEP_S = 3.0
"""At about 1,000 keys a step, a million keys are looked at within an hour."""


class Housekeeper(Loop):
    """Once a minute lets go what is over the limits, and notes the counters; always walks over the keys to mend them.

    Between its steps it looks for workers that fell silent.

    A loop of its own beside the scheduler's, so that no due task waits for it. Only the leader's does anything.
    """

    name = "housekeeper"

    def __init__(self, scheduler: Scheduler, store: Store, absences: Absences, outage: Outage) -> None:
        super().__init__(outage, SWEEP_STEP_S)
        self._scheduler = scheduler
        self._store = store
        self._absences = absences
        self._tidied_at = time.monotonic()
        self._full: set[str] = set()

    def step(self) -> None:
        """Tidy up if it is time, then sweep a little further; without leading, wait for that."""
        if not self._scheduler.wait_to_lead(SWEEP_STEP_S):
            return
        if time.monotonic() - self._tidied_at >= TIDY_S:
            self.tidy()
        elif self._full:
            self._trim(sorted(self._full))
        self._absences.look(self._scheduler.queues)
        self._sweep()

    def tidy(self) -> None:
        """Trim every queue, forget the consumers of workers that are gone, and note how the counters are."""
        self._tidied_at = time.monotonic()
        self._trim(self._scheduler.queues)
        for queue in self._scheduler.queues:
            self._survive(queue, "let go the limits of", self._store.limits.tidy)
            self._survive(queue, "retire the consumers of", self._store.workers.retire)
            self._survive(queue, "note the counters of", self._store.history.record)

    def _trim(self, queues: Collection[str]) -> None:
        """Trim these queues by turns; those that are still full are looked at in each step, until they are not."""
        left, until = queues, time.monotonic() + TRIM_S
        while left:
            began = time.monotonic()
            left = [queue for queue in left if self._trims(queue)]
            took = time.monotonic() - began
            if began + 2 * took > until or self._stopped.wait(took):
                return

    def _trims(self, queue: str) -> bool:
        """Whether something went that was over the limits, so that there may be more of it."""
        done = self._survive(queue, "trim", self._store.schedule.trim)
        if done is not None and (done.gone or done.is_over):
            self._full.add(queue)
        else:
            self._full.discard(queue)
        return done is not None and done.gone > 0

    def _sweep(self) -> None:
        repairs = self._store.sweep.step()
        if repairs:
            log.warning("mended what was damaged: %s", ", ".join(f"{n} {what}" for what, n in sorted(repairs.items())))

    def _survive(self, queue: str, what: str, action: Callable[[str], T]) -> T | None:
        """One damaged queue must not keep the others from being looked after."""
        try:
            return action(queue)
        except RedisUnavailable:
            raise
        except DtqError as error:
            log.error("cannot %s the queue %s: %s", what, queue, error)
            return None

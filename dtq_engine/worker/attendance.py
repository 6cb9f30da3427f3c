"""Which workers serve a queue, as far as events tell it: a worker says so of itself, the leader of who fell silent."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.ids import new_token
from dtq_engine.store.crew import Absence, Crew
from dtq_engine.worker.outage import Outage

log = logging.getLogger("dtq.worker")

AGAIN_S = 60.0


class Attendance:
    """A worker's word that it serves its queues: given at its start, and again where it may have been lost."""

    def __init__(self, crew: Crew, worker_id: str, queues: Sequence[str]) -> None:
        self._crew = crew
        self._worker_id = worker_id
        self._queues = queues
        self._life = new_token()
        self._shown_at = -math.inf
        self._detail = ""

    def show(self, *, is_news: bool) -> None:
        """Give it if a minute has passed, or the heartbeat just sent `is_news`, so that it may count as gone by now.

        Where it stands already, that changes nothing.
        """
        if is_news:
            self._shown_at = -math.inf
        if time.monotonic() - self._shown_at < AGAIN_S:
            return
        for queue in self._queues:
            _survive(queue, partial(self._crew.started, queue, self._worker_id, self._life, self._detail))
        # Whatever it is told from now on, it was here before.
        self._detail = "back"
        self._shown_at = time.monotonic()

    def end(self) -> None:
        """Say that it serves them no longer. Raises RedisUnavailable."""
        for queue in self._queues:
            _survive(queue, partial(self._crew.stopped, queue, self._worker_id, self._life))


class Absences:
    """The leader's eye on workers whose heartbeat has lapsed.

    Each is told when it was missing for `grace_s`, while Redis was there all the time: after an outage, or for a new
    leader that has just seen the end of one, all are missing until they had the time to send a heartbeat.
    """

    def __init__(self, crew: Crew, outage: Outage, grace_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._crew = crew
        self._outage = outage
        self._grace_s = grace_s
        self._clock = clock
        self._since: dict[Absence, float] = {}

    def look(self, queues: Sequence[str]) -> None:
        """Look once, and tell of those who have been missing for long enough. Raises RedisUnavailable."""
        with self._outage.exchange():
            absent = self._crew.absent(queues)
        now = self._clock()
        if not self._outage.over or self._outage.steady_ms < self._grace_s * 1000:
            self._since = {}
            return
        self._since = {each: self._since.get(each, now) for each in absent}
        for each in [each for each, since in self._since.items() if now - since >= self._grace_s]:
            if _survive(each.queue, partial(self._crew.stale, each)):
                name = each.worker.decode("utf-8", "replace")
                log.warning("worker %s of the queue %s fell silent: it sends no heartbeat any more", name, each.queue)


def _survive(queue: str, action: Callable[[], bool]) -> bool:
    """What is wrong with one queue must not keep the others from being told."""
    try:
        return action()
    except RedisUnavailable:
        raise
    except DtqError as error:
        log.error("cannot tell the queue %s of its workers: %s", queue, error)
        return False

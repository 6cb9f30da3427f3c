"""Which task types and periodic tasks this build knows, as Redis is told."""

import logging
import math
import threading
import time
from collections.abc import Sequence

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.limits import Declared
from dtq_engine.model import TaskSchema
from dtq_engine.periodic import Definition
from dtq_engine.store import Store
from dtq_engine.store.workers import digest_of

log = logging.getLogger("dtq.worker")

REFRESH_S = 60.0


class KnownTypes:
    """The worker's types: published before the first claim, again each minute, and when Redis has lost them.

    So are the definitions of its periodic tasks, and its limits.
    """

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        schemas: Sequence[TaskSchema],
        periodic: Sequence[Definition] = (),
        limits: Declared | None = None,
    ) -> None:
        self._store = store
        self._queues = queues
        self._schemas = schemas
        self._periodic = periodic
        self._limits = limits or Declared()
        self._types = tuple(schema.type for schema in schemas)
        self._build = str({schema.type: schema.digest for schema in schemas})
        self._digest = ""
        self._announced_at = -math.inf
        self._announcing = threading.Lock()

    @property
    def digest(self) -> str:
        """What claims name the set of types by."""
        if not self._digest:
            self.announce()
        return self._digest

    def announce(self, *, frees: bool = False) -> frozenset[str]:
        """Publish the types, and make the queues known. The queues where that failed.

        With `frees` tasks that waited for such a build are looked at again even if it is known.
        """
        with self._announcing:
            if self._digest:
                self._store.schemas.keep(self._schemas)
            else:
                self._store.schemas.publish(self._schemas)
            self._store.agenda.publish(self._periodic)
            sound = [queue for queue in self._queues if self._tell(queue, frees)]
            self._digest = digest_of(self._types, self._build)
            self._announced_at = time.monotonic()
            return frozenset(self._queues).difference(sound)

    def refresh(self) -> None:
        """Publish the types again if that was a minute ago."""
        if time.monotonic() - self._announced_at >= REFRESH_S:
            self.announce()

    def _tell(self, queue: str, frees: bool) -> bool:
        """Tell one queue, and say if that is damaged, which must not keep the types from the others."""
        try:
            # Each time: a list of queues that was damaged and dropped is written anew by those who serve them.
            self._store.workers.register_queue(queue)
            # Before the types, without which nobody may claim: no task starts where its limits are not known.
            self._store.limits.declare(queue, self._limits)
            self._store.workers.announce([queue], self._types, build=self._build, frees=frees)
        except RedisUnavailable:
            raise
        except DtqError as error:
            log.error("cannot announce the task types to the queue %s: %s", queue, error)
            return False
        return True

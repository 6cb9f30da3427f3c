"""Which task types and periodic tasks this build knows, as Redis is told."""

import math
import threading
import time
from collections.abc import Sequence

from dtq_engine.model import TaskSchema
from dtq_engine.periodic import Definition
from dtq_engine.store import Store

REFRESH_S = 60.0


class KnownTypes:
    """The worker's types: published before the first claim, again each minute, and when Redis has lost them.

    So are the definitions of its periodic tasks.
    """

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        schemas: Sequence[TaskSchema],
        periodic: Sequence[Definition] = (),
    ) -> None:
        self._store = store
        self._queues = queues
        self._schemas = schemas
        self._periodic = periodic
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

    def announce(self) -> None:
        """Publish the types; the first time, make the queues known as well."""
        with self._announcing:
            if self._digest:
                self._store.schemas.keep(self._schemas)
            else:
                for queue in self._queues:
                    self._store.workers.register_queue(queue)
                self._store.schemas.publish(self._schemas)
            self._store.agenda.publish(self._periodic)
            self._digest = self._store.workers.announce(self._queues, self._types, build=self._build)
            self._announced_at = time.monotonic()

    def refresh(self) -> None:
        """Publish the types again if that was a minute ago."""
        if time.monotonic() - self._announced_at >= REFRESH_S:
            self.announce()

"""Which task types this build knows, as Redis is told."""

import math
import threading
import time
from collections.abc import Mapping, Sequence

from dtq_engine.store import Store

REFRESH_S = 60.0


class KnownTypes:
    """The worker's type set: published before the first claim, again each minute, and when Redis has lost it."""

    def __init__(self, store: Store, queues: Sequence[str], schemas: Mapping[str, str]) -> None:
        self._store = store
        self._queues = queues
        self._schemas = schemas
        self._digest = ""
        self._announced_at = -math.inf
        self._announcing = threading.Lock()

    @property
    def digest(self) -> str:
        """What claims name the set by."""
        if not self._digest:
            self.announce()
        return self._digest

    def announce(self) -> None:
        """Publish the set; the first time, make the queues known as well."""
        with self._announcing:
            for queue in self._queues if not self._digest else ():
                self._store.workers.register_queue(queue)
            self._digest = self._store.workers.announce(self._queues, tuple(self._schemas), build=str(self._schemas))
            self._announced_at = time.monotonic()

    def refresh(self) -> None:
        """Publish the set if that was a minute ago."""
        if time.monotonic() - self._announced_at >= REFRESH_S:
            self.announce()

"""`app.limit`: limits as the code says them, for tasks to name and for whole queues."""

from dataclasses import dataclass

from dtq_engine.limits import Limit, Rate, read_limit
from dtq_engine.registry import Registry


@dataclass(frozen=True, slots=True)
class Limiter:
    """The limits of one app; calling it makes one."""

    registry: Registry

    def __call__(self, name: str, *, max_running: int | None = None, rate: Rate | None = None) -> Limit:
        """A limit that tasks name by `limit=`: over the whole fleet, however many workers and processes it has.

        At most `max_running` of its tasks run at once, and with `rate=(100, 60)` at most 100 start in any 60 s. It
        counts within one queue, that of the tasks that name it. Raises InvalidLimit, which names what is wrong.
        """
        return self._add(read_limit(name, max_running=max_running, rate=rate))

    def queue(self, queue: str, *, max_running: int | None = None, rate: Rate | None = None) -> Limit:
        """The limit of a whole queue, for all its tasks together. Raises InvalidLimit, which names what is wrong."""
        return self._add(read_limit("*", max_running=max_running, rate=rate, queue=queue))

    def _add(self, limit: Limit) -> Limit:
        self.registry.limit(limit)
        return limit

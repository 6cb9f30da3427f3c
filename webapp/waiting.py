"""How many requests may wait for tasks to end: each holds a thread, and threads are needed for all else."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from webapp.problems import Problem

RETRY_S = 5


class Seats:
    """A limited number of places to wait."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def one(self) -> Generator[None]:
        """A place, as long as the context is entered. Raises a 503 at once if all are taken."""
        if not self._free.acquire(blocking=False):
            raise Problem(
                503,
                "TOO_MANY_WAITERS",
                "As many requests as may wait for tasks do so already: ask again soon, or without wait.",
                headers={"Retry-After": str(RETRY_S)},
            )
        try:
            yield
        finally:
            self._free.release()

"""What the other workers say of themselves, as far as this worker's decisions depend on it."""

import time
from collections.abc import Callable, Mapping, Sequence

from dtq_engine.model import WorkerInfo

FRESH_S = 2.0


class Fleet:
    """The living workers, looked up at most every 2 s."""

    def __init__(self, look: Callable[[], Sequence[WorkerInfo]], schemas: Mapping[str, str]) -> None:
        self._look = look
        self._schemas = schemas
        self._workers: Sequence[WorkerInfo] = ()
        self._looked_at = float("-inf")

    def disagrees_on(self, task_type: str) -> bool:
        """Whether a living worker has this type with other parameters, as while a new release is rolled out."""
        if time.monotonic() - self._looked_at >= FRESH_S:
            self._workers = self._look()
            self._looked_at = time.monotonic()
        own = self._schemas.get(task_type)
        return any(info.schemas.get(task_type, own) != own for info in self._workers)

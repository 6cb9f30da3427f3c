"""Who serves each queue, as it is told: a worker has started, has stopped, or fell silent."""

from collections.abc import Sequence
from dataclasses import dataclass

from dtq_engine.store.base import Base
from dtq_engine.store.replies import pairs


@dataclass(frozen=True, slots=True)
class Absence:
    """A worker of a queue, in one of its lives, whose heartbeat has lapsed."""

    queue: str
    worker: bytes
    life: bytes


class Crew:
    """Notes of workers in each queue that they serve; what changes in them is an event, told once.

    A worker draws a `life`, a token, at each start: so what is said of an earlier one of the same name is no news.
    """

    def __init__(self, base: Base) -> None:
        self._base = base

    def started(self, queue: str, worker: str, life: str, detail: str = "") -> bool:
        """Say that a worker serves a queue; whether that is news. Harmless to repeat."""
        return self._attend(queue, "started", worker, life, detail)

    def stopped(self, queue: str, worker: str, life: str) -> bool:
        """Say that it no longer does, because it was told to stop; whether that is news."""
        return self._attend(queue, "stopped", worker, life)

    def stale(self, absence: Absence) -> bool:
        """Say that it fell silent; whether that is news."""
        return self._attend(absence.queue, "stale", absence.worker, absence.life)

    def absent(self, queues: Sequence[str]) -> set[Absence]:
        """The workers of these queues whose heartbeat has lapsed; a queue whose notes are damaged has none."""
        keys = self._base.keys
        replies = self._base.connection.pipeline([("HGETALL", keys.crew(queue)) for queue in queues])
        noted = [
            Absence(queue, worker, life)
            for queue, reply in zip(queues, replies, strict=True)
            if not isinstance(reply, Exception)
            for worker, life in pairs(reply).items()
        ]
        # A name that is no text has no worker behind it, and goes as that of one that fell silent.
        names = [keys.worker(each.worker.decode("utf-8", "replace")) for each in noted]
        beats = self._base.connection.pipeline([("EXISTS", name) for name in names])
        return {each for each, beat in zip(noted, beats, strict=True) if beat == 0}

    def _attend(self, queue: str, what: str, worker: str | bytes, life: str | bytes, detail: str = "") -> bool:
        return bool(self._base.run("attend", queue, what, worker, life, detail) == b"TOLD")

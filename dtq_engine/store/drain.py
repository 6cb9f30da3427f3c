"""How fast a queue empties, for those who are told to come again."""

from dataclasses import dataclass

from dtq_engine.keys import PRIORITIES
from dtq_engine.links import Command
from dtq_engine.model import FINAL
from dtq_engine.store import replies
from dtq_engine.store.base import Base

WINDOW_MS = 60_000
"""What "recent" means. Of this time the index of finished tasks is whole: nothing is trimmed sooner after its end."""

SOON_MS = 3_600_000
LONGEST_S = 3600


@dataclass(frozen=True, slots=True)
class Drain:
    """The tasks of a queue that are due within an hour, and how many ended within the last minute."""

    due: int
    ended: int

    @property
    def empty_in_s(self) -> int:
        """In how many seconds the queue is empty at this rate: 1 to 3600, and 60 where nothing has ended lately."""
        if not self.ended:
            return WINDOW_MS // 1000
        return max(1, min(LONGEST_S, -(-self.due * WINDOW_MS // (self.ended * 1000))))


class Drains:
    """Reads how fast queues empty."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def of(self, queue: str) -> Drain:
        """How fast a queue empties; two round trips, however much is in it."""
        keys, now_ms = self._base.keys, self._base.now_ms()
        soon = now_ms + SOON_MS
        commands: list[Command] = [("XLEN", keys.stream(queue, priority)) for priority in PRIORITIES]
        commands += [("ZCOUNT", key, "-inf", soon) for key in (keys.schedule(queue), keys.retry_schedule(queue))]
        commands += [("ZCOUNT", keys.index(queue, status), now_ms - WINDOW_MS, "+inf") for status in sorted(FINAL)]
        answers = [replies.number(answer) for answer in self._base.connection.pipeline(commands)]
        waiting = len(commands) - len(FINAL)
        return Drain(due=sum(answers[:waiting]), ended=sum(answers[waiting:]))

"""Time: due tasks become available, expired leases are handed to a reaper, old tasks go."""

from dtq_engine.model import Claim, Promotion
from dtq_engine.store.base import Base
from dtq_engine.store.records import decode_claim

TASKS_PER_CALL = 100


class Schedule:
    """What the leader and the reapers do, one bounded step at a time."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def promote(self, queue: str) -> Promotion:
        """Make up to 100 due tasks available; says when the next one is due."""
        moved, next_due = self._base.run("promote", queue, TASKS_PER_CALL)
        return Promotion(moved, int(next_due) if next_due else None)

    def reclaim(self, queue: str, *, reaper: str, token: str) -> list[Claim]:
        """Take over up to 100 executions whose lease expired; each must be decided and finalized within 10 s.

        Goes through the whole pending list in pages; an empty list means that nothing was expired.
        """
        unstarted_ms = round(self._base.settings.visibility_timeout_s * 1000)
        priority, entry = "9", "-"
        found: list[Claim] = []
        while priority and len(found) < TASKS_PER_CALL:
            room = TASKS_PER_CALL - len(found)
            reply = self._base.run("reclaim", queue, reaper, token, priority, entry, room, unstarted_ms)
            found += [decode_claim(item, queue, reaper, token) for item in reply[2:]]
            priority, entry = reply[0].decode(), reply[1].decode()
        return found

    def trim(self, queue: str) -> int:
        """Let finished tasks go that are over the limits; how many went. Call again while it is not 0."""
        return int(self._base.run("trim", queue))

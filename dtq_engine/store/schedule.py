"""Time: due tasks become available, expired leases are handed to a reaper, old tasks go."""

import time
from typing import Any, NamedTuple

from dtq_engine.model import Claim, Promotion
from dtq_engine.refusals import damage_of
from dtq_engine.store.base import Base
from dtq_engine.store.records import decode_claim

TASKS_PER_CALL = 100
LATE_MOST_S = 0.5
ALWAYS_MS = 10**15


def late_s(visibility_s: float) -> float:
    """How long an exchange may take for workers with such leases to call it quick: by far less than a lease."""
    return min(LATE_MOST_S, visibility_s / 4)


class Trimmed(NamedTuple):
    """How many finished tasks went, and whether the queue still has more that succeeded than it is to keep.

    Those are too young to go, or have results that are still to be kept.
    """

    gone: int
    is_over: bool


class Schedule:
    """What the leader and the reapers do, one bounded step at a time."""

    def __init__(self, base: Base) -> None:
        self._base = base
        # By how much the clock of each queue's server is ahead of ours; the nodes of a cluster have one each.
        self._ahead_ms: dict[str, float] = {}
        # When such a clock was last found to have been set forward, by our own.
        self._set_at: dict[str, float] = {}

    def promote(self, queue: str) -> Promotion:
        """Make up to 100 due tasks available; says when the next one is due."""
        moved, next_due, outbox, damage = self._base.run("promote", queue, TASKS_PER_CALL)
        return Promotion(moved, int(next_due) if next_due else None, outbox, damage_of(damage) if damage else None)

    def reclaim(self, queue: str, *, reaper: str, token: str, steady_ms: int = ALWAYS_MS) -> list[Claim]:
        """Take over up to 100 executions whose lease expired; each must be decided and finalized within 10 s.

        Goes through the whole pending list in pages; an empty list means that nothing was expired, or that the call
        was late. `steady_ms` is for how long all the caller's exchanges with Redis were quick, which tells a queue
        that nobody looked at from a Redis that stood still.
        """
        priority, entry = "9", "-"
        found: list[Claim] = []
        if queue not in self._ahead_ms:
            # Sent at no time at all, it is late and does nothing, but tells the time.
            self._ask(queue, 0, (reaper, token, priority, entry, 0), 0)
        while priority and len(found) < TASKS_PER_CALL:
            sent_ms = self._ahead_ms[queue] + time.monotonic() * 1000
            page = (reaper, token, priority, entry, TASKS_PER_CALL - len(found))
            reply = self._ask(queue, sent_ms, page, self._steady_ms(queue, steady_ms))
            found += [decode_claim(item, queue, reaper, token) for item in reply[2:]]
            priority, entry = reply[0].decode(), reply[1].decode()
        return found

    def _ask(self, queue: str, sent_ms: float, page: tuple[str | int, ...], steady_ms: int) -> list[Any]:
        lease_s = self._base.settings.visibility_timeout_s
        times = (round(lease_s * 1000), round(sent_ms), round(late_s(lease_s) * 1000), steady_ms)
        reply: list[Any] = self._base.run("reclaim", queue, *page, *times)
        # Learnt when the answer is there, so that a slow one makes the next call look late, and never early.
        now = time.monotonic()
        ahead_ms = int(reply[0]) - now * 1000
        if ahead_ms - self._ahead_ms.get(queue, ahead_ms) > late_s(lease_s) * 1000:
            self._set_at[queue] = now  # the leases look older than they are
        self._ahead_ms[queue] = ahead_ms
        return reply[1:]

    def _steady_ms(self, queue: str, steady_ms: int) -> int:
        """For how long idle times can be told: by a clock that was set forward every lease looks expired."""
        since = self._set_at.get(queue)
        return steady_ms if since is None else min(steady_ms, round((time.monotonic() - since) * 1000))

    def trim(self, queue: str) -> Trimmed:
        """Let finished tasks go that are over the limits. Call again while some went."""
        gone, is_over = self._base.run("trim", queue)
        return Trimmed(gone, is_over == 1)

"""Redis' clock, as far as dtq can see it, to be moved by hand."""

import re
from typing import Any

from dtq_engine.config import Settings
from dtq_engine.keys import PRIORITIES, Keys


class Clock:
    """Moves the time of all the queues under one prefix together."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._keys = Keys(settings.prefix)
        self._known = {"default", *settings.worker_queues}
        self._ahead_ms = 0

    def advance(self, seconds: float, *, ttls: bool = False) -> None:
        """Let `seconds` pass: for schedules, deadlines and leases, and with `ttls` for keys that expire too.

        A queue that is first used after a move keeps the old time until the next one; `advance(0)` will do.
        """
        ms = round(seconds * 1000)
        self._ahead_ms += ms
        for queue in sorted(self._queues()):
            self._client.set(self._keys.clock(queue), self._ahead_ms)
            for priority in PRIORITIES:
                self._age_pending(self._keys.stream(queue, priority), ms)
            # A running scheduler sleeps until the next due time by the old clock.
            if self._client.exists(self._keys.leader()):
                self._client.lpush(self._keys.wake_schedule(queue), "1")
        if ttls:
            self._age_keys(ms)

    def _queues(self) -> set[str]:
        tagged = (re.search(rb"\{([^}]+)\}", key) for key in self._scan())
        return self._known | {match.group(1).decode() for match in tagged if match}

    def _scan(self) -> list[bytes]:
        return list(self._client.scan_iter(match=f"{self._keys.prefix}:*", count=1000))

    def _age_pending(self, stream: str, ms: int) -> None:
        if not self._client.exists(stream) or not self._client.xinfo_groups(stream):
            return
        for entry in self._client.xpending_range(stream, "workers", min="-", max="+", count=10_000):
            idle, holder = entry["time_since_delivered"] + ms, entry["consumer"]
            self._client.xclaim(stream, "workers", holder, 0, [entry["message_id"]], idle=idle, justid=True)

    def _age_keys(self, ms: int) -> None:
        for key in self._scan():
            if (left := self._client.pttl(key)) > 0:
                self._client.pexpire(key, max(0, left - ms))

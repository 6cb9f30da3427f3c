"""Redis' clock, as far as dtq can see it, to be moved by hand."""

import re
from typing import Any

from dtq_engine.config import Settings
from dtq_engine.connection import over_client
from dtq_engine.keys import PRIORITIES, Keys
from dtq_engine.testing.clock import age_keys, age_leases


class Clock:
    """Moves the time of all the queues under one prefix together."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._connection = over_client(client)
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
                age_leases(self._connection, self._keys.stream(queue, priority), ms)
            # A running scheduler sleeps until the next due time by the old clock.
            if self._client.exists(self._keys.leader()):
                self._client.lpush(self._keys.wake_schedule(queue), "1")
        if ttls:
            age_keys(self._connection, self._keys, ms)

    def _queues(self) -> set[str]:
        tagged = (re.search(rb"\{([^}]+)\}", key) for key in self._scan())
        return self._known | {match.group(1).decode() for match in tagged if match}

    def _scan(self) -> list[bytes]:
        return list(self._client.scan_iter(match=f"{self._keys.prefix}:*", count=1000))

"""Counting the tasks that were not accepted, which leave no other trace."""

import logging
import threading
import time
from collections import Counter

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.store import replies
from dtq_engine.store.base import Base

PAUSE_S = 5.0
"""How long nothing is sent after a failure: a refusal must not wait for a Redis that is away."""

_log = logging.getLogger("dtq")


class Rejections:
    """One hash of the whole deployment: how many tasks were rejected, by reason.

    Each process adds to it at once. What cannot be added waits here, to go along with a later one; it is lost only
    with the process. A number whose reply was lost is not sent again, since it may have been added.
    """

    def __init__(self, base: Base) -> None:
        self._connection = base.connection
        self._key = base.keys.rejections()
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._not_before = 0.0

    def count(self, reason: str, number: int = 1) -> None:
        """Count `number` rejections for a reason, one of a few fixed words. Never fails for the sake of Redis."""
        with self._lock:
            self._waiting[reason] += number
        self._send()

    def totals(self) -> dict[str, int]:
        """How many have been counted, by reason. Raises as `Connection.call` does."""
        self._send()
        found = replies.pairs(self._connection.call("HGETALL", self._key))
        return {reason.decode("utf-8", "replace"): replies.whole(value) or 0 for reason, value in found.items()}

    def _send(self) -> None:
        while (item := self._take()) is not None:
            reason, number = item
            try:
                self._connection.once("HINCRBY", self._key, reason, number)
            except DtqError as error:
                self._keep(reason, 0 if isinstance(error, RedisUnavailable) and error.may_have_run else number)
                _log.debug("rejections are counted later: %s", error)
                return

    def _take(self) -> tuple[str, int] | None:
        with self._lock:
            if not self._waiting or time.monotonic() < self._not_before:
                return None
            return self._waiting.popitem()

    def _keep(self, reason: str, number: int) -> None:
        with self._lock:
            self._not_before = time.monotonic() + PAUSE_S
            if number:
                self._waiting[reason] += number

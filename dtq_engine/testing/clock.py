"""Redis' time as dtq sees it, to be moved forward by a test."""

from collections.abc import Iterable
from typing import Any

from dtq_engine.connection import Connection
from dtq_engine.errors import RedisRefused
from dtq_engine.keys import PRIORITIES, Keys
from dtq_engine.store import Store

PENDING_MOST = 10_000


class Clock:
    """The server's own time and what it was moved by; all the queues of an app move together."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self, store: Store) -> int:
        """Milliseconds since the epoch."""
        return store.now_ms() + self.ahead_ms

    def cover(self, store: Store, queues: Iterable[str]) -> None:
        """Give these queues the time that the others have, should they be new."""
        if self.ahead_ms:
            for queue in queues:
                store.connection.call("SET", store.keys.clock(queue), self.ahead_ms)

    def forward(self, store: Store, ms: int) -> None:
        """Let time pass for what is due; leases and keys are yet to `age` by as much."""
        self.ahead_ms += ms
        self.cover(store, store.inspect.queues())

    def age(self, store: Store, ms: int) -> None:
        """Let time pass for leases and for keys that expire."""
        for queue in store.inspect.queues():
            for priority in PRIORITIES:
                age_leases(store.connection, store.keys.stream(queue, priority), ms)
        age_keys(store.connection, store.keys, ms)


def age_leases(connection: Connection, stream: str, ms: int) -> None:
    """Let time pass for the leases of one stream: a lease is the time since its entry was delivered or renewed."""
    if not connection.call("EXISTS", stream):
        return
    try:
        pending: list[list[Any]] = connection.call("XPENDING", stream, "workers", "-", "+", PENDING_MOST)
    except RedisRefused:
        return  # nobody has claimed from it yet, so that there is no group
    for entry, holder, idle_ms, _ in pending:
        connection.call("XCLAIM", stream, "workers", holder, 0, entry, "IDLE", idle_ms + ms, "JUSTID")


def age_keys(connection: Connection, keys: Keys, ms: int) -> None:
    """What has a time to live has so much less of it."""
    cursor: Any = 0
    names: list[bytes] = []
    while True:
        cursor, found = connection.call("SCAN", cursor, "MATCH", f"{keys.prefix}:*", "COUNT", 1000)
        names += found
        if int(cursor) == 0:
            break
    for name in names:
        left: int = connection.call("PTTL", name)
        if 0 <= left <= ms:
            connection.call("DEL", name)
        elif left > ms:
            connection.call("PEXPIRE", name, left - ms)

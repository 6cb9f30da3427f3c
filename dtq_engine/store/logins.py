"""How often signing in failed lately, and from where: known to all web processes of a deployment."""

import hashlib
from collections.abc import Sequence

from dtq_engine import scripts
from dtq_engine.store.base import Base

LONGEST_MS = 300_000
REMEMBERED_MS = 3_600_000


class Logins:
    """Failed attempts by origin: an address, a person at an address. Each is forgotten an hour after its last one."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def wait_ms(self, origins: Sequence[str]) -> int:
        """How long the first attempt from all these origins at once has to wait; 0 if it need not."""
        found = self._base.connection.pipeline([("GET", self._key(origin)) for origin in origins])
        ends = [_until(each) for each in found if isinstance(each, bytes)]
        return max(0, max(ends) - self._base.now_ms()) if ends else 0

    def miss(self, origin: str, free: int) -> int:
        """Note a failed attempt; for how many ms the next one has to wait.

        From the attempt number `free` on that is 1 s, and twice as long each time, at most five minutes.
        """
        args = (free, LONGEST_MS, REMEMBERED_MS)
        return int(scripts.run(self._base.connection, "miss", self._key(origin), args))

    def forget(self, origin: str) -> None:
        """Let an origin begin anew, since somebody has signed in there."""
        self._base.connection.call("DEL", self._key(origin))

    def _key(self, origin: str) -> str:
        # Names and addresses are strangers' text of any length.
        return self._base.keys.login(hashlib.sha256(origin.encode("utf-8", "replace")).hexdigest()[:32])


def _until(known: bytes) -> int:
    _, _, until_ms = known.partition(b" ")
    return int(until_ms) if until_ms.isdigit() and len(until_ms) < 16 else 0

"""Passwords: checked with Argon2, at a pace that makes guessing hopeless."""

import threading
import time
from collections import OrderedDict

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp.identity import Identity, User
from webapp.problems import Problem

FREE = 5
"""How often someone may fail before they have to wait: 1 s, 2 s, 4 s, …"""

LONGEST_S = 300
REMEMBERED = 10_000
AT_ONCE = 2
"""How many passwords are checked at a time: each takes 64 MiB and a good part of a second."""

PASSWORD_MAX = 1024

# What an unknown name is checked against, so that it takes as long as a known one.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


class Passwords:
    """Checks the passwords of the people whom the settings name."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._hasher = PasswordHasher()
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, name: str, password: str, address: str) -> User:
        """The person. Raises a 401 for a wrong name or password, and a 429 for whoever must wait."""
        origins = (f"from {address}", f"{name} from {address}")
        self._refuse_the_hasty(origins)
        if not self._turns.acquire(timeout=5):
            raise _later(1, "Many are signing in at this moment: try again.")
        try:
            user = self._matching(name, password)
        finally:
            self._turns.release()
        if user is None:
            self._note_failure(origins)
            raise Problem(401, "WRONG_PASSWORD", "The name or the password is wrong.")
        with self._lock:
            self._failures.pop(origins[1], None)
        return user

    def _matching(self, name: str, password: str) -> User | None:
        user = self._identity.users.get(name)
        hashed = user.hash if user is not None and user.hash is not None else _NOBODY
        try:
            self._hasher.verify(hashed, password[:PASSWORD_MAX])
        except (VerificationError, InvalidHashError):
            return None
        return user

    def _refuse_the_hasty(self, origins: tuple[str, ...]) -> None:
        now = time.monotonic()
        with self._lock:
            until = max(self._failures.get(origin, (0, 0.0))[1] for origin in origins)
        if until > now:
            raise _later(round(until - now) + 1, "Too many attempts failed: wait, and try again.")

    def _note_failure(self, origins: tuple[str, ...]) -> None:
        address, person = origins
        with self._lock:
            # From one address many people may sign in, so that it may fail more often.
            for origin, free in ((address, 4 * FREE), (person, FREE)):
                many = self._failures.pop(origin, (0, 0.0))[0] + 1
                wait_s = min(LONGEST_S, 2 ** (many - free)) if many >= free else 0
                self._failures[origin] = many, time.monotonic() + wait_s
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)


def _later(seconds: int, detail: str) -> Problem:
    return Problem(429, "LOGIN_THROTTLED", detail, headers={"Retry-After": str(seconds)})

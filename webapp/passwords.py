"""Passwords: checked with Argon2, at a pace that makes guessing hopeless."""

import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from dtq_engine import Dtq
from webapp.identity import Identity, User
from webapp.problems import Problem

FREE = {"person": 5, "address": 20}
"""How often someone may fail before they have to wait: 1 s, 2 s, 4 s, … From one address many people may sign in."""

AT_ONCE = 2
"""How many passwords are checked at a time: each takes 64 MiB and a good part of a second."""

PASSWORD_MAX = 1024

# What an unknown name is checked against, so that it takes as long as a known one.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


class Passwords:
    """Checks the passwords of the people whom the settings name.

    Who failed often is known to all web processes, as it is kept in Redis: without Redis nobody signs in. A person is
    held up only where the attempts come from, so that no stranger can keep somebody else out.
    """

    def __init__(self, identity: Identity, app: Dtq) -> None:
        self._identity = identity
        self._app = app
        self._hasher = PasswordHasher()
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def check(self, name: str, password: str, address: str) -> User:
        """The person. Raises a 401 for a wrong name or password, a 429 for whoever must wait, and RedisUnavailable."""
        logins = self._app.store.logins
        origins = {"address": f"from {address}", "person": f"{name} from {address}"}
        if wait_ms := logins.wait_ms(list(origins.values())):
            raise _later(wait_ms, "Too many attempts failed: wait, and try again.")
        if not self._turns.acquire(timeout=5):
            raise _later(1000, "Many are signing in at this moment: try again.")
        try:
            user = self._matching(name, password)
        finally:
            self._turns.release()
        if user is None:
            for kind, origin in origins.items():
                logins.miss(origin, FREE[kind])
            raise Problem(401, "WRONG_PASSWORD", "The name or the password is wrong.")
        logins.forget(origins["person"])
        return user

    def _matching(self, name: str, password: str) -> User | None:
        user = self._identity.users.get(name)
        hashed = user.hash if user is not None and user.hash is not None else _NOBODY
        try:
            self._hasher.verify(hashed, password[:PASSWORD_MAX])
        except (VerificationError, InvalidHashError):
            return None
        return user


def _later(wait_ms: int, detail: str) -> Problem:
    return Problem(429, "LOGIN_THROTTLED", detail, headers={"Retry-After": str(-(-wait_ms // 1000))})

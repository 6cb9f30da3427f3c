"""Who may use the web process: keys of programs and names of people, from the settings."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from dtq_engine import Settings
from webapp.roles import Principal, Role

HASHED = "sha256$"

UNCONFIGURED = (
    "Nobody may use this web process yet: set DTQ_API_KEYS (for programs), DTQ_USERS with DTQ_SECRET_KEY (for people), "
    "DTQ_USERS with DTQ_TRUSTED_USER_HEADER (behind a proxy that knows them), or DTQ_OPEN=1 (for everybody)."
)


@dataclass(frozen=True, slots=True)
class User:
    """A person; `hash` is Argon2's of the password, None if there is none to sign in with."""

    name: str
    role: Role
    hash: str | None

    @property
    def version(self) -> str:
        """What a session remembers: with another password or role, it is over."""
        return hashlib.sha256(f"{self.role}:{self.hash}".encode()).hexdigest()[:16]

    @property
    def principal(self) -> Principal:
        """The person as the maker of a request."""
        return Principal(self.name, self.role)


@dataclass(frozen=True, slots=True)
class Identity:
    """All who are known. Keys are held as digests, which are looked up at the same cost whether they fit or not."""

    keys: Mapping[bytes, Principal]
    users: Mapping[str, User]
    anybody: bool
    anybody_here: bool
    locked: bool

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those whom the settings name; without any, production is locked and development open to its own machine."""
        entries = (entry.split(":", 2) for entry in settings.api_keys)
        keys = {_digest(key): Principal(name, Role(role), by_token=True) for name, role, key in entries}
        people = (entry.split(":", 2) for entry in settings.users)
        users = {name: User(name, Role(role), None if hashed == "-" else hashed) for name, role, hashed in people}
        nobody = not (keys or users or settings.open)
        development = settings.env == "development"
        return cls(keys, users, settings.open, nobody and development, nobody and not development)

    def by_key(self, key: str) -> Principal | None:
        """Whose key it is."""
        # The digest cannot be chosen by who guesses, so how long the look-up takes tells nothing about the keys.
        return self.keys.get(hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest())


def _digest(written: str) -> bytes:
    if written.startswith(HASHED):
        return bytes.fromhex(written.removeprefix(HASHED))
    return hashlib.sha256(written.encode()).digest()

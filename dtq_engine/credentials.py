"""Settings that say who may use the web process: how they are written, and which are right."""

import re
from typing import cast

from dtq_engine.kinds import KIND, Kind, Metadata

ROLES = ("submit", "viewer", "operator", "admin", "metrics")
"""What someone may be to the web process; it alone says what each role is allowed."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}"
_KEY = r"[A-Za-z0-9_~.+/=-]{20,256}|sha256\$[0-9a-f]{64}"
_HASH = r"-|\$argon2id?\$v=[0-9]+\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+"


def api_keys(doc: str) -> Metadata:
    """Entries `NAME:ROLE:KEY`. Of one name there may be several, so that a key can be exchanged without a gap."""
    expects = (
        f"NAME:ROLE:KEY, several of them separated by blanks; the roles are {', '.join(ROLES)}; a key has 20 letters, "
        f"digits or _~.+/=- or more, or is given as sha256$ and its SHA-256 in hexadecimal digits"
    )
    return _entries(doc, _KEY, expects)


def users(doc: str) -> Metadata:
    """Entries `NAME:ROLE:HASH`."""
    expects = (
        "NAME:ROLE:HASH, several of them separated by blanks; the hash is what `dtq hash-password` prints, "
        "or - for someone whom only the proxy of DTQ_TRUSTED_USER_HEADER vouches for"
    )
    return _entries(doc, _HASH, expects)


def signing_key(doc: str) -> Metadata:
    """A secret of at least 32 characters, or None."""
    expects = "32 visible ASCII characters or more, such as `openssl rand -hex 32` prints"
    return _optional(doc, r"[\x21-\x7e]{32,1024}", expects, secret=True)


def header(doc: str) -> Metadata:
    """The name of a header, or None."""
    return _optional(doc, r"[A-Za-z][A-Za-z0-9-]{0,63}", "the name of a header, such as X-Forwarded-User")


def _entries(doc: str, secret: str, expects: str) -> Metadata:
    entry = re.compile(rf"{_NAME}:({'|'.join(ROLES)}):({secret})")

    def accepts(value: object) -> bool:
        entries = cast(tuple[object, ...], value) if isinstance(value, tuple) else (None,)
        return len(set(entries)) == len(entries) and all(isinstance(e, str) and entry.fullmatch(e) for e in entries)

    return {KIND: Kind(doc, expects, _parse, accepts, secret=True)}


def _parse(text: str) -> tuple[str, ...]:
    # A password's hash holds commas of its own: one only ends an entry if another begins after it.
    return tuple(re.split(rf"(?:\s*,\s*|\s+)(?={_NAME}:)", text))


def _optional(doc: str, pattern: str, expects: str, *, secret: bool = False) -> Metadata:
    compiled = re.compile(pattern)

    def accepts(value: object) -> bool:
        return value is None or (isinstance(value, str) and compiled.fullmatch(value) is not None)

    return {KIND: Kind(doc, expects, str, accepts, secret=secret)}

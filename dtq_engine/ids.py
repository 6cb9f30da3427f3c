"""Identifiers: task ids that sort by the time they were made, and tokens that nobody can guess."""

import os
import secrets
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_RANDOM = bytes(ord(_ALPHABET[byte % 32]) for byte in range(256))
_TICKS_PER_MS = 1 << 15
_NS_PER_MS = 1_000_000


def new_id() -> str:
    """A new task id: a ULID, 26 characters of Crockford's base 32 that sort by time.

    Milliseconds fill the first ten characters, as https://github.com/ulid/spec wants it. Of what is random
    there, the first three hold the fraction of the millisecond here, so that ids made one after the other by
    one process sort in that order, with no state to keep or to lock.
    """
    ticks = time.time_ns() * _TICKS_PER_MS // _NS_PER_MS
    return (
        _ALPHABET[ticks >> 60]
        + _PAIRS[(ticks >> 50) & 1023]
        + _PAIRS[(ticks >> 40) & 1023]
        + _PAIRS[(ticks >> 30) & 1023]
        + _PAIRS[(ticks >> 20) & 1023]
        + _PAIRS[(ticks >> 10) & 1023]
        + _PAIRS[ticks & 1023]
        + os.urandom(13).translate(_RANDOM).decode("ascii")
    )


def new_token() -> str:
    """A new claim token or request id: 128 random bits as 22 characters that are safe in a URL."""
    return secrets.token_urlsafe(16)

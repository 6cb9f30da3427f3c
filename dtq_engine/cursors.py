"""Cursors short enough to be copied by hand; the store's name every stream and index that was read."""

import base64
import zlib

PACKED = "z"
"""How a packed cursor begins; one of the store's is JSON in base64, which begins with `eyJ`."""

LONGEST = 1_048_576


def packed(cursor: str | None) -> str | None:
    """A cursor as it is shown: packed where that is shorter."""
    if cursor is None:
        return None
    short = PACKED + _text(zlib.compress(_bytes(cursor), 9))
    return min(cursor, short, key=len)


def unpacked(shown: str | None) -> str | None:
    """The store's cursor; what is not a cursor stays as it is, for the store to refuse."""
    if shown is None or not shown.startswith(PACKED):
        return shown
    try:
        return _text(zlib.decompressobj().decompress(_bytes(shown.removeprefix(PACKED)), LONGEST))
    except (ValueError, zlib.error):
        return shown


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

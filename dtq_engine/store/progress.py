"""Progress and log lines as Redis holds them, to and from the model."""

from typing import Any

from dtq_engine.model import LogLine, Progress
from dtq_engine.store.replies import pairs, whole

MOST = 1e15
"""No amount is larger: beyond that a float does not count one by one any more."""


def pack_progress(done: float, total: float | None, note: str, at_ms: int) -> bytes:
    """What `report.lua` writes into a record, behind the attempt."""
    head = f"{at_ms} {done!r} {'-' if total is None else repr(total)}"
    return f"{head} {note}".encode("utf-8", "backslashreplace")


def unpack_progress(packed: bytes) -> Progress | None:
    """A record's `g`; None for anything unreadable."""
    try:
        attempt, at_ms, done, total, note = packed.split(b" ", 4)
        known = None if total == b"-" else _amount(total)
        return Progress(_amount(done), known, note.decode("utf-8", "replace"), whole(attempt) or 0, whole(at_ms) or 0)
    except ValueError:
        return None


def pack_line(at_ms: int, level: str, logger: str, message: str, most_bytes: int) -> bytes:
    """A log line as an entry holds it; of a message too long the beginning, with an ellipsis."""
    # Cut before it is encoded as well: nobody wants to wait for a message of a gigabyte.
    body = message[:most_bytes].encode("utf-8", "backslashreplace")
    if len(body) > most_bytes or len(message) > most_bytes:
        body = body[: most_bytes - 3].decode("utf-8", "ignore").encode() + "…".encode()
    return f"{at_ms} {_word(level)} {_word(logger)}\n".encode("utf-8", "backslashreplace") + body


def unpack_line(entry: bytes, fields: Any, after: int | None) -> LogLine | None:
    """The line of an entry, which comes after the line number `after` (None: nothing is said of those before it).

    None for what is no line of ours.
    """
    number = whole(entry.partition(b"-")[0])
    body = pairs(fields)
    head, _, message = body.get(b"l", b"").partition(b"\n")
    words = head.split(b" ")
    if number is None or len(words) != 3:
        return None
    return LogLine(
        number=number,
        missing=0 if after is None else max(0, number - after - 1),
        attempt=whole(body.get(b"a", b"")) or 0,
        at_ms=whole(words[0]) or 0,
        level=words[1].decode("utf-8", "replace"),
        logger="" if words[2] == b"-" else words[2].decode("utf-8", "replace"),
        message=message.decode("utf-8", "replace"),
    )


def _word(text: str) -> str:
    return "_".join(text.split())[:100] or "-"


def _amount(word: bytes) -> float:
    value = float(word)
    if not 0 <= value <= MOST:  # NaN is in no range
        raise ValueError(word)
    return int(value) if word.isdigit() else value

"""Replies as redis-py's client gives them: some commands raw, some in its own shapes, a failed one as its exception."""

from typing import Any, TypeGuard, cast

import msgspec


def _is_list(reply: Any) -> TypeGuard[list[Any]]:
    return isinstance(reply, list)


def pairs(flat: Any) -> dict[bytes, bytes]:
    """A flat reply of names and values as a dictionary; empty for an error or another shape."""
    if isinstance(flat, dict):
        return cast(dict[bytes, bytes], flat)
    if not isinstance(flat, list):
        return {}
    items = cast(list[bytes], flat)
    return dict(zip(items[::2], items[1::2], strict=True))


def values(reply: Any, count: int) -> list[bytes | None]:
    """As many values of a hash as were asked for; None for those that are not there, and for an error."""
    return cast(list[bytes | None], reply) if isinstance(reply, list) else [None] * count


def members(reply: Any) -> list[str]:
    """The members of a set of names; none for an error."""
    names = cast(set[bytes], reply) if isinstance(reply, set | list) else ()
    return sorted(name.decode("utf-8", "replace") for name in names)


def number(reply: Any) -> int:
    """A count; 0 for an error."""
    return reply if isinstance(reply, int) else 0


def whole(value: bytes) -> int | None:
    """A count from a hash; None if it is none."""
    return int(value) if value.isdigit() and len(value) < 20 else None


def is_damage(reply: Any) -> bool:
    """Whether a key could not be read because it holds something else than it must."""
    return isinstance(reply, Exception) and "WRONGTYPE" in str(reply)


def pending(reply: Any) -> int:
    """How many deliveries a group has pending, from the summary of XPENDING."""
    if isinstance(reply, dict):
        return int(cast(dict[str, Any], reply).get("pending", 0))
    return int(reply[0]) if _is_list(reply) and reply else 0


def last_delivered(reply: Any) -> str:
    """What the group delivered last, from XINFO GROUPS; `0-0` when there is none."""
    for group in reply if _is_list(reply) else ():
        info = cast(dict[Any, bytes], group if isinstance(group, dict) else pairs(group))
        last = info.get("last-delivered-id") or info.get(b"last-delivered-id")
        if last is not None:
            return last.decode()
    return "0-0"


def last_generated(reply: Any) -> str:
    """The id of the newest entry that a stream ever had, from XINFO STREAM; `0-0` when there is no stream."""
    info = cast(dict[Any, bytes], reply if isinstance(reply, dict) else pairs(reply))
    last = info.get("last-generated-id") or info.get(b"last-generated-id") or b"0-0"
    return last.decode()


def first_entry(reply: Any) -> bytes | None:
    """The id of the first entry of an XRANGE; None for an error or no entry."""
    return cast(bytes, reply[0][0]) if isinstance(reply, list) and reply else None


def pause_reason(paused: bytes | None) -> str | None:
    """Why a queue is paused, from the note that pausing left."""
    try:
        return str(msgspec.json.decode(paused)["reason"]) or None if paused else None
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None


def entry_order(entry: str) -> tuple[int, int]:
    """A stream entry's id as something that sorts."""
    milliseconds, _, sequence = entry.partition("-")
    return int(milliseconds), int(sequence)

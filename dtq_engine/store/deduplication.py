"""Unique keys, throttles and debouncing, as `submit.lua` takes them."""

import hashlib
from collections.abc import Iterator, Mapping

from dtq_engine import codec
from dtq_engine.model import Deduplication, NewTask, Unique

LETTERS: Mapping[bytes, Unique] = {b"w": Unique.WAITING, b"d": Unique.UNTIL_DONE}
"""What the first letter of a record's `u` says."""

_LETTER_OF = {unique: letter.decode() for letter, unique in LETTERS.items()}


def encode(task: NewTask, wanted: Deduplication) -> Iterator[str | int]:
    """The pairs that say for which tasks another one may stand."""
    if wanted.unique is not None:
        yield from ("u", _LETTER_OF[wanted.unique] + _digest("unique", task, wanted.key))
    if wanted.debounce_ms is not None:
        yield from ("u", "b" + _digest("debounce", task, wanted.key), "+debounce", wanted.debounce_ms)
    if wanted.debounce_max_ms is not None:
        yield from ("+longest", wanted.debounce_max_ms)
    if wanted.at_most is not None:
        yield from ("+throttle", f"{wanted.at_most} {wanted.per_ms} {_digest('throttle', task, wanted.key)}")


def _digest(family: str, task: NewTask, key: str | None) -> str:
    """What stands for a key in Redis: 32 hexadecimal digits of the SHA-256 of its use, the task type and the key."""
    text = codec.canonical(task.payload) if key is None else key.encode()
    return hashlib.sha256(f"{family}\0{task.type}\0".encode() + text).hexdigest()[:32]

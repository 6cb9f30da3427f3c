"""Messages from tasks to those of other queues, which no script can reach: the leader carries them over.

Each arrives before it is taken out of the outbox, and one that arrives again changes nothing.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dtq_engine import crash
from dtq_engine.errors import RedisDamaged
from dtq_engine.store import replies
from dtq_engine.store.base import Base, chunks
from dtq_engine.validate import is_queue

log = logging.getLogger("dtq.store")

ENTRIES_PER_CALL = 20
CHILDREN_PER_CALL = 100
Reference = tuple[str, str]
"""Queue and id of a task."""


class News(NamedTuple):
    """How a parent ended, as `arrive.lua` takes it."""

    told: bytes
    state: bytes
    reason: bytes
    has_result: bytes
    result: bytes


GONE = News(b"0", b"X", b"gone", b"0", b"")
"""What is told of a parent that is not there."""


class Outbox:
    """Carries messages from queue to queue."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def relay(self, queue: str) -> int:
        """Carry over all that waits in the outbox of a queue, the oldest first; how many messages have arrived.

        What cannot arrive, because keys of the other queue are damaged or a parent is yet to come, stays here.
        """
        key, first, relayed = self._base.keys.outbox(queue), "-", 0
        while page := self._base.connection.call("XRANGE", key, first, "+", "COUNT", ENTRIES_PER_CALL):
            for entry, fields in page:
                if self._deliver(queue, replies.pairs(fields)):
                    crash.at("relayed")
                    self._base.connection.call("XDEL", key, entry)
                    relayed += 1
            first = f"({page[-1][0].decode()}"
        return relayed

    def _deliver(self, queue: str, message: Mapping[bytes, bytes]) -> bool:
        """Whether a message is done with; what nobody can read is, and what a newer release wrote is not."""
        parent, children = _reference(message.get(b"p", b"")), _references(message.get(b"c", b""))
        try:
            match message.get(b"k"):
                case b"tell":
                    news = News(*(message.get(name, b"") for name in (b"n", b"s", b"m", b"v", b"r")))
                    return parent is None or self._tell(parent, children, news)
                case b"ask":
                    return parent is None or False not in [self._ask(parent, child) for child in children]
                case kind:
                    return kind is None
        except RedisDamaged as error:
            log.error("cannot relay a message from the queue %s: %s", queue, error)
            return False

    def _tell(self, parent: Reference, children: Sequence[Reference], news: News) -> bool:
        by_queue: dict[str, list[str]] = {}
        for queue, task_id in children:
            by_queue.setdefault(queue, []).append(task_id)
        parts = [
            (queue, part) for queue, ids in by_queue.items() for part in chunks(ids, [0] * len(ids), CHILDREN_PER_CALL)
        ]
        # All of them, whatever becomes of the first: a damaged queue must not keep the others waiting.
        return False not in [self._arrive(queue, parent, part, news) for queue, part in parts]

    def _arrive(self, queue: str, parent: Reference, ids: Sequence[str], news: News) -> bool:
        answer: bytes = self._base.run("arrive", queue, " ".join(parent), *news, *ids)
        crash.at("arrived")
        return answer == b"OK"

    def _ask(self, parent: Reference, child: Reference) -> bool:
        """Have a parent know its child, and the child what became of a parent that has ended."""
        answer = self._base.run("link", parent[0], parent[1], " ".join(child))
        if answer == b"LIVING":
            return True
        if answer == b"LATER":
            return False
        return self._arrive(child[0], parent, [child[1]], GONE if answer == b"GONE" else News(*answer))


def _reference(words: bytes) -> Reference | None:
    queue, _, task_id = words.decode("utf-8", "replace").partition(" ")
    return (queue, task_id) if is_queue(queue) and task_id else None


def _references(lines: bytes) -> list[Reference]:
    return [found for line in lines.split(b"\n") if (found := _reference(line)) is not None]

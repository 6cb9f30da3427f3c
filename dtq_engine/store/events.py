"""What happened, read back from the logs: events of tasks, workers and queues, and operators' actions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, cast

from dtq_engine.store.base import Base
from dtq_engine.store.replies import first_entry, pairs, whole

ENTRIES_PER_CALL = 20
"""An entry holds the events of one script call, up to some hundreds."""


NO_TASK = "*"
UNNUMBERED = b"-"
NO_NUMBER = -1


class EventType(StrEnum):
    """What there is to tell. A newer release may tell more, so that an event's `type` is any text."""

    TASK_QUEUED = "TASK_QUEUED"
    TASK_STARTED = "TASK_STARTED"
    TASK_SUCCEEDED = "TASK_SUCCEEDED"
    TASK_FAILED = "TASK_FAILED"
    TASK_RETRY_SCHEDULED = "TASK_RETRY_SCHEDULED"
    TASK_RETRIED = "TASK_RETRIED"
    TASK_DEAD_LETTERED = "TASK_DEAD_LETTERED"
    TASK_CANCELLED = "TASK_CANCELLED"
    TASK_EXPIRED = "TASK_EXPIRED"
    TASK_DUPLICATE_ABSORBED = "TASK_DUPLICATE_ABSORBED"
    TASK_FENCED = "TASK_FENCED"
    TASK_PROGRESS = "TASK_PROGRESS"
    """Told only to whoever looks on: it has no number (-1), and is in no log."""
    WORKER_STARTED = "WORKER_STARTED"
    WORKER_STOPPED = "WORKER_STOPPED"
    WORKER_STALE = "WORKER_STALE"
    CONFIGURATION_CHANGED = "CONFIGURATION_CHANGED"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a queue; `event_id` counts up by one within it, but -1 stands for no number.

    Events of a worker, and of the queue itself, have no `task_id` and no `task_type`, and 0 as `attempt`. A worker that
    serves several queues is told in each of them.
    """

    event_id: int
    ts_ms: int
    type: str
    task_id: str | None
    queue: str
    task_type: str | None
    attempt: int
    worker_id: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action of an operator."""

    entry: str
    ts_ms: int
    action: str
    target: str
    queue: str
    actor: str
    reason: str
    request: str
    count: int


class Events:
    """The event log and the audit log of each queue."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def tail(self, queue: str, count: int) -> list[Event]:
        """The latest `count` events of a queue, oldest first."""
        return list(islice(self.newest(queue), count))[::-1]

    def newest(self, queue: str, before: int | None = None) -> Iterator[Event]:
        """The events of a queue (before that with a number), newest first, read as far as they are asked for."""
        if before is None:
            yield from self._backwards(queue, "+")
            return
        # The entry that holds the event just before is named by the last of its events.
        key = self._base.keys.events(queue)
        entries = self._base.connection.call("XRANGE", key, f"{max(0, before - 1)}-0", "+", "COUNT", 1)
        start = entries[0][0].decode() if entries else "+"
        yield from (event for event in self._backwards(queue, start) if event.event_id < before)

    def _backwards(self, queue: str, end: str) -> Iterator[Event]:
        while entries := self._base.connection.call(
            "XREVRANGE", self._base.keys.events(queue), end, "-", "COUNT", ENTRIES_PER_CALL
        ):
            for entry, fields in entries:
                yield from reversed(_decode(queue, entry, fields))
            end = f"({entries[-1][0].decode()}"

    def first(self, queues: Sequence[str]) -> list[Event | None]:
        """The oldest event that the log of each of these queues has; None where it has none, or cannot be read."""
        asked = [("XRANGE", self._base.keys.events(queue), "-", "+", "COUNT", 1) for queue in queues]
        replies = self._base.connection.pipeline(asked) if asked else []
        return [_first(queue, reply) for queue, reply in zip(queues, replies, strict=True)]

    def last(self, queues: Sequence[str]) -> dict[str, int]:
        """The number of the latest event of each of these queues; 0 where the log has none."""
        asked = [("XREVRANGE", self._base.keys.events(queue), "+", "-", "COUNT", 1) for queue in queues]
        replies = self._base.connection.pipeline(asked)
        return {queue: _number(first_entry(reply)) for queue, reply in zip(queues, replies, strict=True)}

    def after(self, positions: Mapping[str, int]) -> list[Event]:
        """What happened in these queues after the event that each names (0: all that the log has), oldest first.

        Of each queue at most the events of some script calls: ask again from the last ones. The first event of a
        queue is not the next number when the log is shorter than that.
        """
        asked = [
            ("XRANGE", self._base.keys.events(queue), f"{position + 1}-0", "+", "COUNT", ENTRIES_PER_CALL)
            for queue, position in positions.items()
        ]
        found = [
            event
            for (queue, position), reply in zip(positions.items(), self._base.connection.pipeline(asked), strict=True)
            if not isinstance(reply, Exception)
            for entry, fields in reply
            for event in _decode(queue, entry, fields)
            if event.event_id > position
        ]
        return sorted(found, key=lambda event: (event.ts_ms, event.queue, event.event_id))

    def audit(self, queue: str, count: int, before: str | None = None) -> list[AuditEntry]:
        """The latest `count` actions on a queue and its tasks (before that of an entry), newest first."""
        end = "+" if before is None else f"({before}"
        entries = self._base.connection.call("XREVRANGE", self._base.keys.audit(queue), end, "-", "COUNT", count)
        return [_decode_audit(queue, entry, fields) for entry, fields in entries]


def _number(entry: bytes | None) -> int:
    """The number of the last event of an entry, which its id is."""
    return int(entry.partition(b"-")[0]) if entry else 0


def _first(queue: str, reply: Any) -> Event | None:
    """The first event of the first entry of an XRANGE; None for an error or no entry."""
    entries = cast("list[tuple[bytes, Any]]", reply) if isinstance(reply, list) else []
    return next(iter(_decode(queue, *entries[0])), None) if entries else None


def decode_message(queue: str, message: bytes) -> list[Event]:
    """The events of one script call as they are published: a line with the last number and the time, then theirs."""
    head, _, body = message.partition(b"\n")
    last, _, ts_ms = head.partition(b" ")
    return _events(queue, last, ts_ms, body)


def _decode(queue: str, entry: bytes, fields: Any) -> list[Event]:
    """One log entry holds the events of one script call; its id is the number of the last of them."""
    body = pairs(fields)
    return _events(queue, entry.partition(b"-")[0], body.get(b"t", b""), body.get(b"d", b""))


def _events(queue: str, last: bytes, ts_ms: bytes, body: bytes) -> list[Event]:
    """The events of consecutive numbers up to `last`; a line that is none of ours is left out."""
    if not (last.isdigit() or last == UNNUMBERED) or (at_ms := whole(ts_ms)) is None:
        return []
    lines = body.decode("utf-8", "replace").split("\n")
    first = None if last == UNNUMBERED else int(last) - len(lines) + 1
    return [
        Event(
            event_id=NO_NUMBER if first is None else number,
            ts_ms=at_ms,
            type=words[0],
            task_id=None if words[1] == NO_TASK else words[1],
            queue=queue,
            task_type=None if words[1] == NO_TASK else words[2],
            attempt=int(words[3]),
            worker_id=None if words[4] == "-" else words[4],
            detail=None if words[5] == "-" else words[5],
        )
        for number, words in enumerate((line.split(" ") for line in lines), first or 0)
        if len(words) == 6 and whole(words[3].encode()) is not None
    ]


def _decode_audit(queue: str, entry: bytes, fields: Any) -> AuditEntry:
    """An entry as far as it can be read: one that lacks something must not hide the others."""
    body = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs(fields).items()}
    return AuditEntry(
        entry=entry.decode(),
        ts_ms=whole(body.get("t", "").encode()) or 0,
        action=body.get("action", ""),
        target=body.get("target", ""),
        queue=queue,
        actor=body.get("actor", ""),
        reason=body.get("reason", ""),
        request=body.get("request", ""),
        count=whole(body.get("count", "1").encode()) or 0,
    )

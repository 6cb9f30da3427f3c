"""What happened, read back from the logs: task events and operators' actions."""

from dataclasses import dataclass

from dtq_engine.store.base import Base


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a task. `event_id` counts up by one within a queue."""

    event_id: int
    ts_ms: int
    type: str
    task_id: str
    queue: str
    task_type: str
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
        events: list[Event] = []
        end = "+"
        while len(events) < count:
            entries = self._base.connection.call("XREVRANGE", self._base.keys.events(queue), end, "-", "COUNT", 10)
            if not entries:
                break
            for entry, fields in entries:
                events = _decode(queue, entry, fields) + events
            end = f"({entries[-1][0].decode()}"
        return events[-count:]

    def audit(self, queue: str, count: int) -> list[AuditEntry]:
        """The latest `count` actions on a queue and its tasks, newest first."""
        entries = self._base.connection.call("XREVRANGE", self._base.keys.audit(queue), "+", "-", "COUNT", count)
        return [_decode_audit(queue, entry, fields) for entry, fields in entries]


def _decode(queue: str, entry: bytes, fields: list[bytes]) -> list[Event]:
    """One log entry holds the events of one script call; its id is the number of the last of them."""
    body = dict(zip(fields[::2], fields[1::2], strict=True))
    lines = [line.split(" ") for line in body[b"d"].decode().split("\n")]
    first = int(entry.partition(b"-")[0]) - len(lines) + 1
    return [
        Event(
            event_id=first + position,
            ts_ms=int(body[b"t"]),
            type=words[0],
            task_id=words[1],
            queue=queue,
            task_type=words[2],
            attempt=int(words[3]),
            worker_id=None if words[4] == "-" else words[4],
            detail=None if words[5] == "-" else words[5],
        )
        for position, words in enumerate(lines)
    ]


def _decode_audit(queue: str, entry: bytes, fields: list[bytes]) -> AuditEntry:
    body = {
        name.decode(): value.decode("utf-8", "replace") for name, value in zip(fields[::2], fields[1::2], strict=True)
    }
    return AuditEntry(
        entry=entry.decode(),
        ts_ms=int(body["t"]),
        action=body["action"],
        target=body["target"],
        queue=queue,
        actor=body["actor"],
        reason=body["reason"],
        request=body["request"],
        count=int(body.get("count", 1)),
    )

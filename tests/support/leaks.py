"""What may be left in Redis after a test: everything else is a leak.

A key is in order if it
- expires, which is how finished tasks and all short memories end (but a living task must not);
- is one of the few kept per queue or per deployment, whatever happens (`KEPT`);
- belongs to a living task: its record, found from exactly the stream or schedule its status calls for, the
  satellites that the record names, its idempotency key, and its unique key while it holds that;
- is a band or schedule, and each of its entries leads to a task that waits or runs there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

# By the part of the key's name between the prefix and the queue or other name.
KEPT = {
    "queues": "the names of all queues",
    "rejections": "how many tasks were not accepted, by reason",
    "workers": "the ids of workers that have been seen",
    "queue": "marker of a registered queue, and its pause",
    "counters": "exact totals",
    "crew": "the workers that serve the queue",
    "limits": "numbers of limits: as many as the code has, and operators set",
    "periodic": "periodic tasks: as many as the code has",
    "stream:events": "event log, bounded",
    "stream:audit": "audit log, bounded",
    "stream:dead-letter": "dead letters, bounded in number and age",
    "outbox": "messages to tasks of other queues, each until it has arrived",
    "pulse": "last sight of Redis' clock",
    "clock": "the tests' own",
    "wake": "wake-up tokens, at most 64",
    "wake:schedule": "wake-up tokens, at most 64",
    "tasks:succeeded": "ids of finished tasks, trimmed",
    "tasks:failed": "ids of finished tasks, trimmed",
    "tasks:dead_lettered": "ids of finished tasks, trimmed",
    "tasks:cancelled": "ids of finished tasks, trimmed",
    "tasks:expired": "ids of finished tasks, trimmed",
}
SCHEDULES = {"schedule": b"P", "retry:schedule": b"T", "blocked": b"B"}
SATELLITES = {
    "payload": b"p",
    "headers": b"h",
    "errors": b"e",
    "result": b"r",
    "logs": b"l",
    "steps": b"s",
    "children": b"c",
    "awaits": b"a",
}
WAITS_IN = {status: kind for kind, status in SCHEDULES.items()}

_NAME = re.compile(r"(?P<kind>[a-z_:-]+?)(:\{(?P<queue>[^}]*)\}(:(?P<rest>.*))?)?", re.DOTALL)

Record = Mapping[bytes, bytes]


class Leaks:
    """Looks through all the keys under a prefix."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def keys(self) -> list[str]:
        """Every key under the prefix."""
        return sorted(key.decode() for key in self._client.scan_iter(match=f"{self._prefix}:*", count=1000))

    def found(self, *, drained: bool = False) -> list[str]:
        """A sentence for each key that is not in order; after a drain no task may wait or run."""
        keys = self.keys()
        return [
            f"{key}: {why}"
            for key, ttl in zip(keys, self._each("TTL", keys), strict=True)
            for why in self._complaints(key, ttl, drained)
        ]

    def clean(self) -> None:
        """Remove every key under the prefix."""
        # One by one, as those of a cluster are in many slots.
        self._each("DEL", self.keys())

    def _each(self, command: str, keys: list[str]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.execute_command(command, key)
        return list(pipeline.execute())

    def _complaints(self, key: str, ttl: int, drained: bool) -> Iterator[str]:
        name = _NAME.fullmatch(key.removeprefix(f"{self._prefix}:"))
        kind, queue, rest = name.group("kind", "queue", "rest") if name else ("", "", "")
        if kind in {"limit", "limited"} and ttl == -1:
            yield from self._about_slots(key, queue, rest) if kind == "limit" else self._about_line(key, queue, rest)
        elif kind == "task":
            yield from self._about_record(queue, rest, ttl, drained)
        elif ttl != -1 or kind in KEPT:
            return
        elif kind == "stream":
            yield from self._about_band(key, queue, drained)
        elif kind in SCHEDULES:
            yield from self._about_schedule(key, kind, queue, drained)
        elif kind in SATELLITES:
            if SATELLITES[kind] not in self._living(queue, rest).get(b"S", b""):
                yield "has no living task that names it"
        elif kind in {"idempotency", "unique"}:
            yield from self._about_lock(key, kind, queue, rest)
        else:
            yield "is on no list of allowed keys"

    def _about_lock(self, key: str, kind: str, queue: str, rest: str) -> Iterator[str]:
        words = self._client.get(key).decode().split()
        holder = self._living(queue, words[1] if kind == "idempotency" else words[0])
        if not holder:
            yield "has no living task and does not expire"
        elif kind == "unique" and (holder.get(b"u", b"")[1:].decode() != rest or not _holds_unique_key(holder)):
            yield "is held by no task whose record says so"

    def _record(self, queue: str, task_id: str) -> Record:
        record: Record = self._client.hgetall(f"{self._prefix}:task:{{{queue}}}:{task_id}")
        return record

    def _living(self, queue: str, task_id: str) -> Record:
        record = self._record(queue, task_id)
        return record if record.get(b"s", b"") in {b"P", b"Q", b"R", b"T", b"B"} else {}

    def _about_record(self, queue: str, task_id: str, ttl: int, drained: bool) -> Iterator[str]:
        record = self._record(queue, task_id)
        status = record.get(b"s", b"").decode()
        if not self._living(queue, task_id):
            if ttl == -1:
                yield f"has ended ({status}) and does not expire"
            return
        if ttl != -1:
            yield f"lives ({status}) but expires"
        if drained:
            yield f"lives ({status}) after a drain"
        if not self._is_reachable(queue, task_id, record):
            yield f"lives ({status}) but is in no stream or schedule that would lead to it"

    def _is_reachable(self, queue: str, task_id: str, record: Record) -> bool:
        if schedule := WAITS_IN.get(record[b"s"]):
            return self._client.zscore(f"{self._prefix}:{schedule}:{{{queue}}}", task_id) is not None
        entry, band = record[b"e"].decode(), f"{self._prefix}:stream:{{{queue}}}:p{record[b'r'].decode()[0]}"
        if not entry or not self._client.xrange(band, entry, entry):
            return False
        return record[b"s"] == b"Q" or record[b"e"] in self._pending(band)

    def _about_band(self, key: str, queue: str, drained: bool) -> Iterator[str]:
        for entry, fields in self._client.xrange(key):
            task_id = fields.get(b"i", b"").decode()
            record = self._living(queue, task_id)
            if drained or record.get(b"e") != entry or record[b"s"] not in {b"Q", b"R"}:
                yield f"its entry {entry.decode()} of task {task_id} is left over"
        for pending in self._pending(key):
            if not self._client.xrange(key, pending, pending):
                yield f"{pending.decode()} is pending but gone from the stream"

    def _pending(self, key: str) -> list[bytes]:
        if not self._client.xinfo_groups(key):
            return []
        return [each["message_id"] for each in self._client.xpending_range(key, "workers", "-", "+", 10_000)]

    def _about_slots(self, key: str, queue: str, bucket: str) -> Iterator[str]:
        """A slot is held by a task that runs under the token, or that was called and waits to start."""
        for member in self._client.zrange(key, 0, -1):
            task_id, token = member.split(b" ")
            record = self._living(queue, task_id.decode())
            runs = record.get(b"s") == b"R" and record[b"L"].split(b" ")[0] == token
            called = token == b"-" and record.get(b"s") == b"Q" and record.get(b"c", b"").startswith(b"+ ")
            if not (runs or called) or bucket.encode() not in record[b"c"].split(b" "):
                yield f"its slot of task {task_id.decode()} is held by nobody"

    def _about_line(self, key: str, queue: str, bucket: str | None) -> Iterator[str]:
        """Who waits in a line is blocked for that reason, and the index has the lines in which somebody waits."""
        if bucket is None:
            for each in self._client.zrange(key, 0, -1):
                if not self._client.exists(f"{key}:{each.decode()}"):
                    yield f"nobody waits for {each.decode()}"
            return
        for task_id in self._client.zrange(key, 0, -1):
            if self._living(queue, task_id.decode()).get(b"m") != b"limit:" + bucket.encode():
                yield f"{task_id.decode()} does not wait in it"

    def _about_schedule(self, key: str, kind: str, queue: str, drained: bool) -> Iterator[str]:
        for task_id in self._client.zrange(key, 0, -1):
            if drained or self._living(queue, task_id.decode()).get(b"s") != SCHEDULES[kind]:
                yield f"its member {task_id.decode()} is left over"


def _holds_unique_key(record: Record) -> bool:
    """Whether a living task still holds its unique key: until it ends, until it starts, or while it is debounced."""
    mode, state, started = record.get(b"u", b"")[:1], record.get(b"s"), record.get(b"L", b"").split(b" ")[3:4]
    return mode == b"d" or (mode == b"w" and started in ([], [b"0"])) or (mode == b"b" and state == b"P")

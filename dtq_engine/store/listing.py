"""Listing tasks, newest first, in pages whose cost does not grow with the number of tasks.

Waiting and running tasks are read straight from the streams and schedules, finished ones from the index of their
status; "all" merges the heads. There is no index of living tasks: it would cost each of them a third more memory.
"""

import base64
import heapq
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from dtq_engine.errors import InvalidCursor, RedisDamaged, RedisRefused
from dtq_engine.keys import PRIORITIES
from dtq_engine.model import FINAL, Page, Task, TaskStatus
from dtq_engine.store import replies
from dtq_engine.store.base import Base

ROW_BUDGET = 1000
"""How many rows one page may look at; a filter that matches less often gives short pages."""

MOST_RUNNING = 5000
"""How many running tasks of one band are looked at; Redis tells the oldest first."""

# What continues a stream, a sorted set, and a source that was not read yet: nothing newer than the last row, or a task
# that moves on meanwhile would come twice. 19 digits are within what Redis can hold.
_UNREAD = ""
_TIME = re.compile(r"[0-9]{1,19}")
_ENTRY = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_MEMBER = re.compile(r"(-?[0-9]{1,19}(\.[0-9]{1,9})?(e[+-][0-9]{1,3})?|-?inf) [\x00-\xff]*", re.DOTALL)

LAST_MS = 2**53
"""A time after this one is damage: it sorts as if it were this one."""

Reader = Callable[[Sequence[tuple[str, str]]], list[Task | None]]
Source = Callable[[str, str, int, dict[str, str]], "Iterable[Row]"]
Command = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """What to list."""

    queues: tuple[str, ...]
    status: TaskStatus | None
    type: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate: its time orders the merge, its mark continues its source."""

    ms: float
    task_id: str
    queue: str
    source: str
    mark: str

    def note(self, marks: dict[str, str]) -> None:
        """Have a listing go on after this row."""
        marks[self.source], marks[_UNREAD] = self.mark, f"{self.ms:.0f}"


class TaskListing:
    """One listing. A cursor says how far each source was read.

    A source that holds something else than it must raises RedisDamaged, or is left out and put into `damaged`.
    """

    def __init__(self, base: Base, read: Reader, damaged: set[str] | None = None) -> None:
        self._damaged = damaged
        self._base = base
        self._connection = base.connection
        self._read = read
        self._ahead: Mapping[Command, Any] = {}

    def page(self, query: Query, cursor: str | None) -> Page[Task]:
        """The next page and where it ended. Raises InvalidCursor."""
        marks = decode_cursor(cursor)
        found: list[Task] = []
        looked = 0
        while len(found) < query.limit and looked < ROW_BUDGET:
            rows = self.rows(query, marks)
            looked += len(rows)
            for row, task in zip(rows, self._read([(row.queue, row.task_id) for row in rows]), strict=True):
                if len(found) == query.limit:
                    return Page(tuple(found), encode_cursor(marks))
                row.note(marks)
                if task is not None and _matches(query, task):
                    found.append(task)
            if len(rows) < query.limit:
                return Page(tuple(found))
        return Page(tuple(found), encode_cursor(marks))

    def rows(self, query: Query, marks: dict[str, str]) -> list[Row]:
        """The newest candidates that come after `marks`, over all sources; `query.type` is not looked at."""
        sources = [(queue, *source) for queue in query.queues for source in self._sources(query, queue)]
        self._ask_ahead([(read, key) for _, read, key in sources], query.limit, marks)
        found = [self._rows(read, key, queue, query.limit, marks) for queue, read, key in sources]
        # Most of what was read is never looked at: rows are made as they are needed.
        merged = heapq.merge(*found, key=lambda row: -row.ms)
        return list(islice(merged, query.limit))

    def _sources(self, query: Query, queue: str) -> Iterator[tuple[Source, str]]:
        keys, status = self._base.keys, query.status
        if status in {None, TaskStatus.QUEUED, TaskStatus.RUNNING}:
            rows_of = self._running_rows if status is TaskStatus.RUNNING else self._stream_rows
            for priority in PRIORITIES:
                yield rows_of, keys.stream(queue, priority)
        waiting = {
            TaskStatus.PENDING: keys.schedule(queue),
            TaskStatus.RETRYING: keys.retry_schedule(queue),
            TaskStatus.BLOCKED: keys.blocked(queue),
        }
        for of_status, key in (waiting | {each: keys.index(queue, each) for each in sorted(FINAL)}).items():
            if status in {None, of_status}:
                yield self._set_rows, key

    def _ask_ahead(self, sources: Sequence[tuple[Source, str]], limit: int, marks: dict[str, str]) -> None:
        """Ask in one go what takes one command for each source: there are 18 in every queue, each a journey."""
        commands = [_newest(key, limit, marks) for read, key in sources if read == self._stream_rows]
        commands += [_held(key) for read, key in sources if read == self._running_rows]
        commands += [
            _highest(key, limit, marks) for read, key in sources if read == self._set_rows and key not in marks
        ]
        self._ahead = dict(zip(commands, self._connection.pipeline(commands), strict=True))

    def _call(self, command: Command) -> Any:
        """The answer that was asked for ahead; where that is an error, the command says itself what is wrong."""
        answer = self._ahead.get(command)
        return self._connection.call(*command) if answer is None or isinstance(answer, Exception) else answer

    def _rows(self, read: Source, key: str, queue: str, limit: int, marks: dict[str, str]) -> Iterable[Row]:
        try:
            return read(key, queue, limit, marks)
        except RedisDamaged:
            if self._damaged is None:
                raise
            self._damaged.add(key)
            return []

    def _stream_rows(self, stream: str, queue: str, limit: int, marks: dict[str, str]) -> Iterable[Row]:
        return _stream_rows(self._call(_newest(stream, limit, marks)), queue, stream)

    def _running_rows(self, stream: str, queue: str, limit: int, marks: dict[str, str]) -> Iterable[Row]:
        """What workers hold, straight from the pending list: in the stream it may lie behind all that waits."""
        held = self._ahead.get(_held(stream))
        if not (isinstance(held, Exception) or replies.pending(held)) or "NOGROUP" in str(held):
            return []
        try:
            pending = self._connection.call(*_held(stream), "-", _end(stream, marks), MOST_RUNNING)
        except RedisRefused:  # nothing was ever claimed here
            return []
        entries = [each[0] for each in reversed(pending)][:limit]
        found = self._connection.pipeline([("XRANGE", stream, entry, entry) for entry in entries])
        # What is pending without an entry is nobody's task, but must not end the list.
        answers: list[Any] = [
            reply[0] if isinstance(reply, list) and reply else (entry, [])
            for entry, reply in zip(entries, found, strict=True)
        ]
        return _stream_rows(answers, queue, stream)

    def _set_rows(self, key: str, queue: str, limit: int, marks: dict[str, str]) -> Iterable[Row]:
        reply = self._members(key, limit, marks)
        return (
            Row(
                min(max(float(score), 0), LAST_MS),
                member.decode("utf-8", "replace"),
                queue,
                key,
                # Byte by byte, as what somebody has put among the members need not be text.
                f"{score.decode()} {member.decode('latin-1')}",
            )
            for member, score in zip(reply[::2], reply[1::2], strict=True)
        )

    def _members(self, key: str, limit: int, marks: dict[str, str]) -> Any:
        """Members with scores, highest first, after the marked one's place; it may have moved or gone by now."""
        if key not in marks:
            return self._call(_highest(key, limit, marks))
        score, _, member = marks[key].partition(" ")
        first = self._rank_after(key, score, member.encode("latin-1"))
        return self._connection.call("ZRANGE", key, first, first + limit - 1, "REV", "WITHSCORES")

    def _rank_after(self, key: str, score: str, member: bytes) -> int:
        """The first rank, highest first, after a score and member; equal scores are ordered by name."""
        call = self._connection.call
        above = int(call("ZCOUNT", key, f"({score}", "+inf"))
        equal = range(above, above + int(call("ZCOUNT", key, score, score)))
        return above + bisect_left(
            equal, True, key=lambda rank: (call("ZRANGE", key, rank, rank, "REV") or [b""])[0] < member
        )


def _newest(stream: str, limit: int, marks: dict[str, str]) -> Command:
    return ("XREVRANGE", stream, _end(stream, marks), "-", "COUNT", limit)


def _held(stream: str) -> Command:
    """How much of a stream workers hold; with a range behind it, what that is."""
    return ("XPENDING", stream, "workers")


def _highest(key: str, limit: int, marks: dict[str, str]) -> Command:
    """For a set without a mark of its own."""
    newest = marks.get(_UNREAD, "+inf")
    return ("ZRANGE", key, newest, "-inf", "BYSCORE", "REV", "LIMIT", 0, limit, "WITHSCORES")


def _end(stream: str, marks: dict[str, str]) -> str:
    return f"({marks[stream]}" if stream in marks else marks.get(_UNREAD, "+")


def _stream_rows(entries: Sequence[tuple[bytes, Any]], queue: str, stream: str) -> Iterable[Row]:
    # An entry that names no task stands under its own name: left out, a source would seem to end where it is.
    return (
        Row(
            int(entry.partition(b"-")[0]),
            (replies.pairs(fields).get(b"i") or entry).decode("utf-8", "replace"),
            queue,
            stream,
            entry.decode(),
        )
        for entry, fields in entries
    )


def _matches(query: Query, task: Task) -> bool:
    return query.status in {None, task.status} and query.type in {None, task.type}


def encode_cursor(marks: dict[str, str]) -> str:
    """How far each source was read, as text."""
    return base64.urlsafe_b64encode(msgspec.json.encode(marks)).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> dict[str, str]:
    """The reverse. Raises InvalidCursor."""
    if cursor is None:
        return {}
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        marks = msgspec.json.decode(raw, type=dict[str, str])
    except (ValueError, msgspec.MsgspecError):
        marks = {_UNREAD: ""}
    if not all(_pattern(source).fullmatch(mark) for source, mark in marks.items()):
        raise InvalidCursor("This cursor is not one of ours: start again without it.")
    return marks


def _pattern(source: str) -> re.Pattern[str]:
    if source == _UNREAD:
        return _TIME
    return _ENTRY if ":stream:{" in source else _MEMBER

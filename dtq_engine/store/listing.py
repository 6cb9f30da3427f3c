"""Listing tasks, newest first, in pages whose cost does not grow with the number of tasks.

Waiting and running tasks are read straight from the streams and schedules, finished ones from the index of their
status; "all" merges the heads. There is no index of living tasks: it would cost each of them a third more memory.
"""

import base64
import heapq
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dtq_engine.errors import InvalidCursor
from dtq_engine.keys import PRIORITIES
from dtq_engine.model import FINAL, Page, Task, TaskStatus
from dtq_engine.store.base import Base

ROW_BUDGET = 1000
"""How many rows one page may look at; a filter that matches less often gives short pages."""

# What continues a stream, a sorted set, and a source that was not read yet: nothing newer than the last row, or a task
# that moves on meanwhile would come twice. 19 digits are within what Redis can hold.
_UNREAD = ""
_TIME = re.compile(r"[0-9]{1,19}")
_ENTRY = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_MEMBER = re.compile(r"[0-9]{1,19}(\.[0-9]{1,9})? .+", re.DOTALL)

Reader = Callable[[Sequence[tuple[str, str]]], list[Task | None]]


@dataclass(frozen=True, slots=True)
class Query:
    """What to list."""

    queues: tuple[str, ...]
    status: TaskStatus | None
    type: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One candidate: its time orders the merge, its mark continues its source."""

    ms: float
    task_id: str
    queue: str
    source: str
    mark: str


class TaskListing:
    """One listing. A cursor says how far each source was read."""

    def __init__(self, base: Base, read: Reader) -> None:
        self._base = base
        self._connection = base.connection
        self._read = read

    def page(self, query: Query, cursor: str | None) -> Page[Task]:
        """The next page and where it ended. Raises InvalidCursor."""
        marks = _decode_cursor(cursor)
        found: list[Task] = []
        looked = 0
        while len(found) < query.limit and looked < ROW_BUDGET:
            rows = self._next_rows(query, marks)
            if not rows:
                return Page(tuple(found))
            looked += len(rows)
            for row, task in zip(rows, self._read([(row.queue, row.task_id) for row in rows]), strict=True):
                if len(found) == query.limit:
                    return Page(tuple(found), _encode_cursor(marks))
                marks[row.source], marks[_UNREAD] = row.mark, f"{row.ms:.0f}"
                if task is not None and _matches(query, task):
                    found.append(task)
        return Page(tuple(found), _encode_cursor(marks))

    def _next_rows(self, query: Query, marks: dict[str, str]) -> list[_Row]:
        """The newest rows that come after `marks`, over all sources."""
        sources = [rows for queue in query.queues for rows in self._sources(query, queue, marks)]
        merged = heapq.merge(*sources, key=lambda row: -row.ms)
        return [row for _, row in zip(range(query.limit), merged, strict=False)]

    def _sources(self, query: Query, queue: str, marks: dict[str, str]) -> Iterator[list[_Row]]:
        keys, status = self._base.keys, query.status
        if status in {None, TaskStatus.QUEUED, TaskStatus.RUNNING}:
            for priority in PRIORITIES:
                yield self._stream_rows(keys.stream(queue, priority), queue, query.limit, marks)
        waiting = {
            TaskStatus.PENDING: keys.schedule(queue),
            TaskStatus.RETRYING: keys.retry_schedule(queue),
            TaskStatus.BLOCKED: keys.blocked(queue),
        }
        for of_status, key in (waiting | {each: keys.index(queue, each) for each in sorted(FINAL)}).items():
            if status in {None, of_status}:
                yield self._set_rows(key, queue, query.limit, marks)

    def _stream_rows(self, stream: str, queue: str, limit: int, marks: dict[str, str]) -> list[_Row]:
        end = f"({marks[stream]}" if stream in marks else marks.get(_UNREAD, "+")
        entries = self._connection.call("XREVRANGE", stream, end, "-", "COUNT", limit)
        return [
            _Row(int(entry.partition(b"-")[0]), fields[1].decode("utf-8", "replace"), queue, stream, entry.decode())
            for entry, fields in entries
            if len(fields) > 1
        ]

    def _set_rows(self, key: str, queue: str, limit: int, marks: dict[str, str]) -> list[_Row]:
        reply = self._members(key, limit, marks)
        pairs = list(zip(reply[::2], reply[1::2], strict=True))
        return [
            _Row(float(score), member.decode("utf-8", "replace"), queue, key, f"{score.decode()} {member.decode()}")
            for member, score in pairs
        ]

    def _members(self, key: str, limit: int, marks: dict[str, str]) -> Any:
        """Members with scores, highest first, after the marked one's place; it may have moved or gone by now."""
        if key not in marks:
            newest = marks.get(_UNREAD, "+inf")
            scores = ("BYSCORE", "REV", "LIMIT", 0, limit, "WITHSCORES")
            return self._connection.call("ZRANGE", key, newest, "-inf", *scores)
        score, _, member = marks[key].partition(" ")
        first = self._rank_after(key, score, member.encode())
        return self._connection.call("ZRANGE", key, first, first + limit - 1, "REV", "WITHSCORES")

    def _rank_after(self, key: str, score: str, member: bytes) -> int:
        """The first rank, highest first, after a score and member; equal scores are ordered by name."""
        call = self._connection.call
        above = int(call("ZCOUNT", key, f"({score}", "+inf"))
        equal = range(above, above + int(call("ZCOUNT", key, score, score)))
        return above + bisect_left(
            equal, True, key=lambda rank: (call("ZRANGE", key, rank, rank, "REV") or [b""])[0] < member
        )


def _matches(query: Query, task: Task) -> bool:
    return query.status in {None, task.status} and query.type in {None, task.type}


def _encode_cursor(marks: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(marks)).decode().rstrip("=")


def _decode_cursor(cursor: str | None) -> dict[str, str]:
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

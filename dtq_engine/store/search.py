"""Searching tasks: as listing them, with any condition, within a budget, and with what cannot be read shown too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtq_engine.model import Task, TaskStatus
from dtq_engine.store.base import Base
from dtq_engine.store.inspect import ROW_SIDES, Inspect
from dtq_engine.store.listing import Query, TaskListing, decode_cursor, encode_cursor

STEP = 200
"""How many records are read at a time where a condition may leave most of them out."""

Condition = Callable[[Task], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """One row: where the task is, and the task without payload and result; None if its record is gone or damaged."""

    queue: str
    task_id: str
    task: Task | None


@dataclass(frozen=True, slots=True)
class Findings:
    """Part of a search, newest first; `cursor` continues it, None at the end. `looked` counts the records it took.

    Tasks that only `damaged` keys lead to are missing.
    """

    rows: tuple[Found, ...]
    cursor: str | None
    looked: int
    damaged: tuple[str, ...] = ()


class Search:
    """Searches tasks. What it costs does not grow with their number."""

    def __init__(self, base: Base, inspect: Inspect) -> None:
        self._base = base
        self._inspect = inspect

    def tasks(
        self,
        *,
        queue: str | None = None,
        status: TaskStatus | None = None,
        condition: Condition | None = None,
        since_ms: int = 0,
        limit: int = 50,
        budget: int = 1000,
        cursor: str | None = None,
    ) -> Findings:
        """Tasks of a queue and status that meet a condition and whose time is not before `since_ms`.

        Their time is when they became or become available, started or ended, whichever was last. At most `limit`
        (1 to 200), of at most about `budget` records. Raises InvalidCursor.
        """
        damaged = set[str]()
        listing = TaskListing(self._base, self._inspect.read, damaged)
        queues = [queue] if queue else self._inspect.queues()
        query = Query(tuple(queues), status, None, limit if condition is None else STEP)
        marks, found, looked = decode_cursor(cursor), list[Found](), 0

        def findings(end: bool) -> Findings:
            return Findings(tuple(found), None if end else encode_cursor(marks), looked, tuple(sorted(damaged)))

        while len(found) < limit and looked < budget:
            rows = listing.rows(query, marks)
            places = [(row.queue, row.task_id) for row in rows]
            for row, task in zip(rows, self._inspect.read(places, ROW_SIDES), strict=True):
                if len(found) == limit or row.ms < since_ms:
                    return findings(end=row.ms < since_ms)
                row.note(marks)
                looked += 1
                if task is None or (status in {None, task.status} and (condition is None or condition(task))):
                    found.append(Found(row.queue, row.task_id, task))
            if len(rows) < query.limit:
                return findings(end=True)
        return findings(end=False)

    def rows(self, places: Sequence[tuple[str, str]]) -> list[Found]:
        """These tasks, each at its (queue, id), as rows of a list."""
        read = self._inspect.read(places, ROW_SIDES)
        return [Found(*place, task) for place, task in zip(places, read, strict=True)]

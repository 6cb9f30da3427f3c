"""Reading: tasks, queues, dead letters and counters as they are now. Nothing here writes."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dtq_engine.errors import InvalidCursor, RedisDamaged, TaskNotFound
from dtq_engine.model import DeadLetterEntry, Page, QueueStats, Task, TaskStatus
from dtq_engine.store import replies
from dtq_engine.store.base import Base
from dtq_engine.store.listing import Query, TaskListing
from dtq_engine.store.records import decode_task
from dtq_engine.store.stats import Stats

# A cursor of dead letters: an entry and its queue. 19 digits are within what Redis can hold.
LETTER = re.compile(r"([0-9]{1,19}-[0-9]{1,19})\.([a-z0-9_-]{1,64})")
LETTER_STEPS = 5
LETTERS_PER_STEP = 200
"""How many dead letters one page may look at for those of a type."""

SIDES = "pherPTB"
ROW_SIDES = "ePTB"
"""What a row of a list needs beside the record: its errors, and when it is due."""


class Inspect:
    """Looks things up."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._keys = base.keys
        self._connection = base.connection
        self._stats = Stats(base)

    # Tasks

    def get(self, task_id: str, *, queue: str | None = None) -> Task:
        """One task with payload, result and history. Raises TaskNotFound; RedisDamaged for an unreadable record."""
        where = queue or self.queue_of(task_id)
        task = self.read([(where, task_id)])[0]
        if task is None:
            if self._connection.call("EXISTS", self._keys.task(where, task_id)):
                raise RedisDamaged(f"The record of task {task_id} in queue {where} cannot be read: discard it by hand.")
            raise _not_found(task_id, queue)
        return task

    def find(self, task_ids: Sequence[str], *, queue: str | None = None) -> list[Task | None]:
        """Several tasks in order, None for each that is not there."""
        places = self.places_of(task_ids, queue=queue)
        found = iter(self.read([(places[task_id], task_id) for task_id in task_ids if task_id in places]))
        return [next(found) if task_id in places else None for task_id in task_ids]

    def queue_of(self, task_id: str) -> str:
        """The queue that holds a task. Raises TaskNotFound."""
        places = self.places_of([task_id])
        if task_id not in places:
            raise _not_found(task_id, None)
        return places[task_id]

    def places_of(self, task_ids: Sequence[str], *, queue: str | None = None) -> dict[str, str]:
        """The queue of each task that is there, asking all queues at once, or one."""
        queues = [queue] if queue else self.queues()
        asked = [(name, task_id) for task_id in task_ids for name in queues]
        there = self.which_exist(asked)
        return {task_id: name for name, task_id in asked if (name, task_id) in there}

    def which_exist(self, places: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of these (queue, id) that have a task."""
        answers = self._connection.pipeline([("EXISTS", self._keys.task(*place)) for place in places])
        return {place for place, there in zip(places, answers, strict=True) if there == 1}

    def read(self, places: Sequence[tuple[str, str]], sides: str = SIDES) -> list[Task | None]:
        """The tasks at these (queue, id); two pipelines however many there are.

        What is beside the record is read only if `sides` has its letter: without `p` a large payload looks empty.
        """
        records = self._connection.pipeline([("HGETALL", self._keys.task(*place)) for place in places])
        fields = [replies.pairs(record) for record in records]
        satellites = self._satellites(places, fields, sides)
        return [
            decode_task(queue, task_id, record, lambda letter, at=at: satellites.get((at, letter)))  # type: ignore[misc]
            for at, ((queue, task_id), record) in enumerate(zip(places, fields, strict=True))
        ]

    def _satellites(
        self, places: Sequence[tuple[str, str]], records: Sequence[Mapping[bytes, bytes]], sides: str
    ) -> dict[tuple[int, bytes], Any]:
        letters = [(record.get(b"S", b"") + record.get(b"s", b"")).decode("ascii", "ignore") for record in records]
        wanted = [(at, letter) for at, each in enumerate(letters) for letter in each if letter in sides]
        replies = self._connection.pipeline([self._side(letter, *places[at]) for at, letter in wanted])
        return {
            (at, letter.encode()): None if isinstance(reply, Exception) else reply
            for (at, letter), reply in zip(wanted, replies, strict=True)
        }

    def _side(self, letter: str, queue: str, task_id: str) -> tuple[str | int, ...]:
        """What reads a satellite, or the time in the schedule where a task of this state waits."""
        keys = self._keys
        match letter:
            case "e":
                return ("LRANGE", keys.errors(queue, task_id), 0, -1)
            case "P" | "T" | "B":
                schedule = {"P": keys.schedule, "T": keys.retry_schedule, "B": keys.blocked}[letter]
                return ("ZSCORE", schedule(queue), task_id)
            case _:
                satellite = {"p": keys.payload, "h": keys.headers, "r": keys.result}[letter]
                return ("GET", satellite(queue, task_id))

    def tasks(
        self,
        *,
        queue: str | None = None,
        status: TaskStatus | None = None,
        type: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        damaged: set[str] | None = None,
    ) -> Page[Task]:
        """Tasks that match, newest first, at most `limit` (1 to 200).

        A page may hold fewer than `limit` and still have a cursor: a rare `type` is searched in bounded steps.
        Keys that hold something else than they must raise RedisDamaged, or are passed over and put into `damaged`.
        Raises InvalidCursor for a cursor that did not come from here.
        """
        queues = [queue] if queue else self.queues()
        listing = TaskListing(self._base, self.read, damaged)
        return listing.page(Query(tuple(queues), status, type, max(1, min(200, limit))), cursor)

    # Queues

    def queues(self) -> list[str]:
        """The names of all queues, sorted."""
        return self._base.queues()

    def queue(self, queue: str) -> QueueStats:
        """One queue in numbers; a queue that does not exist is all zeros."""
        return self._stats.queues([queue])[0]

    def blocked_reasons(self, queue: str, limit: int) -> list[str]:
        """Why blocked tasks of a queue wait, of at most `limit` that are looked at next.

        Those that wait for a slot or for others, of which there may be many, are among the last of all.
        """
        ids = self._base.connection.call("ZRANGE", self._base.keys.blocked(queue), 0, limit - 1)
        keys = [self._base.keys.task(queue, each.decode("utf-8", "replace")) for each in ids]
        found = self._base.connection.pipeline([("HMGET", key, "s", "m") for key in keys])
        fields = [replies.values(reply, 2) for reply in found]
        return [(reason or b"").decode("utf-8", "replace") for state, reason in fields if state == b"B"]

    # Dead letters and counters

    def dead_letters(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        damaged: set[str] | None = None,
    ) -> Page[DeadLetterEntry]:
        """Dead letters that match, newest first, at most `limit` (1 to 200).

        A page may hold fewer than `limit` and still have a cursor: a rare `type` is searched in bounded steps.
        Raises InvalidCursor. Keys that hold something else than dead letters are passed over, and put into `damaged`.
        """
        limit = max(1, min(200, limit))
        queues = [queue] if queue else self.queues()
        if type is None:
            return self._letters(queues, limit, cursor, damaged)
        found: list[DeadLetterEntry] = []
        for _ in range(LETTER_STEPS):
            page = self._letters(queues, LETTERS_PER_STEP, cursor, damaged)
            for letter in page.items:
                if letter.type == type:
                    found.append(letter)
                if len(found) == limit and letter is not page.items[-1]:
                    return Page(tuple(found), _after(letter))
            cursor = page.cursor
            if cursor is None or len(found) == limit:
                break
        return Page(tuple(found), cursor)

    def _letters(
        self, queues: Sequence[str], limit: int, cursor: str | None, damaged: set[str] | None
    ) -> Page[DeadLetterEntry]:
        commands: list[tuple[str | int, ...]] = [
            ("XREVRANGE", self._keys.dead_letters(name), _letters_from(cursor, name), "-", "COUNT", limit + 1)
            for name in queues
        ]
        found = self._connection.pipeline(commands)
        if damaged is not None:
            keys = map(self._keys.dead_letters, queues)
            damaged.update(key for key, reply in zip(keys, found, strict=True) if replies.is_damage(reply))
        letters = [
            _letter(name, entry, fields)
            for name, reply in zip(queues, found, strict=True)
            if not isinstance(reply, Exception)
            for entry, fields in reply
        ]
        letters.sort(key=lambda letter: replies.entry_order(letter.entry), reverse=True)
        page = tuple(letters[:limit])
        return Page(page, _after(page[-1]) if len(letters) > limit else None)

    def counters(self, queue: str) -> dict[str, dict[str, int]]:
        """Exact totals since the queue exists: by task type, then by counter."""
        flat = self._connection.call("HGETALL", self._keys.counters(queue))
        totals: dict[str, dict[str, int]] = {}
        for field, value in replies.pairs(flat).items():
            task_type, _, name = field.decode("utf-8", "replace").partition(" ")
            if name:
                totals.setdefault(task_type, {})[name] = replies.whole(value) or 0
        return totals


def _not_found(task_id: str, queue: str | None) -> TaskNotFound:
    where = f" in queue {queue}" if queue else ""
    return TaskNotFound(f"There is no task {task_id}{where}: check the id; finished tasks are kept only for a time.")


def _after(letter: DeadLetterEntry) -> str:
    """The cursor that goes on after a dead letter."""
    return f"{letter.entry}.{letter.queue}"


def _letters_from(cursor: str | None, queue: str) -> str:
    """Where to go on in one queue: of one millisecond, later queues still have their letters to come."""
    if cursor is None:
        return "+"
    found = LETTER.fullmatch(cursor)
    if found is None:
        raise InvalidCursor("This cursor is not one of ours: start again without it.")
    entry, last_queue = found.groups()
    return f"({entry}" if queue <= last_queue else entry


def _letter(queue: str, entry: bytes, fields: Any) -> DeadLetterEntry:
    body = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, value in replies.pairs(fields).items()
    }
    return DeadLetterEntry(
        entry=entry.decode(),
        task_id=body.get("i", ""),
        queue=queue,
        type=body.get("t", ""),
        reason=body.get("r", ""),
        error=body.get("x", ""),
        attempts=replies.whole(body.get("a", "").encode()) or 0,
        worker=body.get("w", ""),
        died_ms=replies.whole(body.get("d", "").encode()) or 0,
    )

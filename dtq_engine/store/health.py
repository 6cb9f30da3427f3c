"""Looking for what is wrong with a deployment, by reading alone; `sweep` is what repairs it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from dtq_engine.errors import RedisDamaged, RedisRefused
from dtq_engine.keys import PRIORITIES
from dtq_engine.links import Command
from dtq_engine.model import RECORD_VERSION, TaskStatus
from dtq_engine.store import replies
from dtq_engine.store.base import Base
from dtq_engine.store.records import DEFAULT_PRIORITY, unpack_asked
from dtq_engine.store.shared_keys import WrongType, of_all, of_queue, wrong_among
from dtq_engine.store.states import status_of
from dtq_engine.store.sweep import by_queue, scan

FIELDS = ("s", "e", "r", "E", "v", "t", "L", "A", "d", "S")
"""What of a record says where its task is: state, entry, what was asked for, dead letter; and its version.

The others tell that there is a record, whatever its state is.
"""

FAR_MS = 1e14
"""Beyond all times that a script writes."""

LAST_ID = "18446744073709551615-18446744073709551615"
"""The largest id of an entry: a stream that has had it takes no more."""

ENTRY = re.compile(rb"[0-9]{1,19}-[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class _Record:
    """Where a task is, as its record says."""

    queue: str
    task_id: str
    fields: tuple[bytes | None, ...]

    @property
    def status(self) -> TaskStatus | None:
        return status_of(self.fields[0] or b"")

    @property
    def entry(self) -> str:
        """Its delivery; one that cannot exist if the record names none."""
        return _entry(self.fields[1])

    @property
    def priority(self) -> int:
        found, *_ = unpack_asked(self.fields[2] or b"")
        return found if found in PRIORITIES else DEFAULT_PRIORITY

    @property
    def letter(self) -> str:
        """Its dead letter; one that cannot exist if the record names none."""
        return _entry(self.fields[3])

    @property
    def lives(self) -> bool:
        """Whether it may have a delivery."""
        return self.status in {TaskStatus.QUEUED, TaskStatus.RUNNING}

    @property
    def is_ours(self) -> bool:
        """Whether this release may judge it."""
        version = self.fields[4] or b"0"
        return not version.isdigit() or int(version) <= RECORD_VERSION


def _entry(field: bytes | None) -> str:
    return field.decode() if field and ENTRY.fullmatch(field) else "0-0"


class Health:
    """What the scripts would stumble over or repair. Writes nothing."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._keys = base.keys

    def has_leader(self) -> bool:
        """Whether some worker's scheduler leads."""
        return bool(self._base.connection.call("EXISTS", self._keys.leader()))

    def overdue_ms(self, queue: str) -> int:
        """For how long the first task of a queue's schedules has been due; 0 when none is."""
        keys = self._schedules(queue).values()
        heads = self._base.connection.pipeline([("ZRANGE", key, 0, 0, "WITHSCORES") for key in keys])
        due = [score for head in heads if _some(head) and abs(score := _score(head)) < FAR_MS]
        return max(0, self._base.now_ms() - round(min(due))) if due else 0

    def wrong_types(self, queue: str) -> list[WrongType]:
        """The shared keys of a queue that hold another type than they must."""
        return wrong_among(self._base, of_queue(self._keys, queue))

    def wrong_globals(self) -> list[WrongType]:
        """The keys that all queues share, and that hold another type than they must."""
        return wrong_among(self._base, of_all(self._keys))

    def damage(self) -> dict[str, int]:
        """What a sweep would find at this moment, by the names that it gives its repairs; walks over all tasks."""
        total: dict[str, int] = {}
        for found in self._walk():
            for what in found:
                total[what] = total.get(what, 0) + 1
        return total

    def _walk(self) -> Iterator[list[str]]:
        known = set(self._base.queues())
        queues = set(known)
        start = f"{self._keys.prefix}:task:"
        for names in scan(self._base, f"{start}{{*"):
            for queue, ids in by_queue(names, start).items():
                queues.add(queue)
                yield self._of_tasks(queue, [each.decode("utf-8", "replace") for each in ids])
        yield ["queue"] * len(queues - known)
        for queue in sorted(queues):
            wrong = {each.key for each in self.wrong_types(queue)}
            for key in self._schedules(queue).values():
                yield from self._of_members(queue, key) if key not in wrong else ()
            yield from self._of_groups(queue)
            yield from self._of_deliveries(queue, wrong)
            yield from self._of_letters(queue) if self._keys.dead_letters(queue) not in wrong else ()

    def _of_tasks(self, queue: str, ids: Sequence[str]) -> list[str]:
        """What is wrong with these tasks. One that moves on meanwhile is not: its record tells it, read again."""
        records = [each for each in self._records(queue, ids) if each.is_ours]
        delivered = self._delivered(queue)
        asked = [self._asked(record) for record in records]
        answers = iter(self._base.connection.pipeline([command for each in asked for command in each]))
        suspects = [
            (record, what)
            for record, each in zip(records, asked, strict=True)
            for what in self._faults(record, list(islice(answers, len(each))), delivered)
        ]
        after = {each.task_id: each for each in self._records(queue, [record.task_id for record, _ in suspects])}
        return [what for record, what in suspects if after.get(record.task_id) == record]

    def _records(self, queue: str, ids: Sequence[str]) -> list[_Record]:
        asked = [("HMGET", self._keys.task(queue, task_id), *FIELDS) for task_id in ids]
        found = zip(ids, self._base.connection.pipeline(asked), strict=True)
        return [
            _Record(queue, task_id, tuple(cast(list[bytes | None], reply)))
            for task_id, reply in found
            if isinstance(reply, list)
        ]

    def _delivered(self, queue: str) -> list[tuple[int, int]]:
        """Up to which entry the group has handed out each band, by priority."""
        streams = [self._keys.stream(queue, priority) for priority in sorted(PRIORITIES)]
        groups = self._base.connection.pipeline([("XINFO", "GROUPS", stream) for stream in streams])
        return [replies.entry_order(replies.last_delivered(reply)) for reply in groups]

    def _asked(self, record: _Record) -> list[Command]:
        """What tells whether a task can be found where its record says; `_faults` reads the answers."""
        queue, task_id, status = record.queue, record.task_id, record.status
        if status in {TaskStatus.QUEUED, TaskStatus.RUNNING}:
            return [("XRANGE", self._keys.stream(queue, record.priority), record.entry, record.entry)]
        if schedule := self._schedules(queue).get(status):
            return [("ZSCORE", schedule, task_id)]
        if status is None and any(record.fields):
            indexes = [("ZSCORE", key, task_id) for key in self._keys.indexes(queue).values()]
            return [("PTTL", self._keys.task(queue, task_id)), *indexes]
        if status is not None and status.is_final:
            of_all: list[Command] = [
                ("ZSCORE", self._keys.index(queue, status), task_id),
                ("PTTL", self._keys.task(queue, task_id)),
            ]
            letter = ("XRANGE", self._keys.dead_letters(queue), record.letter, record.letter)
            return [*of_all, letter] if status is TaskStatus.DEAD_LETTERED else of_all
        return []

    def _faults(self, record: _Record, answers: Sequence[Any], delivered: Sequence[tuple[int, int]]) -> Iterator[str]:
        """The names of the repairs that a task needs, from the answers to what `_asked` asked."""
        stream = self._keys.stream(record.queue, record.priority)
        match record.status:
            case TaskStatus.QUEUED:
                passed = replies.entry_order(record.entry) <= delivered[record.priority]
                if not _some(answers[0]) or (passed and not self._is_pending(stream, record.entry)):
                    yield "delivery"
            case TaskStatus.RUNNING:
                if not _some(answers[0]) or not self._is_pending(stream, record.entry):
                    yield "lease"
            case TaskStatus.PENDING | TaskStatus.RETRYING | TaskStatus.BLOCKED:
                if not _is_time(answers[0]):
                    yield "schedule"
            case None:
                if answers and (answers[0] == -1 or any(isinstance(each, float | bytes) for each in answers[1:])):
                    yield "state"
            case _:
                lacks = {"index": not _is_time(answers[0]), "time_to_live": answers[1] == -1}
                yield from (what for what, is_so in lacks.items() if is_so)
                if len(answers) > 2 and not _some(answers[2]):
                    yield "dead_letter"

    def _is_pending(self, stream: str, entry: str) -> bool:
        # Not in a pipeline: redis-py cannot read this form of the command there.
        try:
            return bool(self._base.connection.call("XPENDING", stream, "workers", entry, entry, 1))
        except (RedisRefused, RedisDamaged):  # there is no group, or no stream
            return False

    def _of_members(self, queue: str, schedule: str) -> Iterator[list[str]]:
        """Members of a schedule whose record is gone."""
        cursor: Any = 0
        while True:
            cursor, flat = self._base.connection.call("ZSCAN", schedule, cursor, "COUNT", 1000)
            members = [member.decode("utf-8", "replace") for member in flat[::2]]
            there = self._base.connection.pipeline([("EXISTS", self._keys.task(queue, each)) for each in members])
            yield ["member_without_record"] * there.count(0)
            if int(cursor) == 0:
                return

    def _of_groups(self, queue: str) -> Iterator[list[str]]:
        """Groups that are ahead of their stream, and streams that take no more."""
        streams = [self._keys.stream(queue, priority) for priority in sorted(PRIORITIES)]
        newest = self._base.connection.pipeline([("XINFO", "STREAM", stream) for stream in streams])
        ahead = [
            last > replies.entry_order(replies.last_generated(reply))
            for last, reply in zip(self._delivered(queue), newest, strict=True)
        ]
        yield ["group"] * sum(ahead)
        yield ["band"] * [replies.last_generated(reply) for reply in newest].count(LAST_ID)

    def _of_letters(self, queue: str) -> Iterator[list[str]]:
        """Dead letters of which no dead task knows."""
        stream, first = self._keys.dead_letters(queue), "-"
        while page := self._base.connection.call("XRANGE", stream, first, "+", "COUNT", 1000):
            ids = [replies.pairs(flat).get(b"i", b"").decode("utf-8", "replace") for _, flat in page]
            records = {each.task_id: each for each in self._records(queue, ids)}
            letters = [entry.decode() for entry, _ in page]
            lost = [
                letter for letter, task_id in zip(letters, ids, strict=True) if not _has(records.get(task_id), letter)
            ]
            # One that its task has left meanwhile is gone by now.
            left = self._base.connection.pipeline([("XRANGE", stream, letter, letter) for letter in lost])
            yield ["letter_without_task" for each in left if _some(each)]
            first = f"({page[-1][0].decode()}"

    def _of_deliveries(self, queue: str, wrong: Collection[str]) -> Iterator[list[str]]:
        """Deliveries that the group has handed out, and that neither a task nor a worker knows of."""
        for priority, (ms, sequence) in enumerate(self._delivered(queue)):
            stream, first, last = self._keys.stream(queue, priority), "-", f"{ms}-{sequence}"
            while stream not in wrong and (
                page := self._base.connection.call("XRANGE", stream, first, last, "COUNT", 1000)
            ):
                led = {
                    entry.decode(): fields[1].decode("utf-8", "replace") for entry, fields in page if len(fields) > 1
                }
                holders = {
                    (each.task_id, each.entry) for each in self._records(queue, list(led.values())) if each.lives
                }
                unheld = [
                    entry.decode() for entry, _ in page if (led.get(entry.decode()), entry.decode()) not in holders
                ]
                strays = [entry for entry in unheld if not self._is_pending(stream, entry)]
                # One that its task has left meanwhile is gone by now.
                left = self._base.connection.pipeline([("XRANGE", stream, entry, entry) for entry in strays])
                yield ["stray_delivery" for each in left if _some(each)]
                first = f"({page[-1][0].decode()}"

    def _schedules(self, queue: str) -> Mapping[TaskStatus | None, str]:
        keys = self._keys
        return {
            TaskStatus.PENDING: keys.schedule(queue),
            TaskStatus.RETRYING: keys.retry_schedule(queue),
            TaskStatus.BLOCKED: keys.blocked(queue),
        }


def _has(record: _Record | None, letter: str) -> bool:
    """Whether a dead letter is this task's; of a record of a newer release nobody knows."""
    if record is None or not record.is_ours:
        return record is not None
    return record.status is TaskStatus.DEAD_LETTERED and record.letter == letter


def _is_time(score: Any) -> bool:
    """Whether a member has a score, and it is a time; an error says nothing."""
    return score is not None and not (isinstance(score, float) and abs(score) >= FAR_MS)


def _some(reply: Any) -> bool:
    """Whether a list was answered that is not empty."""
    return isinstance(reply, list) and len(cast(list[object], reply)) > 0


def _score(head: Any) -> float:
    """The score in `ZRANGE key 0 0 WITHSCORES`, flat or in pairs."""
    last = head[-1]
    return float(cast(Sequence[Any], last)[-1] if isinstance(last, tuple | list) else last)

"""Accepting tasks: one script call per queue and 500 tasks."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from dtq_engine import codec, scripts
from dtq_engine.connection import Patience
from dtq_engine.errors import MemoryFull, RedisUnavailable, SubmitUncertain
from dtq_engine.model import NewTask, Receipt, SubmitOutcome
from dtq_engine.store.base import Base, chunks
from dtq_engine.store.carpool import OVERHEAD_BYTES, Carpool
from dtq_engine.store.records import encode_new
from dtq_engine.store.states import status_of
from dtq_engine.store.workers import Workers

TASKS_PER_CALL = 500
PATIENCE = Patience(unsent_s=1.5, sent_s=15.0)
"""A submit whose reply was lost is sent again for 15 s at most: long before a record that it made could be trimmed."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Tasks of one queue, at most 500, that are ready to be sent in one call."""

    queue: str
    tasks: Sequence[NewTask]
    script: str
    args: Sequence[str | bytes | int]


class Intake:
    """Submits tasks."""

    def __init__(self, base: Base, workers: Workers) -> None:
        self._base = base
        self._workers = workers
        self._memory = _MemoryGate(base)
        self._carpool = Carpool(lambda queue, tasks: self._deliver(self.pack(queue, tasks)), TASKS_PER_CALL)

    def submit(self, tasks: Sequence[NewTask]) -> list[Receipt]:
        """Accept tasks of any number and queues; one receipt each, in order.

        A full queue, a mismatched idempotency key or a damaged key is a receipt. Raises RedisUnavailable when a
        batch was not accepted (those before it were), SubmitUncertain when that is unknown, and MemoryFull.
        """
        self._memory.check()
        if len(tasks) == 1:
            return [self._carpool.submit(tasks[0])]
        by_queue: dict[str, list[int]] = {}
        for position, task in enumerate(tasks):
            by_queue.setdefault(task.queue, []).append(position)
        receipts: dict[int, Receipt] = {}
        for queue, positions in by_queue.items():
            sizes = [len(tasks[position].payload) + OVERHEAD_BYTES for position in positions]
            for part in chunks(positions, sizes, TASKS_PER_CALL):
                answers = self._deliver(self.pack(queue, [tasks[position] for position in part]))
                receipts.update(zip(part, answers, strict=True))
        return [receipts[position] for position in range(len(tasks))]

    def pack(self, queue: str, tasks: Sequence[NewTask]) -> Parcel:
        """Make tasks of one queue ready for `send`: at most 500 of about 4 MiB in all."""
        args: list[str | bytes | int] = [self._base.settings.max_queue_depth]
        for task in tasks:
            args += encode_new(task, _fingerprint(task))
        script = "submit" if any(map(_is_tied, tasks)) else scripts.PLAIN
        return Parcel(queue, tasks, script, args)

    def send(self, parcel: Parcel) -> list[Receipt]:
        """Accept the tasks of a parcel; as `submit`."""
        self._memory.check()
        return self._deliver(parcel)

    def _deliver(self, parcel: Parcel) -> list[Receipt]:
        queue, script, args = parcel.queue, parcel.script, parcel.args
        patience = Patience(PATIENCE.unsent_s, min(PATIENCE.sent_s, self._base.settings.submit_patience_s))
        try:
            reply = self._base.run(script, queue, "0", *args, patience=patience)
            if reply == b"REGISTER":
                self._workers.list_queue(queue)
                reply = self._base.run(script, queue, "1", *args, patience=patience)
        except RedisUnavailable as error:
            if error.may_have_run:
                first, *others = (task.id for task in parcel.tasks)
                raise SubmitUncertain(first, others) from error
            raise
        return [_receipt(queue, *reply[at : at + 3]) for at in range(0, len(reply), 3)]


_OUTCOMES = {each.value.upper().encode(): each for each in SubmitOutcome} | {b"UNIQUE": SubmitOutcome.DUPLICATE}


def _receipt(queue: str, outcome: bytes, task_id: bytes, state: bytes) -> Receipt:
    is_unique = outcome == b"UNIQUE"
    return Receipt(task_id.decode(), queue, _OUTCOMES[outcome], status_of(state), unique=is_unique)


def _is_tied(task: NewTask) -> bool:
    return bool(task.after or task.children or task.deduplication)


def _fingerprint(task: NewTask) -> str | None:
    """What an idempotency key stands for: SHA-256 of the type and the payload, however its keys are ordered."""
    if task.idempotency_key is None:
        return None
    return hashlib.sha256(task.type.encode() + b"\0" + codec.canonical(task.payload)).hexdigest()


class _MemoryGate:
    """Refuses new tasks while Redis is nearly full, so that running ones can still be finished.

    The numbers are asked for at most once a second; a server without a limit is never full.
    """

    def __init__(self, base: Base) -> None:
        self._base = base
        self._lock = Lock()
        self._next_look = 0.0
        self._full = False

    def check(self) -> None:
        """Raise MemoryFull when over ADMIT_MEMORY_PERCENT of maxmemory are in use."""
        if time.monotonic() >= self._next_look and self._lock.acquire(blocking=False):
            try:
                self._full = self._look()
                self._next_look = time.monotonic() + 1.0
            finally:
                self._lock.release()
        if self._full:
            percent = self._base.settings.admit_memory_percent
            raise MemoryFull(f"Redis uses over {percent} % of its maxmemory: wait until tasks end, or raise the limit.")

    def _look(self) -> bool:
        if self._base.connection.is_cluster:
            return False  # each node has its own limit; a full one answers OOM itself
        try:
            numbers = self._base.connection.info("memory")
        except RedisUnavailable as error:
            # No task was sent yet, so that nothing is uncertain.
            raise RedisUnavailable(str(error)) from error
        limit, used = int(numbers.get("maxmemory", 0)), int(numbers.get("used_memory", 0))
        return limit > 0 and used * 100 > limit * self._base.settings.admit_memory_percent

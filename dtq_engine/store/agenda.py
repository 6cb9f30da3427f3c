"""From what workers announce to tasks at their ticks: what the leader does for periodic tasks, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from dtq_engine import scripts
from dtq_engine.periodic import Definition, PeriodicTask, Turn
from dtq_engine.store.base import Base
from dtq_engine.store.periodic import decode
from dtq_engine.store.records import encode_new
from dtq_engine.store.replies import pairs, values
from dtq_engine.store.workers import TYPES_TTL_MS, Workers


@dataclass(frozen=True, slots=True)
class QueueAgenda:
    """A queue's periodic tasks, and Redis' time at which they were looked at."""

    now_ms: int
    tasks: tuple[PeriodicTask, ...]


class Agenda:
    """Definitions come from workers, the newest of each name wins, and its ticks are dealt with once."""

    def __init__(self, base: Base, workers: Workers) -> None:
        self._base = base
        self._workers = workers

    def publish(self, definitions: Sequence[Definition]) -> None:
        """Say for another five minutes what this build has; to be repeated while a worker of it lives."""
        for each in definitions:
            key = self._base.keys.definition(each.name, each.digest)
            scripts.run(self._base.connection, "publish", key, (TYPES_TTL_MS, msgspec.json.encode(each)))

    def announced(self) -> dict[str, Definition | None]:
        """By name, what living workers have: of several definitions the one that was first published last.

        So a worker that starts again does not bring an old one back. None stands for one that cannot be read here.
        """
        found = sorted({pair for info in self._workers.list() for pair in info.periodic.items()})
        keys = [self._base.keys.definition(*each) for each in found]
        replies = self._base.connection.pipeline([("HMGET", key, "since", "body") for key in keys])
        newest: dict[str, tuple[int, str, Definition | None]] = {}
        for (name, digest), reply in zip(found, replies, strict=True):
            since, body = values(reply, 2)
            candidate = (int(since or 0), digest, _decode(body))
            newest[name] = max(newest.get(name, candidate), candidate, key=lambda each: each[:2])
        return {name: definition for name, (_, _, definition) in newest.items()}

    def define(self, definition: Definition, moved: PeriodicTask | None = None) -> bool:
        """Put a definition in force; whether it was not. `moved`: how it stood in the queue where it was before."""
        self._workers.list_queue(definition.queue)
        at, paused = "", ""
        if moved is not None:
            at = str(moved.at_ms) if moved.definition.schedule == definition.schedule else "now"
            paused = "" if moved.paused_ms is None else _note(moved)
        body = msgspec.json.encode(definition)
        args = (definition.name, definition.digest, definition.schedule, body, at, paused)
        return bool(self._base.run("define", definition.queue, *args) == b"DEFINED")

    def withdraw(self, task: PeriodicTask) -> None:
        """Note that no living worker has it any more, so that it no longer runs; in a day it is gone."""
        self._base.run("define", task.queue, task.name, "", "", "", "", "")

    def of(self, queue: str) -> QueueAgenda:
        """The queue's periodic tasks now; without those that cannot be read here."""
        now_ms, *flats = self._base.run("agenda", queue)
        found = [decode(pairs(flat)) for flat in flats]
        return QueueAgenda(int(now_ms), tuple(each for each in found if each is not None))

    def deal(self, task: PeriodicTask, turn: Turn) -> bool:
        """Deal with all ticks up to one, with a task for that or without; whether it was this call that did."""
        known = (task.name, task.digest, task.at_ms)
        if not turn.runs:
            answer = self._base.run("tick", task.queue, *known, 0, turn.tick_ms)
        else:
            new = task.definition.task(task.definition.task_id(turn.tick_ms), turn.tick_ms)
            answer = self._base.run("tick", task.queue, *known, turn.tick_ms, turn.tick_ms, *encode_new(new, None))
        return bool(answer == b"OK")


def _decode(body: bytes | None) -> Definition | None:
    try:
        return None if body is None else msgspec.json.decode(body, type=Definition)
    except msgspec.MsgspecError:
        return None


def _note(task: PeriodicTask) -> str:
    note = {"by": task.paused_by, "reason": task.pause_reason, "since": task.paused_ms}
    return msgspec.json.encode(note).decode()

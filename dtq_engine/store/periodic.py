"""The periodic tasks that Redis knows, and what operators do to them: safe to send again, and audited."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from dtq_engine.errors import InvalidTransition, PeriodicNotFound
from dtq_engine.ids import new_id
from dtq_engine.model import Receipt, SubmitOutcome
from dtq_engine.periodic import Definition, PeriodicTask
from dtq_engine.store.asked import asked
from dtq_engine.store.base import Base
from dtq_engine.store.inspect import Inspect
from dtq_engine.store.records import encode_new
from dtq_engine.store.replies import members, pairs

_OUTCOMES = {
    "triggered": SubmitOutcome.NEW,
    "unique": SubmitOutcome.DUPLICATE,
    "throttled": SubmitOutcome.THROTTLED,
    "replaced": SubmitOutcome.REPLACED,
}


class Periodic:
    """Listing, pausing, resuming and triggering periodic tasks."""

    def __init__(self, base: Base, inspect: Inspect) -> None:
        self._base = base
        self._inspect = inspect

    def list(self) -> "list[PeriodicTask]":
        """All of all queues, by name; those that were removed from the code are shown for a day.

        What a newer release has written and cannot be read here is left out.
        """
        queues = sorted(self._inspect.queues())
        replies = self._base.connection.pipeline([("SMEMBERS", self._base.keys.periodic(queue)) for queue in queues])
        places = [(queue, name) for queue, reply in zip(queues, replies, strict=True) for name in members(reply)]
        return sorted(self._read(places), key=lambda each: (each.name, each.removed_ms or 0, each.queue))

    def get(self, name: str, *, queue: str | None = None) -> PeriodicTask:
        """One by its name, of all queues or of this one; rather one that was not removed. Raises PeriodicNotFound."""
        found = self._read([(each, name) for each in ([queue] if queue else sorted(self._inspect.queues()))])
        if not found:
            raise PeriodicNotFound(f"There is no periodic task {name}: see which there are with `dtq periodic list`.")
        return min(found, key=lambda each: each.removed_ms or 0)

    def pause(
        self, name: str, *, queue: str | None = None, actor: str = "", reason: str = "", request: str | None = None
    ) -> None:
        """Let its ticks pass without a task. Raises PeriodicNotFound, InvalidTransition if it was removed."""
        self._hold(self.get(name, queue=queue), True, *asked(request, actor, reason))

    def resume(
        self, name: str, *, queue: str | None = None, actor: str = "", reason: str = "", request: str | None = None
    ) -> None:
        """Let it run again from its next tick on. Raises PeriodicNotFound, InvalidTransition if it was removed."""
        self._hold(self.get(name, queue=queue), False, *asked(request, actor, reason))

    def trigger(
        self, name: str, *, queue: str | None = None, actor: str = "", reason: str = "", request: str | None = None
    ) -> Receipt:
        """Submit its task now, out of turn, even while it is paused; whatever the depth of its queue.

        The receipt says if another task stands for it, because its type is unique or throttled.
        Raises PeriodicNotFound, InvalidTransition if it was removed, and MemoryFull.
        """
        found = self.get(name, queue=queue)
        task = encode_new(found.definition.task(new_id()), None)
        args = (*asked(request, actor, reason), name, *task)
        answer, _, task_id = self._answer(found, self._base.run("trigger", found.queue, *args)).partition(":")
        return Receipt(task_id, found.queue, _OUTCOMES[answer], unique=answer == "unique")

    def _hold(self, found: PeriodicTask, pauses: bool, request: str, actor: str, reason: str) -> None:
        self._answer(found, self._base.run("hold", found.queue, request, actor, reason, found.name, int(pauses)))

    def _answer(self, found: PeriodicTask, reply: bytes) -> str:
        answer = reply.decode()
        if answer == "missing":
            raise PeriodicNotFound(f"The periodic task {found.name} has just gone: nothing was done.")
        if answer == "removed":
            raise InvalidTransition(
                f"The periodic task {found.name} was removed from the code: start a worker that has it, or submit a "
                f"{found.definition.type} by hand."
            )
        return answer

    def _read(self, places: Sequence[tuple[str, str]]) -> Sequence[PeriodicTask]:
        keys = [self._base.keys.periodic_task(queue, name) for queue, name in places]
        found = [decode(pairs(reply)) for reply in self._base.connection.pipeline([("HGETALL", key) for key in keys])]
        return [each for each in found if each is not None]


def decode(fields: Mapping[bytes, bytes]) -> PeriodicTask | None:
    """A periodic task from its fields; None if there are none, or they cannot be read: then `define` mends them."""
    try:
        at_ms = _instant(fields[b"at"])
        note = _note(fields[b"paused"], at_ms) if b"paused" in fields else None
        return PeriodicTask(
            definition=_DEFINITION.decode(fields[b"definition"]),
            digest=fields[b"digest"].decode(),
            at_ms=at_ms,
            last_ms=_instant(fields[b"last"]) if b"last" in fields else None,
            last_task=fields[b"task"].decode() if b"task" in fields else None,
            paused_ms=None if note is None else round(note.since),
            paused_by="" if note is None else note.by,
            pause_reason="" if note is None else note.reason,
            removed_ms=_instant(fields[b"removed"]) if b"removed" in fields else None,
        )
    except (msgspec.MsgspecError, KeyError, ValueError):
        return None


def _instant(value: bytes) -> int:
    """Milliseconds since the epoch, as `define` takes them for such. Raises ValueError for anything else."""
    if not (value.isdigit() and len(value) <= 14):
        raise ValueError(f"{value!r} is no instant")
    return int(value)


class _Note(msgspec.Struct):
    by: str
    reason: str
    since: Annotated[float, msgspec.Meta(gt=0, lt=1e14)]


def _note(value: bytes, at_ms: int) -> _Note:
    """Who paused it and since when; if that cannot be read it is paused all the same, since its ticks stand still."""
    try:
        return _NOTE.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Note("", "", at_ms)


_NOTE = msgspec.json.Decoder(_Note)
_DEFINITION = msgspec.json.Decoder(Definition)

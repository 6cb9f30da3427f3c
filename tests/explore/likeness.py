"""What two states have in common when they differ only in names of tokens, numbers of entries, and times."""

from collections.abc import Iterable
from typing import Protocol

from dtq_engine.model import Claim
from tests.explore.promises import Promises
from tests.explore.snapshot import Entry, Record, Snapshot

TIMES = frozenset("bcFdzBe")
NAMES = frozenset("kjw")
"""Tokens, and the worker: which of them it is does not matter, only where else it turns up."""

ONCE = frozenset({"canceller", "requeuer", "rival"})
"""Who makes one call and no other."""


class Sender(Protocol):
    """An actor, as far as it matters here."""

    @property
    def name(self) -> str: ...
    @property
    def held(self) -> Claim | None: ...
    @property
    def unanswered(self) -> object: ...
    @property
    def calls(self) -> int: ...


def likeness(now: Snapshot, promises: Promises, senders: Iterable[Sender]) -> object:
    """A value that is equal for states that are alike."""
    names = _Names()
    records = tuple((task_id, _plain(record, names)) for task_id, record in sorted(now.records.items()))
    places = _places(now, names)
    actors = tuple(sorted(_actor(sender, names) for sender in senders))
    return (records, places, actors, _memos(now, names), _known(promises, names))


class _Names:
    """Tokens and workers by the order in which they are met, so that only which are the same counts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def __call__(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def of(self, name: str) -> int:
        """The number of a name that was met; 0 otherwise."""
        return self._numbers.get(name, 0)


def _plain(record: Record, names: _Names) -> tuple[tuple[str, object], ...]:
    """A record without times; counts stay, as they decide what becomes of the task."""
    return tuple(
        (letter, names(value) if letter in NAMES else value)
        for letter, value in sorted(record.items())
        if letter not in TIMES
    )


def _actor(sender: Sender, names: _Names) -> tuple[object, ...]:
    call = sender.unanswered
    sent = () if call is None else (type(call).__name__, names(getattr(call, "token", "")), _end(call))
    held = () if sender.held is None else (names(sender.held.token), names(sender.held.worker))
    role = "worker" if sender.name.startswith("w") else sender.name
    return (role, names.of(sender.name), held, sent, sender.name in ONCE and sender.calls > 0)


def _end(call: object) -> str:
    """How a call would end an execution."""
    items = getattr(call, "items", ())
    return "" if callable(items) else ",".join(repr(end) for _, end in items)


def _places(now: Snapshot, names: _Names) -> tuple[object, ...]:
    """Where the tasks are: deliveries with their leases, schedules, indexes, letters, satellites, wake-ups."""
    deliveries = sorted(
        (entry.band, entry.task_id, now.is_undelivered(entry), names(_holder(now, entry))) for entry in now.entries
    )
    members = sorted((status.value, *sorted(ids)) for status, ids in (now.waiting | now.ended).items())
    satellites = sorted((letter, *sorted(ids)) for letter, ids in now.satellites.items())
    held = sorted((name, key.state) for name, key in now.idempotency.items())
    woken = (now.wakes > 0, now.outbox)
    locks = _locks(now, names)
    return (tuple(deliveries), tuple(members), len(now.letters), tuple(satellites), tuple(held), locks, woken)


def _locks(now: Snapshot, names: _Names) -> tuple[object, ...]:
    """Who holds unique keys and slots, and who stands in line."""
    slots = (
        (bucket, tuple(sorted((task, names(token)) for task, token in each))) for bucket, each in now.slots.items()
    )
    lines = ((bucket, *sorted(line)) for bucket, line in now.lines.items())
    return (tuple(sorted(now.unique.items())), tuple(sorted(slots)), tuple(sorted(lines)), tuple(sorted(now.absorbed)))


def _holder(now: Snapshot, entry: Entry) -> str:
    lease = now.leases.get((entry.band, entry.id))
    return "" if lease is None else lease.worker


def _memos(now: Snapshot, names: _Names) -> tuple[object, ...]:
    return tuple(sorted(names(memo.rpartition(":")[2]) for memo in now.memos))


def _known(promises: Promises, names: _Names) -> tuple[object, ...]:
    """What was recorded under which token."""
    return tuple(
        (task_id, names(known.last_token), tuple(sorted(map(names, known.recorded))))
        for task_id, known in sorted(promises.tasks.items())
    )

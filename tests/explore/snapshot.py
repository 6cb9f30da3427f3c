"""All that Redis holds for one queue at one moment, read in one call and put in order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dtq_engine.keys import Keys
from dtq_engine.limit_states import parse_declared, parse_override
from dtq_engine.limits import Numbers
from dtq_engine.model import FINAL, TaskStatus
from dtq_engine.store.states import STATES

QUEUE = "default"
FAR = "far"
"""Another queue, in histories with links between queues."""
LETTERS: Mapping[TaskStatus, str] = {status: letter for letter, status in STATES.items()}
SATELLITES = {"payload": "p", "headers": "h", "errors": "e", "result": "r", "logs": "l", "steps": "s"}
SATELLITES |= {"children": "c", "awaits": "a"}
SCHEDULES = {
    "schedule": TaskStatus.PENDING,
    "retry:schedule": TaskStatus.RETRYING,
    "blocked": TaskStatus.BLOCKED,
}
INDEXES = {f"tasks:{status.value}": status for status in FINAL}

_FOLDER = Path(__file__).parent
SNAPSHOT = (_FOLDER / "snapshot.lua").read_text(encoding="utf-8")
SHIFT = (_FOLDER / "shift.lua").read_text(encoding="utf-8")

Record = Mapping[str, str]


class Lease(NamedTuple):
    """A pending delivery: whose it is and since how long."""

    worker: str
    idle_ms: int


class Entry(NamedTuple):
    """A delivery in a stream, in the order of delivery: most urgent band first, oldest first."""

    band: int
    order: tuple[int, int]
    task_id: str

    @property
    def id(self) -> str:
        return f"{self.order[0]}-{self.order[1]}"


class Held(NamedTuple):
    """What an idempotency key says: fingerprint, task and state (`L`: it lives)."""

    print: str
    task_id: str
    state: str


@dataclass(slots=True)
class Snapshot:
    """One queue; times are ms by its movable clock, times to live are -1 where there is none."""

    now_ms: int
    records: dict[str, Record] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    leases: dict[tuple[int, str], Lease] = field(default_factory=dict)
    delivered: dict[int, tuple[int, int]] = field(default_factory=dict)
    waiting: dict[TaskStatus, dict[str, int]] = field(default_factory=dict)
    ended: dict[TaskStatus, dict[str, int]] = field(default_factory=dict)
    letters: dict[str, Record] = field(default_factory=dict)
    satellites: dict[str, dict[str, int]] = field(default_factory=dict)
    idempotency: dict[str, Held] = field(default_factory=dict)
    unique: dict[str, str] = field(default_factory=dict)
    absorbed: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)
    events: list[tuple[int, list[str]]] = field(default_factory=list)
    periodic: dict[str, Record] = field(default_factory=dict)
    limits: dict[str, Numbers] = field(default_factory=dict)
    overridden: set[str] = field(default_factory=set)
    slots: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    lines: dict[str, set[str]] = field(default_factory=dict)
    line_index: set[str] = field(default_factory=set)
    starts: dict[str, list[int]] = field(default_factory=dict)
    crew: dict[str, str] = field(default_factory=dict)
    types: dict[str, set[str]] = field(default_factory=dict)
    builds: set[str] = field(default_factory=set)
    memos: set[str] = field(default_factory=set)
    wakes: int = 0
    outbox: int = 0
    schedule_wakes: int = 0
    paused: bool = False
    ttl: dict[str, int] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    logged: dict[str, list[int]] = field(default_factory=dict)
    saved: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def status(self, task_id: str) -> TaskStatus | None:
        """The status in a task's record; None without one."""
        record = self.records.get(task_id)
        return None if record is None else STATES.get(record.get("s", ""))

    def is_overridden(self, name: str) -> bool:
        """Whether an operator's numbers are in force for a limit."""
        return name in self.overridden

    def running(self, bucket: str) -> int:
        """How many executions hold a slot of a bucket."""
        return sum(token != "-" for _, token in self.slots.get(bucket, ()))

    def reason(self, task_id: str) -> str:
        """Why a task is blocked; nothing for one that is not."""
        record = self.records.get(task_id, {})
        return record.get("m", "") if record.get("s") == "B" else ""

    def is_undelivered(self, entry: Entry) -> bool:
        """Whether the group will deliver this entry."""
        return entry.order > self.delivered.get(entry.band, (-1, -1))

    def is_known(self, type: str) -> bool:
        """Whether a living build of workers knows a task type."""
        return any(type in self.types.get(digest, ()) for digest in self.builds)

    def startable(self) -> list[Entry]:
        """The deliveries that a claim may start a task from, in the order in which it should."""
        return [
            entry
            for entry in sorted(self.entries, key=lambda entry: (-entry.band, entry.order))
            if self.is_undelivered(entry)
            and self.status(entry.task_id) is TaskStatus.QUEUED
            and self.records[entry.task_id].get("e") == entry.id
        ]

    def depth(self) -> int:
        """What counts against the limit of a queue's depth."""
        return len(self.entries) + sum(map(len, self.waiting.values()))


def look(client: Any, keys: Keys, last_event: int, queue: str = QUEUE, beside: str = FAR) -> Snapshot:
    """Read everything under the prefix but what is of the queue `beside`; of the event log what came since."""
    reply = client.eval(SNAPSHOT, 2, keys.clock(queue), keys.events(queue), keys.prefix, last_event, f"{{{beside}}}")
    snapshot = Snapshot(now_ms=int(reply[0]))
    for status in SCHEDULES.values():
        snapshot.waiting[status] = {}
    for status in FINAL:
        snapshot.ended[status] = {}
    for letter in SATELLITES.values():
        snapshot.satellites[letter] = {}
    for name, _, ttl, contents in reply[1:]:
        _place(snapshot, name.removeprefix(f"{keys.prefix}:"), queue, int(ttl), contents)
    return snapshot


def shift(client: Any, keys: Keys, ms: int) -> None:
    """Let `ms` pass for everything under the prefix; less than 0 for a clock that jumps back."""
    client.eval(SHIFT, 2, keys.clock(QUEUE), keys.clock(FAR), keys.prefix, ms)


def _place(snapshot: Snapshot, name: str, queue: str, ttl: int, contents: Any) -> None:
    kind, _, rest = name.partition(f":{{{queue}}}")
    rest = rest.removeprefix(":")
    if kind == "task":
        snapshot.records[rest], snapshot.ttl[rest] = _unfold(_pairs(contents)), ttl
    elif kind in SATELLITES:
        snapshot.satellites[SATELLITES[kind]][rest] = ttl
        if kind == "logs":
            snapshot.logged[rest] = [int(entry.partition("-")[0]) for entry, _ in contents[0]]
        if kind == "steps":
            snapshot.saved[rest] = {name: value.encode() for name, value in _pairs(contents).items()}
    elif kind in SCHEDULES:
        snapshot.waiting[SCHEDULES[kind]] = _scores(contents)
    elif kind in INDEXES:
        snapshot.ended[INDEXES[kind]] = _scores(contents)
    elif kind in {"limits", "limit", "limited", "starts"}:
        _place_limits(snapshot, kind, rest, contents)
    elif kind == "stream" and rest.startswith("p"):
        _place_band(snapshot, int(rest[1:]), *contents)
    else:
        _place_other(snapshot, kind, rest, ttl, contents)


def _unfold(record: dict[str, str]) -> Record:
    """A record with its packed fields by their letters: priority and created; token, attempt, fence, begun, lease."""
    asked, execution = record.get("r", "").split(" "), record.get("L", "").removeprefix("-").split(" ")
    started = dict(zip("kafbl", execution, strict=False)) if "L" in record else {}
    return record | {"buckets": record.get("c", "")} | dict(zip("pc", asked, strict=False)) | started


def _place_band(snapshot: Snapshot, band: int, entries: Any, pending: Any, delivered: str) -> None:
    snapshot.entries += [Entry(band, _order(entry), fields[1]) for entry, fields in entries]
    snapshot.leases |= {(band, entry): Lease(worker, int(idle)) for entry, worker, idle, _ in pending}
    if delivered:
        snapshot.delivered[band] = _order(delivered)


def _place_other(snapshot: Snapshot, kind: str, rest: str, ttl: int, contents: Any) -> None:
    """What there is once in a queue, and what expires."""
    match kind:
        case "idempotency" | "unique" | "absorbed" | "throttle" | "claim" | "request":
            _place_lock(snapshot, kind, rest, ttl, contents)
        case "stream:dead-letter":
            snapshot.letters = {entry: _pairs(fields) for entry, fields in contents[0]}
        case "stream:events":
            snapshot.events = list(_numbered(contents)) if isinstance(contents, list) else []
        case "counters":
            snapshot.counters = {name: int(number) for name, number in _pairs(contents).items()}
        case "periodic":
            snapshot.periodic |= {rest: _pairs(contents)} if rest else {}
            snapshot.ttl[f"periodic {rest}"] = ttl
        case "outbox":
            snapshot.outbox = len(contents[0])
        case "crew":
            snapshot.crew = _pairs(contents)
        case "types" if ttl > 0:
            snapshot.types[rest] = set(contents)
        case "builds" if ttl > 0:
            snapshot.builds = set(_scores(contents))
        case _:
            _place_mark(snapshot, f"{kind}:{rest}".strip(":"), contents)


def _place_lock(snapshot: Snapshot, kind: str, rest: str, ttl: int, contents: Any) -> None:
    """What calls that come again, or that are alike, are known by."""
    match kind:
        case "idempotency":
            snapshot.idempotency[rest] = Held(*contents.split(" "))
            snapshot.ttl[f"idempotency {rest}"] = ttl
        case "unique":
            snapshot.unique[rest], snapshot.ttl[f"unique {rest}"] = contents, ttl
        case "absorbed" if ttl > 0:
            snapshot.absorbed.add(rest)
        case "claim" | "request" if ttl > 0:
            snapshot.memos.add(rest)
        case "throttle" if ttl > 0:
            pass
        case _:
            snapshot.strange.append(f"{kind}:{rest}")


def _place_limits(snapshot: Snapshot, kind: str, rest: str, contents: Any) -> None:
    match kind:
        case "limits":
            _place_numbers(snapshot, _pairs(contents))
        case "limit":
            snapshot.slots[rest] = {_slot(member) for member in _scores(contents)}
        case "starts":
            snapshot.starts[rest] = [int(each) for each in contents]
        case _ if rest:
            snapshot.lines[rest] = set(_scores(contents))
        case _:
            snapshot.line_index = set(_scores(contents))


def _place_numbers(snapshot: Snapshot, fields: dict[str, str]) -> None:
    for name in sorted({name.removesuffix("!") for name in fields}):
        declared = parse_declared(fields.get(name, ""))
        override = parse_override(fields.get(f"{name}!", ""), declared)
        snapshot.limits[name] = override or declared or Numbers()
        if override is not None:
            snapshot.overridden.add(name)


def _slot(member: str) -> tuple[str, str]:
    task_id, _, token = member.partition(" ")
    return task_id, token


def _place_mark(snapshot: Snapshot, name: str, contents: Any) -> None:
    """Marks that are there or not, and lists of which only the length counts."""
    match name:
        case "wake":
            snapshot.wakes = len(contents)
        case "wake:schedule":
            snapshot.schedule_wakes = len(contents)
        case "queue:paused":
            snapshot.paused = True
        case "queue" | "queues" | "stream:audit" | "pulse" | "clock" | "depth":
            pass
        case _:
            snapshot.strange.append(name)


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _scores(flat: list[str]) -> dict[str, int]:
    return {member: int(float(score)) for member, score in _pairs(flat).items()}


def _order(entry: str) -> tuple[int, int]:
    ms, _, sequence = entry.partition("-")
    return int(ms), int(sequence)


def _numbered(entries: Any) -> Iterator[tuple[int, list[str]]]:
    """Log entries as the number of the last event in each, and the events' kinds."""
    for entry, fields in entries:
        yield _order(entry)[0], [line.split(" ")[0] for line in _pairs(fields)["d"].split("\n")]

"""The JSON of what operators look at and do: workers, periodic tasks, events, health; `shapes` has the rest."""

import msgspec

from dtq_engine.instants import at
from dtq_engine.model import WorkerInfo
from dtq_engine.periodic import PeriodicTask
from dtq_engine.shapes import raw
from dtq_engine.store.events import AuditEntry, Event

GAP = "GAP"


class WorkerShape(msgspec.Struct, kw_only=True):
    """A worker process as it last described itself; `state` is `running` or `draining`.

    `overdue` counts executions that run on though their time is over; `memory_kib` is null where it is not known.
    """

    id: str
    host: str
    pid: int
    queues: list[str]
    concurrency: int
    in_flight: int
    overdue: int
    memory_kib: int | None
    state: str
    release: str
    types: list[str]
    started_at: str | None
    seen_at: str | None


class WorkersShape(msgspec.Struct):
    """`dtq workers`."""

    workers: list[WorkerShape]


class PurgeShape(msgspec.Struct):
    """`dtq purge`: how many tasks were cancelled."""

    queue: str
    cancelled: int


class EventShape(msgspec.Struct, kw_only=True):
    """A line of `dtq events`: one thing that happened in a queue; `event_id` counts up by one within it.

    What happened to a worker, or to the queue itself, has no `task_id`, no `task_type` and no `attempt`.
    Where the log no longer has some, one line with the type `GAP` and their number in `missing` stands for them.
    """

    type: str
    queue: str
    event_id: int | None = None
    at: str | None = None
    task_id: str | None = None
    task_type: str | None = None
    attempt: int | None = None
    worker_id: str | None = None
    detail: str | None = None
    missing: int | None = None


class ActionShape(msgspec.Struct, kw_only=True):
    """One action of an operator: on a task, or (`target` is its name) on a queue or a periodic task."""

    at: str | None
    action: str
    target: str
    queue: str
    actor: str
    reason: str
    count: int
    request: str
    entry: str


class ActionsShape(msgspec.Struct):
    """`dtq audit`: newest first."""

    actions: list[ActionShape]


class FindingShape(msgspec.Struct, kw_only=True):
    """What `dtq doctor` found: `level` is `error`, `warning` or `repaired`, `check` names what was looked at."""

    level: str
    check: str
    message: str


class DoctorShape(msgspec.Struct):
    """`dtq doctor`: what was looked at, and what was found; nothing found is a healthy deployment."""

    checks: list[str]
    findings: list[FindingShape]


class PeriodicShape(msgspec.Struct, kw_only=True):
    """A periodic task: `cron` and `tz`, or else `every_ms`, say when; `paused` and `removed_at`, whether it does.

    `last_at` is the tick, or the time of the trigger, of the task `last_task`.
    """

    name: str
    type: str
    queue: str
    cron: str | None
    tz: str | None
    every_ms: int | None
    catch_up: str
    jitter_ms: int
    arguments: msgspec.Raw
    last_at: str | None
    last_task: str | None
    next_at: str | None
    paused: bool
    paused_by: str | None
    pause_reason: str | None
    removed_at: str | None


class PeriodicsShape(msgspec.Struct):
    """`dtq periodic list`: by name."""

    periodic: list[PeriodicShape]


class PeriodicVerbShape(msgspec.Struct):
    """`dtq periodic pause`, `resume` (`task_id` is null) and `trigger`."""

    name: str
    outcome: str
    task_id: str | None = None


class PasswordShape(msgspec.Struct):
    """`dtq hash-password`."""

    hash: str


class CompletionShape(msgspec.Struct):
    """`dtq completion`: the script for a shell."""

    shell: str
    script: str


def worker_shape(info: WorkerInfo) -> WorkerShape:
    """A worker for `--json`."""
    return WorkerShape(
        id=info.id,
        host=info.host,
        pid=info.pid,
        queues=list(info.queues),
        concurrency=info.concurrency,
        in_flight=info.in_flight,
        overdue=info.overdue,
        memory_kib=info.memory_kib,
        state=info.state,
        release=info.release,
        types=list(info.types),
        started_at=at(info.started_ms),
        seen_at=at(info.seen_ms),
    )


def periodic_shape(task: PeriodicTask) -> PeriodicShape:
    """A periodic task for `--json`."""
    definition = task.definition
    return PeriodicShape(
        name=task.name,
        type=definition.type,
        queue=task.queue,
        cron=definition.cron,
        tz=None if definition.cron is None else definition.tz,
        every_ms=definition.every_ms,
        catch_up=str(definition.catch_up),
        jitter_ms=definition.jitter_ms,
        arguments=raw(definition.payload.encode()),
        last_at=at(task.last_ms),
        last_task=task.last_task,
        next_at=at(task.next_ms),
        paused=task.paused_ms is not None,
        paused_by=task.paused_by or None,
        pause_reason=task.pause_reason or None,
        removed_at=at(task.removed_ms),
    )


def event_shape(event: Event) -> EventShape:
    """An event for `--json`."""
    same = ("type", "queue", "task_id", "task_type", "worker_id", "detail")
    attempt = None if event.task_id is None else event.attempt
    number = None if event.event_id < 0 else event.event_id
    fields = {name: getattr(event, name) for name in same}
    return EventShape(at=at(event.ts_ms), event_id=number, attempt=attempt, **fields)


def gap_shape(queue: str, missing: int | None) -> EventShape:
    """A gap in a queue's events for `--json`; None where the log was lost and has begun anew."""
    return EventShape(type=GAP, queue=queue, missing=missing)


def action_shape(entry: AuditEntry) -> ActionShape:
    """An operator's action for `--json`."""
    same = ("action", "target", "queue", "actor", "reason", "count", "request", "entry")
    return ActionShape(at=at(entry.ts_ms), **{name: getattr(entry, name) for name in same})

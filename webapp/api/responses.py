"""What the API answers, beside the shapes that the command line prints too. Fields are only ever added."""

from typing import Any, Literal

import msgspec

from dtq_engine import TaskStatus
from dtq_engine.operator_shapes import ActionShape, EventShape
from dtq_engine.report_shapes import LineShape
from dtq_engine.shapes import DeadLetterShape, TaskShape


class TaskDetail(TaskShape, kw_only=True, rename={"headers": "metadata"}):
    """A task. `hidden` says that payload, result and errors are kept from this reader."""

    headers: dict[str, str]
    hidden: bool = False


class LogPage(msgspec.Struct, kw_only=True):
    """Log lines of a task, oldest first. `cursor` is the number to go on after, now or once there are more.

    `hidden` says that they are kept from this reader.
    """

    lines: list[LineShape]
    cursor: int
    hidden: bool = False


class TaskRow(msgspec.Struct, kw_only=True):
    """A task in a list: what tells it from the others; the rest is at `tasks/<id>`."""

    id: str
    type: str
    queue: str
    status: TaskStatus
    priority: int
    attempt: int
    max_attempts: int
    created_at: str | None
    due_at: str | None
    started_at: str | None
    finished_at: str | None
    run_ms: int | None
    worker: str | None
    reason: str | None
    error: str | None


class TaskPage(msgspec.Struct, kw_only=True):
    """A page of tasks, newest first; `cursor` continues it, and may do so even if this page has nothing.

    What only the keys in `unreadable` lead to is missing: they hold something else than they must.
    """

    tasks: list[TaskRow]
    cursor: str | None
    unreadable: list[str]


class Accepted(msgspec.Struct):
    """A task that is there now: `duplicate` says that it was before, and `outcome` why it stands for the one sent.

    `exists`: by its id. `duplicate`: by its idempotency key, or its unique key. `throttled`: no more are accepted now,
    and it is the latest that was. `replaced`: it waits, and is now what was sent.
    """

    id: str
    queue: str
    status: TaskStatus | None
    duplicate: bool
    warnings: list[str] = []
    outcome: Literal["new", "exists", "duplicate", "throttled", "replaced"] = "new"


class ProblemBody(msgspec.Struct, kw_only=True):
    """What went wrong (RFC 9457): `code` is for programs, `detail` for people; `field` names the culprit."""

    title: str
    status: int
    code: str
    detail: str
    request_id: str
    field: str | None = None
    parameter: str | None = None
    task_ids: list[str] | None = None
    retry_after: int | None = None


class BatchItem(msgspec.Struct, kw_only=True):
    """What became of one task of a batch: it is there, or there is a problem."""

    task: Accepted | None = None
    problem: ProblemBody | None = None


class BatchAnswer(msgspec.Struct, kw_only=True):
    """An item for each task, in their order, and how many of them are there now."""

    items: list[BatchItem]
    accepted: int
    refused: int


class ResultAnswer(msgspec.Struct, kw_only=True):
    """How a task ended. Of a result too large to keep, `result_preview` is the beginning."""

    id: str
    status: TaskStatus
    result: msgspec.Raw
    result_size: int | None
    result_preview: str | None
    reason: str | None
    error: str | None
    hidden: bool = False


class VerbAnswer(msgspec.Struct, kw_only=True):
    """What was done to a task."""

    id: str
    outcome: str


class QueueAnswer(msgspec.Struct, kw_only=True):
    """How a queue is now."""

    queue: str
    paused: bool


class DeadLetterPage(msgspec.Struct, kw_only=True):
    """A page of dead letters, newest first; `cursor` continues it, and may do so even if this page has nothing.

    What only the keys in `unreadable` lead to is missing: they hold something else than they must.
    """

    dead_letters: list[DeadLetterShape]
    cursor: str | None
    unreadable: list[str]


class Refusal(msgspec.Struct, kw_only=True):
    """A task that was left as it was, and why."""

    id: str
    code: str
    detail: str


class BulkAnswer(msgspec.Struct, kw_only=True):
    """What was done to the dead letters that match; `complete` is false when more of them may be left."""

    done: int
    refused: list[Refusal]
    complete: bool


class EventPage(msgspec.Struct, kw_only=True):
    """A page of events, newest first; `cursor` continues it, and may do so even if this page has nothing.

    What only the keys in `unreadable` lead to is missing: they hold something else than they must.
    """

    events: list[EventShape]
    cursor: str | None
    unreadable: list[str]


class ActionPage(msgspec.Struct, kw_only=True):
    """A page of operators' actions, newest first.

    What only the keys in `unreadable` lead to is missing: they hold something else than they must.
    """

    actions: list[ActionShape]
    cursor: str | None
    unreadable: list[str]


class TypeAnswer(msgspec.Struct, kw_only=True):
    """A task type as living workers know it; while releases differ there is one for each."""

    type: str
    description: str
    parameters: dict[str, Any]
    result: dict[str, Any]
    defaults: dict[str, Any]
    releases: list[str]
    workers: list[str]


class TypesAnswer(msgspec.Struct, kw_only=True):
    """The task types that living workers know."""

    types: list[TypeAnswer]


class TypeTotalsShape(msgspec.Struct, kw_only=True):
    """What has been counted of a task type in a queue since it exists, by counter."""

    queue: str
    type: str
    counts: dict[str, int]


class StatsAnswer(msgspec.Struct, kw_only=True):
    """All queues together as they are now, and all that has been counted."""

    at: str | None
    workers: int
    slots: int
    in_flight: int
    queues: int
    paused: int
    depth: int
    waiting: int
    running: int
    delayed: int
    retrying: int
    blocked: int
    dead_lettered: int
    oldest_waiting_at: str | None
    totals: list[TypeTotalsShape]
    rejected: dict[str, int]

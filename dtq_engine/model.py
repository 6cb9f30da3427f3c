"""The values that dtq works with: statuses, tasks, claims, outcomes and transitions.

Instants are `*_ms` integers: milliseconds since the epoch by Redis' clock. Durations here are
milliseconds too; seconds appear only in the public Python API and in the settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

RECORD_VERSION = 1

T = TypeVar("T")


class TaskStatus(StrEnum):
    """Where a task is in its life. The last five are final."""

    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD_LETTERED = "dead_lettered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """Whether the task has ended; only an operator's requeue starts a new life."""
        return self in FINAL


FINAL = frozenset(
    {TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.DEAD_LETTERED, TaskStatus.CANCELLED, TaskStatus.EXPIRED}
)
REQUEUEABLE = FINAL - {TaskStatus.SUCCEEDED}

TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.PENDING: frozenset({TaskStatus.QUEUED, TaskStatus.CANCELLED, TaskStatus.EXPIRED}),
    TaskStatus.QUEUED: frozenset(
        {TaskStatus.RUNNING, TaskStatus.BLOCKED, TaskStatus.CANCELLED, TaskStatus.EXPIRED, TaskStatus.DEAD_LETTERED}
        | {TaskStatus.FAILED}
    ),
    TaskStatus.RUNNING: FINAL - {TaskStatus.EXPIRED} | {TaskStatus.QUEUED, TaskStatus.RETRYING, TaskStatus.BLOCKED},
    TaskStatus.RETRYING: frozenset({TaskStatus.QUEUED, TaskStatus.CANCELLED}),
    TaskStatus.BLOCKED: frozenset({TaskStatus.QUEUED, TaskStatus.PENDING, TaskStatus.CANCELLED, TaskStatus.EXPIRED}),
    TaskStatus.SUCCEEDED: frozenset(),
    TaskStatus.FAILED: frozenset({TaskStatus.QUEUED}),
    TaskStatus.DEAD_LETTERED: frozenset({TaskStatus.QUEUED}),
    TaskStatus.CANCELLED: frozenset({TaskStatus.QUEUED, TaskStatus.BLOCKED}),
    TaskStatus.EXPIRED: frozenset({TaskStatus.QUEUED, TaskStatus.BLOCKED}),
}
"""Every change of status that the scripts may make; from a final status only requeue leads out."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon a failed task is tried again.

    Delay before attempt n + 1 = min(max, base * 2^(n - 1)), times a random factor in 1 ± jitter.
    """

    max_attempts: int = 12
    base_delay_ms: int = 5_000
    max_delay_ms: int = 3_600_000
    jitter: float = 0.2


class Takes(StrEnum):
    """What of its parents' results a task gets as its first argument; all of them are in `ctx.inputs` anyway."""

    NOTHING = "nothing"
    ONE = "one"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Parent:
    """A task that another one waits for. `run_anyway`: the other one runs even if this one fails for good.

    `comes_along`: it is submitted together with the other one, and perhaps after it.
    """

    id: str
    queue: str
    run_anyway: bool = False
    comes_along: bool = False


class Unique(StrEnum):
    """How long a task holds its unique key: until it starts for the first time, or until it has ended."""

    WAITING = "waiting"
    UNTIL_DONE = "until_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """When no task is made of a submit, because an earlier one with the same key stands for it.

    Keys are those of a task type in a queue; `key` None stands for all arguments. `unique`: while a task holds the key.
    `at_most` and `per_ms`: once so many were accepted in so long, at whatever time one looks. `debounce_ms`: while one
    waits for its time; that becomes what is submitted now, and waits for so long from now on, but starts no later than
    `debounce_max_ms` after its first submit.
    """

    unique: Unique | None = None
    key: str | None = None
    at_most: int | None = None
    per_ms: int | None = None
    debounce_ms: int | None = None
    debounce_max_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to be accepted. `payload` is a JSON object in UTF-8; `validate.check` says what is allowed.

    `run_at_ms` (absolute) wins over `delay_ms` (from now, by Redis' clock). `expires_in_ms` bounds the
    wait for the first start. `headers` is a JSON object of strings, such as a trace context. `restartable`
    says whether a task with a single attempt may be given back by a worker that shuts down.

    It waits until the parents in `after` have succeeded. `children` (queue, id) were or are submitted with it and wait
    for it; of those `in_flow` in one call all are accepted, or none. `workflow.batches` sets these two.
    """

    id: str
    type: str
    payload: bytes = b"{}"
    queue: str = "default"
    priority: int = 5
    delay_ms: int = 0
    run_at_ms: int | None = None
    expires_in_ms: int | None = None
    timeout_ms: int = 300_000
    retry: RetryPolicy = RetryPolicy()
    idempotency_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    keep_result: bool = True
    restartable: bool = False
    after: tuple[Parent, ...] = ()
    takes: Takes = Takes.NOTHING
    children: tuple[tuple[str, str], ...] = ()
    in_flow: bool = False
    deduplication: Deduplication | None = None
    limits: tuple[str, ...] = ()
    """The buckets of its limits, as `prepare` made them of the arguments."""

    def with_headers(self, headers: Mapping[str, str]) -> "NewTask":
        """The same task with these headers over those it has."""
        return replace(self, headers={**self.headers, **headers})


class SubmitOutcome(StrEnum):
    """What became of one submitted task.

    EXISTS: its id is known. An earlier task stands for it: DUPLICATE, by idempotency key or unique key; THROTTLED, the
    latest of those that were accepted; REPLACED, a debounced one that has become this one.
    ORPHAN: a parent is not there. WITHHELD: another task of its flow was refused.
    """

    NEW = "new"
    EXISTS = "exists"
    DUPLICATE = "duplicate"
    THROTTLED = "throttled"
    REPLACED = "replaced"
    MISMATCH = "mismatch"
    FULL = "full"
    DAMAGED = "damaged"
    ORPHAN = "orphan"
    WITHHELD = "withheld"


REFUSALS = frozenset(
    {SubmitOutcome.MISMATCH, SubmitOutcome.FULL, SubmitOutcome.DAMAGED, SubmitOutcome.ORPHAN, SubmitOutcome.WITHHELD}
)
"""The outcomes of which no task comes."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to one submitted task: the id to look for, and whether it is a new task.

    `id` is the earlier task's for all outcomes that name one, and the missing parent's for ORPHAN. `status` is the
    status found or given. Of a DUPLICATE, `unique` says that the two share a unique key, not an idempotency key.
    """

    id: str
    queue: str
    outcome: SubmitOutcome
    status: TaskStatus | None = None
    unique: bool = False

    @property
    def accepted(self) -> bool:
        """Whether a task stands behind this id (new or not)."""
        return self.outcome not in REFUSALS


@dataclass(frozen=True, slots=True)
class AttemptError:
    """How one attempt ended without a result.

    `type` is the exception's class name; `message` at most 1 KiB, `traceback` its last 4 KiB.
    """

    type: str
    message: str
    traceback: str = ""
    attempt: int = 0
    worker: str = ""
    started_ms: int = 0
    ended_ms: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an execution said it was: `done` of `total` (None: it is not known how much there is), and a note."""

    done: float
    total: float | None
    note: str
    attempt: int
    at_ms: int

    @property
    def percent(self) -> float | None:
        """How much of it is done, 0 to 100, however wrong the total was; None without one."""
        return None if not self.total else min(100.0, 100 * self.done / self.total)


class Said(msgspec.Struct, frozen=True):
    """What an execution says of itself in one go.

    `progress`: done, total, note and when, in ms. `lines`: its log lines, each with its number in the execution.
    """

    progress: tuple[float, float | None, str, int] | None = None
    lines: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that an execution logged. `number` counts the lines of the task; `missing` lines before it are gone."""

    number: int
    missing: int
    attempt: int
    at_ms: int
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True)
class Saved:
    """What is saved for later executions of a task: names of steps, how many things are done once, a checkpoint."""

    steps: tuple[str, ...] = ()
    marks: int = 0
    has_cursor: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """What became of a parent, as its child is told: `result` is JSON, None for `None` and for one that failed.

    `status` None: it was gone. `reason` is why it failed, or `cut` of a result that was too large to be handed on.
    """

    task_id: str
    queue: str
    status: TaskStatus | None
    result: bytes | None = None
    reason: str | None = None

    @property
    def value(self) -> Any:
        """The result as plain JSON values; None for a parent that failed."""
        return None if self.result is None else msgspec.json.decode(self.result)

    @property
    def failed(self) -> bool:
        """Whether the parent did not succeed."""
        return self.status is not TaskStatus.SUCCEEDED


class Claim(msgspec.Struct, frozen=True):
    """One execution of one task: what the worker needs to run it and, with `token`, to end it.

    A struct, because one is made for every task, and a frozen dataclass of this size takes ten times as long.
    """

    task_id: str
    queue: str
    type: str
    payload: bytes
    token: str
    entry: str
    priority: int
    attempt: int
    fence: int
    worker: str
    created_ms: int
    started_ms: int
    deadline_ms: int
    timeout_ms: int
    lease_ms: int
    retry: RetryPolicy
    restarts: int = 0
    lease_expiries: int = 0
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    keep_result: bool = True
    restartable: bool = False
    cancel_requested: bool = False
    inputs: tuple[Input, ...] = ()
    takes: Takes = Takes.NOTHING
    saved: Mapping[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    """What earlier executions saved, by the fields of `Keys.steps`."""

    @property
    def key(self) -> tuple[str, str]:
        """What in-flight work is keyed by: the same task claimed again has another token."""
        return (self.task_id, self.token)


# How an execution ended, as the worker or the reaper saw it.


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned; `value` is its result as JSON, None for `None`.

    Of a result too large to keep, `value` is a preview and `size` the true length in bytes.
    """

    value: bytes | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised. `permanent` forbids another attempt; `delay_ms` is what a retry callback chose."""

    error: AttemptError
    permanent: bool = False
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The execution passed its deadline; `permanent` and `delay_ms` as in `Raised`."""

    error: AttemptError
    permanent: bool = False
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The worker stopped renewing its lease: it died, froze, or was cut off. The rest as in `Raised`."""

    error: AttemptError
    permanent: bool = False
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AskedRetry:
    """The handler raised `Retry(delay)`: the attempt counts."""

    error: AttemptError
    delay_ms: int


@dataclass(frozen=True, slots=True)
class AskedSnooze:
    """The handler raised `Snooze(delay)`: the attempt does not count."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class WasCancelled:
    """The handler gave way to a cancel request."""

    error: AttemptError


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The worker is leaving before the handler finished. `saved`: it has saved a step or where to go on."""

    error: AttemptError
    saved: bool = False


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The handler raised `Handover`: others are to go on. `saved` as in `ShutDown`."""

    error: AttemptError
    saved: bool = False


@dataclass(frozen=True, slots=True)
class Misfit:
    """The payload does not fit the parameters of the handler, as this worker's build has them."""

    error: AttemptError


Outcome = (
    Misfit
    | Returned
    | Raised
    | TimedOut
    | LeaseExpired
    | AskedRetry
    | AskedSnooze
    | WasCancelled
    | ShutDown
    | HandedOver
)


# What is to be done with the task. Decided in Python, applied by one script under the fence.


@dataclass(frozen=True, slots=True)
class Succeed:
    """End as SUCCEEDED with this result (JSON; None for `None`); `size` as in `Returned`."""

    result: bytes | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Another attempt after `delay_ms`; 0 means at once."""

    error: AttemptError
    delay_ms: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """No further attempt. `reason`: max_attempts, permanent, worker_lost, restart_loop, …"""

    error: AttemptError
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """End as CANCELLED."""

    error: AttemptError


@dataclass(frozen=True, slots=True)
class Release:
    """Give the task back, at once available, attempt not counted; nor, unless `restarts`, as a restart."""

    restarts: bool = True


@dataclass(frozen=True, slots=True)
class Postpone:
    """Call again after `delay_ms`, attempt not counted."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Block:
    """Park the task until a worker can handle it; attempt not counted."""

    reason: str


Transition = Succeed | Reschedule | DeadLetter | Cancel | Release | Postpone | Block


class Settled(StrEnum):
    """The store's answer to one finalized execution.

    DAMAGED: a key that its end has to write to holds something else, and nothing was written; it can be sent again.
    """

    OK = "OK"
    DUP = "DUP"
    FENCED = "FENCED"
    GONE = "GONE"
    DAMAGED = "DAMAGED"


class ClaimStatus(StrEnum):
    """Why a claim returned what it did. AGAIN: more may be waiting, claim again with a new token."""

    TASKS = "TASKS"
    EMPTY = "EMPTY"
    PAUSED = "PAUSED"
    AGAIN = "AGAIN"
    TYPES = "TYPES"
    LIMITED = "LIMITED"


@dataclass(frozen=True, slots=True)
class ClaimReply:
    """The tasks claimed from one queue, in the order to start them.

    LIMITED: the queue's own limit allows no more for now; with `room_in_ms`, this claimer is to come again then.
    """

    status: ClaimStatus
    claims: tuple[Claim, ...] = ()
    room_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a heartbeat, as `Claim.key`s: leases that are lost, and cancels to carry out."""

    lost: frozenset[tuple[str, str]] = frozenset()
    cancel: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Promotion:
    """How many due tasks were moved, and when the next one is due (None: nothing scheduled).

    `outbox`: how many messages wait there for tasks in other queues. `damage`: which key keeps tasks from moving, as a
    sentence.
    """

    moved: int
    next_due_in_ms: int | None
    outbox: int = 0
    damage: str | None = None


class CancelOutcome(StrEnum):
    """CANCELLED: ended now. REQUESTED: it runs, and its worker was told. FINISHED: it had ended before."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is known of one task, as read from its record."""

    id: str
    type: str
    queue: str
    status: TaskStatus
    priority: int
    attempt: int
    retry: RetryPolicy
    timeout_ms: int
    created_ms: int
    payload: bytes = b"{}"
    due_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    deadline_ms: int | None = None
    expires_ms: int | None = None
    worker: str | None = None
    fence: int = 0
    restarts: int = 0
    lease_expiries: int = 0
    previous_attempts: int = 0
    cancel_requested: bool = False
    reason: str | None = None
    idempotency_key: str | None = None
    unique: Unique | None = None
    debounced: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: tuple[AttemptError, ...] = ()
    result: bytes | None = None
    result_size: int | None = None
    progress: Progress | None = None
    is_linked: bool = False
    """Whether it has parents or children."""
    version: int = RECORD_VERSION

    @property
    def result_truncated(self) -> bool:
        """Whether `result` is only a preview of a value of `result_size` bytes."""
        return self.result is not None and self.result_size is not None and self.result_size > len(self.result)

    @property
    def wait_ms(self) -> int | None:
        """Milliseconds from acceptance to the start of the latest attempt."""
        return None if self.started_ms is None else self.started_ms - self.created_ms

    @property
    def run_ms(self) -> int | None:
        """Milliseconds that the latest attempt ran, once the task has ended."""
        if self.started_ms is None or self.finished_ms is None:
            return None
        return self.finished_ms - self.started_ms


@dataclass(frozen=True, slots=True)
class Relative:
    """A parent or child of a task."""

    id: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A task in a tree, with those that it waits for and those that wait for it. `status` None: it is gone."""

    id: str
    queue: str
    type: str | None
    status: TaskStatus | None
    reason: str | None
    parents: tuple[Relative, ...] = ()
    children: tuple[Relative, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """Tasks that are linked with one (`of`), the nearest first. `is_cut`: there are more."""

    of: Relative
    nodes: tuple[TreeNode, ...]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetterEntry:
    """One dead letter: `entry` is its place in the dead-letter stream, newest last."""

    entry: str
    task_id: str
    queue: str
    type: str
    reason: str
    error: str
    attempts: int
    worker: str
    died_ms: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue at a glance; `depth` = waiting + running + delayed + retrying + blocked."""

    queue: str
    waiting: int
    running: int
    delayed: int
    retrying: int
    blocked: int
    succeeded: int
    failed: int
    dead_lettered: int
    cancelled: int
    expired: int
    paused: bool
    pause_reason: str | None = None
    oldest_waiting_ms: int | None = None
    waiting_by_priority: Mapping[int, int] = field(default_factory=dict[int, int])
    unreadable: int = 0
    """How many of its keys hold something else than they must: then these numbers are too small."""

    @property
    def depth(self) -> int:
        """All tasks that have not ended."""
        return self.waiting + self.running + self.delayed + self.retrying + self.blocked


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a listing; `cursor` continues it, None at the end."""

    items: tuple[T, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """What a worker process last said of itself."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    release: str
    types: tuple[str, ...]
    in_flight: int
    state: str
    started_ms: int
    seen_ms: int
    schemas: Mapping[str, str] = field(default_factory=dict[str, str])
    """By task type, what tells the parameters of one build from those of another."""
    finished: int = 0
    """How many executions have ended in this process, whatever came of them."""
    periodic: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the name of each periodic task, what tells its definition in this build from those of others."""
    memory_kib: int | None = None
    """What of it is in memory at this moment, without processes that it started; None where that is not known."""
    overdue: int = 0
    """How many of its executions have passed their time limit and could not be ended: threads that still run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSchema:
    """What living workers say of a task type: JSON Schemas (draft 2020-12), the function's docstring, its options.

    While releases with other parameters run side by side, there is one for each. Of what the type decides for its
    tasks (queue, priority, timeout_ms, max_attempts, …), `defaults` has all but what it leaves to the settings.
    """

    type: str
    digest: str
    """What tells these parameters from others, as in `WorkerInfo.schemas`."""
    parameters: Mapping[str, Any]
    """The schema of a payload: an object with a property for each parameter of the handler but the context."""
    result: Mapping[str, Any]
    """The schema of a result; without an annotation that says more, that of any JSON."""
    description: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    releases: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()

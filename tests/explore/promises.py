"""What was promised so far, in plain Python. The explorer compares it with what Redis holds after each call."""

from collections import Counter
from dataclasses import dataclass, field, replace

from dtq_engine.config import Settings
from dtq_engine.model import NewTask, Parent, Receipt, SubmitOutcome, TaskStatus, Unique
from dtq_engine.periodic import Definition
from tests.explore.snapshot import QUEUE, Snapshot

GUARD_MS = 60_000
"""No finished task goes within this time of its end, so that a call sent again still meets its record."""

REMEMBERED_MS = 30_000
"""How long it is known that another task stood for a submit."""

SLACK_MS = 2_500
"""`shift` removes keys that would expire within 2 s."""

LIVING = frozenset(status for status in TaskStatus if not status.is_final)


class Violation(AssertionError):
    """Raised when Redis holds, or a call answers, something else than was promised."""


def expect(holds: bool, promise: str, *details: object) -> None:
    """Raise Violation unless the promise holds."""
    if not holds:
        raise Violation(f"{promise}: " + ", ".join(map(repr, details)))


@dataclass(slots=True)
class Known:
    """One accepted task, as it must be by all that was answered so far. `status` None: its record has gone."""

    task: NewTask
    status: TaskStatus | None
    priority: int
    token: str = ""
    is_reaped: bool = False
    is_unreadable: bool = False
    """Its state was lost: it may not start before an operator requeues it."""
    attempt: int = 0
    previous_attempts: int = 0
    restarts: int = 0
    expiries: int = 0
    fence: int = 0
    started: bool = False
    cancel_requested: bool = False
    has_result: bool = False
    expires: bool = True
    blocked_ms: tuple[int, int] | None = None
    ended_ms: int = 0
    ended_at_ms: int = 0
    outcome: TaskStatus | None = None
    discarded: bool = False
    last_token: str = ""
    recorded: set[str] = field(default_factory=set)
    progress: str | None = None
    said: tuple[int, int] = (0, 0)
    """The execution that logged last, by its fence, and which of its lines was the last."""
    last_line: int = 0
    lines: list[int] = field(default_factory=list)
    saved: dict[str, bytes] = field(default_factory=dict)
    kin: dict[str, "Known"] = field(default_factory=dict, repr=False)
    unheard: set[str] = field(default_factory=set)
    """The parents that had ended when it came, and kept no result."""
    asked: set[str] = field(default_factory=set)
    """The parents in another queue that were there before it: asked by message, they may have lost their result."""
    awaits: bool = False
    is_victim: bool = False
    doomed: set[str] = field(default_factory=set)
    result: bytes | None = None
    is_cut: bool = False
    had: set[TaskStatus] = field(default_factory=set)
    """How it has ended so far, in all its lives: news of each is carried to children in another queue."""
    lives: int = 0
    gone: set[str] = field(default_factory=set)
    """The parents in another queue that could not tell how they had ended, as they were gone when they were asked."""

    def copy(self) -> "Known":
        """The same, to go on from separately."""
        return replace(
            self,
            recorded=set(self.recorded),
            lines=list(self.lines),
            saved=dict(self.saved),
            doomed=set(self.doomed),
            had=set(self.had),
            gone=set(self.gone),
        )

    @property
    def is_living(self) -> bool:
        """Whether it has yet to reach its outcome."""
        return self.status is not None and not self.status.is_final

    @property
    def unique_key(self) -> tuple[object, ...] | None:
        """What makes it like others: debounced ones are not compared with unique ones."""
        wanted = self.task.deduplication
        if wanted is None or (wanted.unique is None and wanted.debounce_ms is None):
            return None
        return (wanted.unique is None, self.task.type, wanted.key)

    @property
    def is_holding(self) -> bool:
        """Whether it holds its unique key, unless it has waited too long."""
        wanted = self.task.deduplication
        if wanted is None or not self.is_living:
            return False
        if wanted.debounce_ms is not None:
            return self.status is TaskStatus.PENDING
        return wanted.unique is Unique.UNTIL_DONE or (wanted.unique is Unique.WAITING and not self.started)

    def started_under(self, token: str) -> None:
        """A claim started it."""
        self.token, self.started, self.is_reaped = token, True, False
        self.attempt += 1
        self.fence += 1

    def reaped_under(self, token: str) -> None:
        """A reaper took it over."""
        if not self.is_reaped:
            self.restarts += 1
            self.expiries += 1
        self.token, self.is_reaped = token, True
        self.fence += 1

    def outcome_recorded(self) -> None:
        """What its execution came to was accepted."""
        self.recorded.add(self.token)
        self.last_token, self.token = self.token, ""

    def begin_again(self) -> None:
        """An operator requeued it: a new life."""
        self.previous_attempts += self.attempt
        self.attempt = self.restarts = self.expiries = 0
        self.started = self.cancel_requested = self.is_reaped = self.expires = self.is_unreadable = False
        self.last_token, self.blocked_ms = "", None
        self.doomed = set()
        self.lives += 1


@dataclass(slots=True)
class Key:
    """An idempotency key: whose it is, and what it was given for; without a type that is not known any more.

    `lent_ms`: when it was given for a task for which that one stood; then it goes by its own time.
    """

    task_id: str
    type: str | None
    payload: bytes
    lent_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Memo:
    """What a submit was answered for which another task stood, and when."""

    outcome: SubmitOutcome
    task_id: str
    at_ms: int


@dataclass(slots=True)
class Periodic:
    """The periodic task: its ticks up to `at_ms` have been dealt with."""

    definition: Definition
    at_ms: int
    paused: bool = False
    removed: bool = False
    removed_at_ms: int = 0

    @property
    def is_active(self) -> bool:
        """Whether it runs at its ticks."""
        return not self.paused and not self.removed


@dataclass(slots=True)
class Promises:
    """All that one queue has promised. A call says which tasks it may change (`allow`); no other may change.

    `beside` is what another queue has promised, if there is one. `awaited`: parents that are yet to come.
    """

    settings: Settings
    queue: str = QUEUE
    beside: "Promises | None" = field(default=None, repr=False)
    awaited: dict[str, Known] = field(default_factory=dict)
    outbox: int = 0
    tasks: dict[str, Known] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    absorbed: dict[str, Memo] = field(default_factory=dict)
    passed: dict[tuple[str, str | None], list[tuple[int, str]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    answers: dict[str, object] = field(default_factory=dict)
    claims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    crew: dict[str, str] = field(default_factory=dict)
    periodic: Periodic | None = None
    accepted: int = 0
    forgotten: int = 0
    leader_looks_ms: int = 0
    elapsed_ms: int = 0
    went_back: bool = False
    pause_ran_out: bool = False
    is_damaged: bool = False
    strays: set[tuple[int, str]] = field(default_factory=set)
    stray_members: set[tuple[TaskStatus, str]] = field(default_factory=set)
    allowed: dict[str, set[TaskStatus | None]] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)
    ran: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    starts: dict[str, list[int]] = field(default_factory=dict)
    is_purging: bool = False
    is_rate_new: bool = False

    def copy(self) -> "Promises":
        """The same promises, to go on from separately."""
        tasks = {task_id: known.copy() for task_id, known in self.tasks.items()}
        for known in tasks.values():
            known.kin = {each: tasks[each] if kin is self.tasks.get(each) else kin for each, kin in known.kin.items()}
        return replace(
            self,
            tasks=tasks,
            keys=dict(self.keys),
            absorbed=dict(self.absorbed),
            passed={key: list(accepted) for key, accepted in self.passed.items()},
            counts=self.counts.copy(),
            events=self.events.copy(),
            answers=dict(self.answers),
            claims=dict(self.claims),
            crew=dict(self.crew),
            periodic=None if self.periodic is None else replace(self.periodic),
            strays=set(self.strays),
            stray_members=set(self.stray_members),
            allowed={},
            limited=set(self.limited),
            ran=dict(self.ran),
            held=dict(self.held),
            starts={bucket: list(each) for bucket, each in self.starts.items()},
        )

    def find(self, task_id: str) -> Known | None:
        """The task, if it was accepted and its record must still be there."""
        known = self.tasks.get(task_id)
        return known if known is not None and known.status is not None else None

    def accept(self, task: NewTask, status: TaskStatus) -> None:
        """A task was accepted under a new id, or under the id of one that is gone."""
        self.forgotten += task.id in self.tasks
        known = self.awaited.pop(task.id, None) or Known(task, status, task.priority)
        known.task, known.status, known.priority = task, status, task.priority
        self.tasks[task.id] = known
        self.accepted += 1
        if task.idempotency_key is not None:
            self.keys[task.idempotency_key] = Key(task.id, task.type, task.payload)
        self.count(task, "submitted")
        self.events["TASK_QUEUED"] += 1

    def parent(self, parent: Parent) -> Known:
        """The task that a link leads to, in whichever queue; one that is yet to come is gone until then."""
        where = self if parent.queue == self.queue or self.beside is None else self.beside
        if parent.id in where.tasks:
            return where.tasks[parent.id]
        to_come = Known(NewTask(id=parent.id, type="", queue=parent.queue), None, 5)
        return where.awaited.setdefault(parent.id, to_come)

    def let_pass(self, task: NewTask, at_ms: int) -> None:
        """A throttle let a task pass."""
        if task.deduplication is not None and task.deduplication.at_most is not None:
            self.passed.setdefault((task.type, task.deduplication.key), []).append((at_ms, task.id))

    def remember_absorbed(self, task: NewTask, receipt: Receipt) -> None:
        """Another task stands for this one, and for its idempotency key."""
        self.absorbed[task.id] = Memo(receipt.outcome, receipt.id, self.elapsed_ms)
        if task.idempotency_key is not None:
            self.keys[task.idempotency_key] = Key(receipt.id, task.type, task.payload, self.elapsed_ms)

    def replace(self, task_id: str, task: NewTask) -> None:
        """A debounced task is what was submitted last."""
        known = self.tasks[task_id]
        known.task = replace(task, id=task_id, idempotency_key=known.task.idempotency_key)
        known.priority = task.priority

    def count(self, task: NewTask, name: str) -> None:
        """One more transition that the counters must show."""
        self.counts[f"{task.type} {name}"] += 1

    def allow(self, task_id: str, *statuses: TaskStatus | None) -> None:
        """This call may leave the task in one of these statuses."""
        self.allowed.setdefault(task_id, set()).update(statuses)

    def reconcile(self, after: Snapshot) -> None:
        """Take over what the call made of the tasks; raises Violation for what it was not allowed to do."""
        for task_id, known in self.tasks.items():
            actual = after.status(task_id)
            if known.is_unreadable and task_id in after.records:
                actual = actual or known.status  # A sweep is yet to come.
            may_be = self.allowed.get(task_id) or {known.status}
            if task_id in self.limited:
                may_be = may_be | {TaskStatus.QUEUED}  # Whatever frees a slot calls who waits for it.
            if actual not in may_be:
                excused = actual is None and task_id not in after.records and self._may_be_gone(known, after)
                expect(excused, f"task {task_id} changed as it must not", known.status, actual, may_be)
            if actual != known.status:
                self._moved(known, actual, after)
        self.allowed = {}
        self.outbox = after.outbox
        self.limited = {task_id for task_id in after.records if after.reason(task_id).startswith("limit:")}
        self._forget_keys(after)
        self._forget_absorbed(after)

    def _moved(self, known: Known, actual: TaskStatus | None, after: Snapshot) -> None:
        known.status = actual
        if actual is not None:
            self.stray_members.discard((actual, known.task.id))
        if actual is not None and actual.is_final:
            known.ended_ms = int(after.records[known.task.id].get("F", "0"))
            known.ended_at_ms = self.elapsed_ms
            known.outcome, known.token = actual, ""
            known.had.add(actual)
            self.count(known.task, actual.value)
            self.events[f"TASK_{actual.name}"] += 1

    def age_ms(self, known: Known) -> int:
        """How long ago a task ended, whatever the clock says."""
        return self.elapsed_ms - known.ended_at_ms + SLACK_MS

    def _may_be_gone(self, known: Known, after: Snapshot) -> bool:
        """Whether trimming or its time to live may have taken a finished task."""
        if known.status is None or not known.status.is_final:
            return False
        settings, age = self.settings, self.age_ms(known)
        if known.status is TaskStatus.DEAD_LETTERED:
            excess = len(after.letters) >= settings.dlq_maxlen
            return age >= GUARD_MS and (excess or age >= settings.dlq_retention_s * 1000)
        if known.status is not TaskStatus.SUCCEEDED:
            return age >= max(GUARD_MS, settings.task_retention_s * 1000)
        guard = max(GUARD_MS, settings.result_retention_s * 1000 if known.has_result else 0)
        excess = len(after.ended[TaskStatus.SUCCEEDED]) >= settings.keep_succeeded
        return age >= guard and (excess or age >= settings.task_retention_s * 1000)

    def _forget_keys(self, after: Snapshot) -> None:
        """Idempotency keys go when their time is over, never before."""
        for name in [name for name in self.keys if name not in after.idempotency]:
            key = self.keys.pop(name)
            known = self.tasks[key.task_id]
            ended = known.ended_at_ms if key.lent_ms is None else key.lent_ms
            age_ms = self.elapsed_ms - ended + SLACK_MS
            is_over = (key.lent_ms is not None or not known.is_living) and age_ms >= self.settings.idem_ttl_s * 1000
            expect(is_over, f"idempotency key {name} was forgotten too early", known.task.id, known.status)

    def _forget_absorbed(self, after: Snapshot) -> None:
        """What was absorbed is remembered for long enough that a submit which is sent again is known."""
        for task_id in [task_id for task_id in self.absorbed if task_id not in after.absorbed]:
            age_ms = self.elapsed_ms - self.absorbed.pop(task_id).at_ms + SLACK_MS
            expect(age_ms >= REMEMBERED_MS, "what was absorbed is forgotten too early", task_id, age_ms)

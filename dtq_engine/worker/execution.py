"""One claimed task on its way through this worker."""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from dtq_engine.config import Settings
from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidStep
from dtq_engine.model import Claim
from dtq_engine.registry import Handler
from dtq_engine.report import Book, Report
from dtq_engine.steps import MARK, Steps

Key = tuple[str, str]

# A process is killed within two seconds of its deadline; for so long its task must not start elsewhere.
UNWIND_S = 5.0


class Cause(Enum):
    """Why a running handler was asked to give way."""

    CANCEL = "its cancel was asked for"
    TIMEOUT = "it passed its deadline"
    LOST = "its lease was lost"
    SHUTDOWN = "the worker is shutting down"


Save = Callable[[Claim, str, bytes, bool], bool]
"""What `store.steps.save` does, here or on behalf of another process."""


@dataclass(frozen=True, slots=True)
class Around:
    """What all executions of a worker share: its settings, where they report and save, what is set once it stops.

    `pid` is the process that they run in.
    """

    settings: Settings
    book: Book
    save: Save
    stopping: threading.Event = field(default_factory=threading.Event)
    pid: int = field(default_factory=os.getpid)

    @property
    def is_a_copy(self) -> bool:
        """Whether this process is a copy that a handler has forked, which has no part in any execution."""
        return os.getpid() != self.pid

    def end_copy(self) -> None:
        """End a copy, whose handler has come back in it as well: only one may answer."""
        if self.is_a_copy:
            os._exit(1)


class Execution:
    """A claim, its handler, and how the execution fares; keyed by (task id, token).

    `context` is there if the handler takes it, or if it is `hooked`: hooks run around it, which want one. `saved` tells
    whether it has saved a step or where to go on.

    The deadline counts from here; of a handler that runs in a process, from when it is called there (`start_clock`):
    until then it has none, and what starts the process has a limit of its own.

    `cause` is the first reason it was asked to stop for, `overdue_since` the monotonic time at which a
    handler that cannot be stopped passed its deadline.
    """

    __slots__ = (
        "_around", "_cancelled", "_report", "_steps", "begun", "cause", "claim", "context", "deadline", "handler",
        "key", "overdue_since", "saved", "started", "task",
    )  # fmt: skip

    def __init__(self, claim: Claim, handler: Handler, now: float, around: Around, *, hooked: bool = False) -> None:
        self.claim = claim
        self.handler = handler
        self.key: Key = (claim.task_id, claim.token)
        self.started = now
        self.deadline = now + claim.timeout_ms / 1000 if handler.isolation is None else math.inf
        self.saved = False
        self._around = around
        self._report: Report | None = None
        self._steps: Steps | None = None
        self.context: TaskContext | None = None
        if handler.takes_context or hooked:
            self.give_context(threading.Event())
        self.cause: Cause | None = None
        self.overdue_since: float | None = None
        self.begun = False
        self.task: asyncio.Task[None] | None = None

    def interrupt(self, cause: Cause) -> bool:
        """Note why it is to give way, and show it to the handler; False if it was told already.

        Only a deadline replaces an earlier cause: a handler may ignore a cancel, but not its end.
        """
        if self.cause is not None and (cause is not Cause.TIMEOUT or self.cause is Cause.TIMEOUT):
            return False
        self.cause = cause
        # A shutdown is no cancel: `ctx.stopping` has told the handler, and what it still returns counts.
        if self.context is not None and cause is not Cause.SHUTDOWN:
            self.context.cancel()
        return True

    def start_clock(self) -> None:
        """Its handler is called only now, in a process that had to be started first."""
        self.deadline = time.monotonic() + self.claim.timeout_ms / 1000

    def ran_ms(self, now: float) -> int | None:
        """How long its handler has run; None while it is to be kept however long that is.

        So is a thread that has not returned, and a process until it must be dead.
        """
        if self.overdue_since is not None:
            return None
        if self.handler.isolation is not None and now < self.deadline + UNWIND_S:
            return None
        return max(0, round((now - self.deadline) * 1000) + self.claim.timeout_ms)

    def give_context(self, cancelled: threading.Event) -> None:
        """Make its context, of which `cancelled` is set once it is to give up."""
        self._cancelled = cancelled
        self.context = TaskContext(
            claim=self.claim, cancelled=cancelled, stopping=self._around.stopping, execution=self
        )

    @property
    def report(self) -> Report:
        """What it says of itself."""
        return self._report or self._make_report()

    @property
    def steps(self) -> Steps:
        """What it and earlier executions of the task have saved."""
        return self._steps or self._make_steps()

    def _make_report(self) -> Report:
        with self._around.book.lock:  # threads of one handler may say their first words at once
            self._report = self._report or Report(self.claim, self.started, self._around.book)
            return self._report

    def _make_steps(self) -> Steps:
        settings = self._around.settings
        with self._around.book.lock:
            self._steps = self._steps or Steps(
                self.claim.saved,
                self.save,
                deadline=self.deadline,
                given_up=self._cancelled,
                most=settings.task_steps,
                most_bytes=settings.task_steps_bytes,
            )
            return self._steps

    def save(self, field: str, value: bytes, first: bool) -> bool:
        """Keep something for later executions of the task; raises as `store.steps.save`, and InvalidStep in a copy."""
        if self._around.is_a_copy:
            raise InvalidStep(
                "Steps, marks and cursors are saved by the process that runs the handler, and this is a copy that it "
                "forked: save what copies bring back, where they were started."
            )
        kept = self._around.save(self.claim, field, value, first)
        self.saved = self.saved or not field.startswith(MARK)
        return kept

    @property
    def never_began(self) -> bool:
        """Whether it is an async one that the event loop has not come to, or one that no process was given."""
        return not self.begun and (self.handler.is_async or self.handler.isolation is not None)

    def elapsed_ms(self) -> int:
        """How long it has run."""
        return round((time.monotonic() - self.started) * 1000)

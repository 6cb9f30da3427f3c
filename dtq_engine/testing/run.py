"""One run: executions of due tasks, one after the other, until none is due, one fails, or there are too many."""

import asyncio
import contextvars
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dtq_engine.engine import Dtq
from dtq_engine.model import (
    AskedRetry,
    AttemptError,
    Block,
    Claim,
    DeadLetter,
    HandedOver,
    Misfit,
    Outcome,
    Raised,
    Release,
    Reschedule,
    TaskStatus,
    TimedOut,
    Transition,
)
from dtq_engine.report import Book, Bounds, Listener
from dtq_engine.subscription import Subscription
from dtq_engine.testing.budget import Budget
from dtq_engine.testing.clock import Clock
from dtq_engine.testing.due import WORKER, Due
from dtq_engine.testing.errors import HandlerFailed, RunawayTasks
from dtq_engine.testing.handler_loop import HandlerLoop
from dtq_engine.testing.in_place import InPlace
from dtq_engine.worker.execution import Around, Cause
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.reports import Reporter

OF_TASKS = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)
"""What counts as a task's own failure. Ctrl-C, `pytest.fail` and their like are the test's."""

# Of the context, because a handler may submit from another thread than the one that runs it.
_clocks: contextvars.ContextVar[tuple[Clock, ...]] = contextvars.ContextVar("dtq_clocks_of_runs", default=())


@dataclass(frozen=True, slots=True)
class Ran:
    """One execution of a handler, and the status of its task after it (None: the record is gone)."""

    type: str
    id: str
    attempt: int
    status: TaskStatus | None
    error: BaseException | None = None


def is_within_run(clock: Clock) -> bool:
    """Whether this is called by a handler that a run has started, one that goes by this clock."""
    return clock in _clocks.get()


class Run:
    """Executes what is due under the rules of production. `open` it, then `go` or `go_async`, once.

    `budget` bounds the executions. With `raise_failures` the first that fails ends the run; if `crashes`, no outcome is
    recorded, as when the worker dies first. If it `stops`, as a worker that shuts down, a task that is handed over
    ends it.
    """

    def __init__(
        self,
        app: Dtq,
        due: Due,
        clock: Clock,
        budget: Budget,
        *,
        raise_failures: bool,
        crashes: bool = False,
        stops: bool = False,
    ) -> None:
        self.ran: list[Ran] = []
        self._app = app
        self._due = due
        self._clock = clock
        self._budget = budget
        self._raise_failures = raise_failures
        self._crashes = crashes
        self._stops = stops
        self._over = False
        self._inflight = InFlight(1)
        book = Book(Bounds.of(app.settings))
        self._reporter = Reporter(app.store, book)
        self._listener = Listener(book, app.settings.task_logs)
        around = Around(app.settings, book, app.store.steps.save)
        self._executor = InPlace(app.registry, self._inflight, around, self.look)
        self._control: Subscription | None = None
        if stops:
            self._executor.announce_stop()

    @contextmanager
    def open(self) -> Generator["Run"]:
        """Listen for cancels meanwhile, and have handlers known as such."""
        token = _clocks.set((*_clocks.get(), self._clock))
        try:
            self._listener.listen()
            with self._app.connection.listen([self._app.store.keys.control_channel(WORKER)]) as self._control:
                yield self
        finally:
            self._listener.leave()
            self._control = None
            _clocks.reset(token)

    def go(self, loop: HandlerLoop) -> None:
        """Run what is due in this thread. Raises HandlerFailed and RunawayTasks."""
        __tracebackhide__ = True
        for claim in self._claims():
            self._executor.execute(claim, loop)
            self._conclude(claim)

    async def go_async(self) -> None:
        """The same, with async handlers on the running event loop."""
        __tracebackhide__ = True
        for claim in self._claims():
            await self._executor.execute_async(claim)
            self._conclude(claim)

    def look(self) -> None:
        """What a worker's control and watchdog do for what runs: pass on cancels, police deadlines."""
        while self._control is not None and (message := self._control.get(0.0)) is not None:
            match message[1].decode().split(" "):
                case ["cancel", task_id, token]:
                    self._executor.interrupt((task_id, token), Cause.CANCEL)
                case _:
                    pass
        for execution in self._inflight.running():
            is_late = self._clock.now_ms(self._app.store) >= execution.claim.deadline_ms
            if is_late and execution.cause is not Cause.TIMEOUT:
                self._executor.time_out(execution)

    def beat(self) -> None:
        """What its heartbeat does, for when time has moved: renew the leases of what runs."""
        self.look()
        executions = self._inflight.running()
        if not executions:
            return
        overdue = {each.key for each in executions if each.overdue_since is not None}
        renewal = self._app.store.leases.renew([each.claim for each in executions], overdue=overdue)
        for key in renewal.lost:
            self._executor.interrupt(key, Cause.LOST)

    def _claims(self) -> Iterator[Claim]:
        __tracebackhide__ = True
        for claim in self._due.claims(lambda: self._over):
            try:
                self._budget.begin(claim)
            except RunawayTasks:
                self._app.store.leases.finalize([(claim, Release())])
                raise
            yield claim

    def _conclude(self, claim: Claim) -> None:
        __tracebackhide__ = True
        ended = self._inflight.ended.get_nowait()
        assert ended is not None, "only a worker that stops puts None"
        outcome, error = ended[1], self._executor.errors.pop(claim.key, None)
        raised = self._inflight.raised.pop(claim.key, None)
        transition = None
        if not self._crashes:
            self._reporter.conclude([claim])
            transition = self._due.settle(claim, outcome, raised)
        self._budget.end(claim, outcome)
        self._over = self._stops and isinstance(outcome, HandedOver)
        if isinstance(outcome, Block | Release):
            return
        (task,) = self._app.store.inspect.find([claim.task_id], queue=claim.queue)
        status = None if task is None else task.status
        self.ran.append(Ran(claim.type, claim.task_id, claim.attempt, status, error))
        if error is not None and not isinstance(error, OF_TASKS):
            raise error
        if self._raise_failures and status is not TaskStatus.CANCELLED and (failure := _failure(outcome, transition)):
            raise HandlerFailed(claim.task_id, claim.type, _story(claim, failure, transition)) from _trimmed(error)


def _failure(outcome: Outcome, transition: Transition | None) -> AttemptError | None:
    """The error, unless it is none in the eyes of a test: asking for another attempt is part of the plan."""
    match outcome:
        case Raised(error) | TimedOut(error) | Misfit(error):
            return error
        case AskedRetry(error) if isinstance(transition, DeadLetter):
            return error
        case _:
            return None


def _story(claim: Claim, error: AttemptError, transition: Transition | None) -> str:
    match transition:
        case Reschedule(_, delay_ms):
            then = f", to be tried again in {delay_ms / 1000:g} s"
        case DeadLetter(_, reason):
            then = f", for good ({reason})"
        case _:
            then = ""
    what = f"{error.type}: {error.message}".removesuffix(": ")
    return (
        f"{claim.type} failed in attempt {claim.attempt} of {claim.retry.max_attempts}{then}: {what} "
        f"(task {claim.task_id}; pass raise_failures=False to go on after failures)"
    )


def _trimmed(error: BaseException | None) -> BaseException | None:
    """The exception with a traceback that begins in the handler."""
    trace = None if error is None else error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("dtq_engine."):
        trace = trace.tb_next
    return error if error is None or trace is None else error.with_traceback(trace)

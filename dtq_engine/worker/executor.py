"""Running handlers: sync ones in threads, async ones on the event loop."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dtq_engine.model import AttemptError, Block, Claim, Raised, Release, TimedOut
from dtq_engine.registry import Registry
from dtq_engine.report import speaker
from dtq_engine.worker import callbacks, outcomes
from dtq_engine.worker.calls import Calls
from dtq_engine.worker.event_loop import EventLoop
from dtq_engine.worker.execution import Around, Cause, Execution, Key
from dtq_engine.worker.inflight import End, InFlight
from dtq_engine.worker.logs import facts, title
from dtq_engine.worker.pool import Pool

if TYPE_CHECKING:  # only a worker with tasks that run in processes imports it
    from dtq_engine.worker.children import Children, Ending


log = logging.getLogger("dtq.worker")


class Executor:
    """Starts claimed tasks, interrupts them, and sees to it that each ends here exactly once.

    `make_children` makes the `children`, for the first task that needs one.
    """

    def __init__(
        self,
        registry: Registry,
        inflight: InFlight,
        around: Around,
        make_children: "Callable[[Ending], Children] | None" = None,
    ) -> None:
        self._around = around
        self.event_loop = EventLoop()
        self._registry = registry
        self._inflight = inflight
        self._calls = Calls(registry, around.settings.result_max_bytes)
        self._pool = Pool(inflight.slots)
        # asyncio holds tasks weakly: those that outlive their execution are kept until they end.
        self._strays: set[Execution] = set()
        self._make_children = make_children
        self.children: Children | None = None

    def run(self, claims: Sequence[Claim]) -> None:
        """Start these tasks; their ends go to `inflight.ended`."""
        executions = list(self._admit(claims))
        self._inflight.add(executions)
        on_loop: list[Execution] = []
        in_threads: list[Execution] = []
        in_processes: list[Execution] = []
        for each in executions:
            (in_processes if each.handler.isolation else on_loop if each.handler.is_async else in_threads).append(each)
        if on_loop:
            self.event_loop.call(partial(self._begin, on_loop))
        if in_threads:
            self._pool.submit([partial(self._run_sync, each) for each in in_threads])
        if in_processes:
            self._run_in_processes(in_processes)

    def run_here(self, claim: Claim) -> Coroutine[Any, Any, None] | None:
        """Run a task in this very thread, a sync handler to its end; of an async one the coroutine to be awaited.

        For a process that does nothing else meanwhile.
        """
        for execution in self._admit([claim]):
            self._inflight.add([execution])
            if execution.handler.is_async:
                return self._run_async(execution)
            self._run_sync(execution)
        return None

    def interrupt(self, key: Key, cause: Cause) -> None:
        """Ask an execution to give way: an async handler is cancelled, a thread finds `ctx.cancelled` set.

        A handler with a process of its own is cancelled there, whether async or not, and killed if it does not end.
        """
        execution = self._inflight.find(key)
        if execution is not None and execution.interrupt(cause):
            self._tell(execution)

    def blocker(self) -> Execution | None:
        """The execution whose task the event loop is in at this moment, even if it has ended for us."""
        task = self.event_loop.current_task()
        candidates = (*self._inflight.running(), *list(self._strays))
        return next((each for each in candidates if each.task is task), None) if task is not None else None

    def time_out(self, execution: Execution) -> None:
        """End an async execution at its deadline, or one in a process; a thread, which cannot be, becomes overdue.

        An async one that never began, because the event loop is blocked, is given back.
        """
        lost = execution.cause is Cause.LOST
        execution.interrupt(Cause.TIMEOUT)
        if execution.handler.isolation is not None:
            self._tell(execution)
        elif execution.handler.is_async:
            self._strays.add(execution)
            self._give_way(execution, Cause.LOST if lost else Cause.TIMEOUT)
            self._tell(execution)
        else:
            execution.overdue_since = time.monotonic()

    def start(self) -> None:
        """Make the event loop ready."""
        self.event_loop.start()

    def announce_stop(self) -> None:
        """Let handlers know, if they look, that the worker shuts down."""
        self._around.stopping.set()
        if self.children is not None:
            self.children.announce_stop()

    def stop(self, patience_s: float = 0.0, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """Let go of threads and loop, and end the processes, which have `patience_s` if nobody is in a hurry."""
        if self.children is not None:
            self.children.stop(patience_s, is_hurried)
        self._pool.stop()
        self.event_loop.stop()

    def _admit(self, claims: Sequence[Claim]) -> Iterable[Execution]:
        now = time.monotonic()
        hooked = bool(self._registry.hooks.task)
        for claim in claims:
            handler = self._registry.get(claim.type)
            if handler is None:
                self._inflight.refuse(claim, Block(f"unknown_task_type:{claim.type}"))
                continue
            try:
                yield Execution(claim, handler, now, self._around, hooked=hooked)
            except (ArithmeticError, ValueError, TypeError) as error:
                # What damage has left in a record must not cost the tasks that were claimed with it.
                log.error("%s cannot be run: %s", title(claim), error, extra=facts(claim))
                failure = AttemptError(
                    "BadRecord", f"The record of the task cannot be used: {error}", attempt=claim.attempt
                )
                self._inflight.refuse(claim, Raised(failure, permanent=True))

    def _run_in_processes(self, executions: Sequence[Execution]) -> None:
        if self.children is None:
            # Not before: what no task uses shall cost nothing, not even its import.
            assert self._make_children is not None
            self.children = self._make_children(self._end)
        self.children.run(executions)

    def _run_sync(self, execution: Execution) -> None:
        speaker.set(execution)
        try:
            outcome = self._calls.run(execution)
        except BaseException as error:
            self._end(execution, outcomes.raised(execution, error), error)
        else:
            self._end(execution, outcome)

    async def _run_async(self, execution: Execution) -> None:
        execution.begun = True
        if execution.cause is not None:  # and so it may be given back by now
            self._give_way(execution, execution.cause)
            return
        speaker.set(execution)
        try:
            outcome = await self._calls.run_async(execution)
        except BaseException as error:
            self._end(execution, outcomes.raised(execution, error), error)
        else:
            self._end(execution, outcome)

    def _give_way(self, execution: Execution, cause: Cause) -> None:
        if execution.never_began and cause in {Cause.TIMEOUT, Cause.SHUTDOWN}:
            self._inflight.settle(execution, Release())
        else:
            self._end(execution, outcomes.gave_way(execution, cause))

    def _end(self, execution: Execution, outcome: End, error: BaseException | None = None) -> None:
        self._around.end_copy()
        if isinstance(outcome, Block | Release):
            self._inflight.settle(execution, outcome)
            return
        outcome = outcomes.verdict(execution, outcome)
        raised = error if self._registry.hooks.failure and isinstance(outcome, outcomes.OF_EXCEPTIONS) else None
        if isinstance(outcome, TimedOut):
            error = TimeoutError(outcome.error.message)
        retry = execution.handler.retry
        if error is not None and retry is not None and callbacks.may_decide(outcome, execution.claim):
            # In a thread, for the callback may block; the execution's slot is still taken, so there is a thread.
            if self._inflight.remove(execution):
                self._pool.submit([partial(self._ask, execution, (outcome, retry, error), raised)])
        else:
            self._inflight.settle(execution, outcome, raised)

    def _ask(self, execution: Execution, question: callbacks.Question, raised: BaseException | None) -> None:
        self._inflight.end(execution, callbacks.ask([question])[0], raised)

    def _begin(self, executions: Sequence[Execution]) -> None:
        create_task = asyncio.get_running_loop().create_task
        for execution in executions:
            if execution.cause is None:
                execution.task = create_task(self._run_async(execution))
            else:
                self._give_way(execution, execution.cause)
                self._strays.discard(execution)

    def _tell(self, execution: Execution) -> None:
        if execution.handler.isolation is not None:
            if self.children is not None:
                self.children.interrupt(execution)
        elif execution.handler.is_async:
            self.event_loop.call(partial(self._cancel, execution))

    def _cancel(self, execution: Execution) -> None:
        task, cause = execution.task, execution.cause
        if task is None or cause is None or task.done():
            self._strays.discard(execution)
            return
        self._strays.add(execution)
        task.add_done_callback(lambda _: self._strays.discard(execution))
        task.cancel(cause.value)
        if not execution.begun:
            # A task that is cancelled before its first step never runs any of its code.
            self._give_way(execution, cause)

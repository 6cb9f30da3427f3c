"""Running handlers: sync ones in threads, async ones on the event loop."""

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from dtq_engine import crash
from dtq_engine.errors import InvalidTask, NotJson, PermanentError
from dtq_engine.model import Block, Claim, Outcome, TimedOut
from dtq_engine.registry import Registry
from dtq_engine.worker import callbacks, outcomes
from dtq_engine.worker.event_loop import EventLoop
from dtq_engine.worker.execution import Cause, Execution, Key
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.pool import Pool


class BadResult(PermanentError):
    """Raised when a handler returned what JSON cannot hold."""


class Executor:
    """Starts claimed tasks, interrupts them, and sees to it that each ends here exactly once.

    `max_result_bytes` is the size up to which results are kept whole; `stopping` is set, for handlers that
    look at it, once the worker shuts down.
    """

    def __init__(self, registry: Registry, inflight: InFlight, max_result_bytes: int) -> None:
        self.stopping = threading.Event()
        self.event_loop = EventLoop()
        self._registry = registry
        self._inflight = inflight
        self._max_result_bytes = max_result_bytes
        self._pool = Pool(inflight.slots)
        # asyncio holds tasks weakly: those that outlive their execution are kept until they end.
        self._strays: set[object] = set()

    def run(self, claims: Sequence[Claim]) -> None:
        """Start these tasks; their ends go to `inflight.ended`."""
        executions = list(self._admit(claims))
        self._inflight.add(executions)
        on_loop = [each for each in executions if each.handler.is_async]
        in_threads = [partial(self._run_sync, each) for each in executions if not each.handler.is_async]
        if on_loop:
            self.event_loop.call(partial(self._begin, on_loop))
        if in_threads:
            self._pool.submit(in_threads)

    def interrupt(self, key: Key, cause: Cause) -> None:
        """Ask an execution to give way: an async handler is cancelled, a thread finds `ctx.cancelled` set."""
        execution = self._inflight.find(key)
        if execution is not None and execution.interrupt(cause):
            self._tell(execution)

    def time_out(self, execution: Execution) -> None:
        """End an async execution at its deadline; a thread, which cannot be ended, becomes overdue."""
        lost = execution.cause is Cause.LOST
        execution.interrupt(Cause.TIMEOUT)
        if execution.handler.is_async:
            cause = Cause.LOST if lost else Cause.TIMEOUT
            self._end(execution, outcomes.gave_way(execution, cause))
            self._tell(execution)
        else:
            execution.overdue_since = time.monotonic()

    def start(self) -> None:
        """Make the event loop ready."""
        self.event_loop.start()

    def stop(self) -> None:
        """Let go of threads and loop; nobody waits for handlers that still run."""
        self._pool.stop()
        self.event_loop.stop()

    def _admit(self, claims: Sequence[Claim]) -> Iterable[Execution]:
        now = time.monotonic()
        for claim in claims:
            handler = self._registry.get(claim.type)
            if handler is None:
                self._inflight.refuse(claim, Block(f"unknown_task_type:{claim.type}"))
            else:
                yield Execution(claim, handler, now, self.stopping)

    def _run_sync(self, execution: Execution) -> None:
        try:
            value = execution.handler.fn(*self._context(execution), **self._arguments(execution))
            outcome = self._returned(execution, value)
        except BaseException as error:
            self._end(execution, outcomes.raised(execution, error), error)
        else:
            self._end(execution, outcome)

    async def _run_async(self, execution: Execution) -> None:
        execution.begun = True
        try:
            value = await execution.handler.fn(*self._context(execution), **self._arguments(execution))
            outcome = self._returned(execution, value)
        except BaseException as error:
            self._end(execution, outcomes.raised(execution, error), error)
        else:
            self._end(execution, outcome)

    def _context(self, execution: Execution) -> tuple[Any, ...]:
        return () if execution.context is None else (execution.context,)

    def _arguments(self, execution: Execution) -> dict[str, Any]:
        crash.at("before-handler")
        try:
            return execution.handler.bind_payload(execution.claim.payload)
        except (InvalidTask, NotJson) as error:
            raise outcomes.BadPayload(f"the payload does not fit the task {execution.claim.type}: {error}") from error

    def _returned(self, execution: Execution, value: object) -> Outcome:
        try:
            encoded = execution.handler.encode_result(value)
        except NotJson as error:
            raise BadResult(f"the result of the task {execution.claim.type} is not JSON: {error}") from error
        return outcomes.returned(execution.claim, encoded, self._max_result_bytes)

    def _end(self, execution: Execution, outcome: Outcome, error: BaseException | None = None) -> None:
        outcome = outcomes.verdict(execution, outcome)
        if isinstance(outcome, TimedOut):
            error = TimeoutError(outcome.error.message)
        retry = execution.handler.retry
        if error is not None and retry is not None and callbacks.may_decide(outcome, execution.claim):
            # In a thread, for the callback may block; the execution's slot is still taken, so there is a thread.
            if self._inflight.remove(execution):
                self._pool.submit([partial(self._ask, execution, (outcome, retry, error))])
        else:
            self._inflight.settle(execution, outcome)

    def _ask(self, execution: Execution, question: callbacks.Question) -> None:
        self._inflight.ended.put((execution.claim, callbacks.ask([question])[0]))

    def _begin(self, executions: Sequence[Execution]) -> None:
        create_task = asyncio.get_running_loop().create_task
        for execution in executions:
            if execution.cause is None:
                execution.task = create_task(self._run_async(execution))
            else:
                self._end(execution, outcomes.gave_way(execution, execution.cause))

    def _tell(self, execution: Execution) -> None:
        if execution.handler.is_async:
            self.event_loop.call(partial(self._cancel, execution))

    def _cancel(self, execution: Execution) -> None:
        task, cause = execution.task, execution.cause
        if task is None or cause is None or task.done():
            return
        self._strays.add(task)
        task.add_done_callback(self._strays.discard)
        task.cancel(cause.value)
        if not execution.begun:
            # A task that is cancelled before its first step never runs any of its code.
            self._end(execution, outcomes.gave_way(execution, cause))

"""Running handlers in the thread that asks for it, as a worker would run them in threads of its own."""

import asyncio
import contextvars
import copy
import threading
from collections.abc import Callable, Iterable, Sequence

from dtq_engine.model import Claim
from dtq_engine.registry import Registry
from dtq_engine.testing.handler_loop import HandlerLoop
from dtq_engine.worker.event_loop import EventLoop
from dtq_engine.worker.execution import Around, Execution, Key
from dtq_engine.worker.executor import Executor
from dtq_engine.worker.inflight import End, InFlight
from dtq_engine.worker.pool import Job, Pool

LOOK_S = 0.05
UNWIND_S = 0.5


class InPlace(Executor):
    """The worker's executor without its threads; process tasks run here too, where mocks and debuggers reach them.

    `look` is called whenever an execution could learn that it is to give way. `errors` has the exception that
    each one ended with.
    """

    def __init__(self, registry: Registry, inflight: InFlight, around: Around, look: Callable[[], None]) -> None:
        super().__init__(registry, inflight, around)
        self.errors: dict[Key, BaseException | None] = {}
        self._look = look
        self._pool = _Here(1)
        self.event_loop: _ThisLoop = _ThisLoop()

    def execute(self, claim: Claim, loop: HandlerLoop) -> None:
        """Run a claimed task to its end; `loop` runs it if it is async."""
        for execution in self._admit([claim]):
            if execution.handler.is_async:
                loop.run(self._tend(execution))
            else:
                self._run_alone(execution)

    async def execute_async(self, claim: Claim) -> None:
        """Run a claimed task to its end, on the running loop if it is async."""
        for execution in self._admit([claim]):
            if execution.handler.is_async:
                await self._tend(execution)
            else:
                self._run_alone(execution)

    def _admit(self, claims: Sequence[Claim]) -> Iterable[Execution]:
        for execution in super()._admit(claims):
            execution.handler = copy.copy(execution.handler)
            execution.handler.isolation = None
            if execution.context is not None:
                execution.give_context(_Watched(self._look))
            self._inflight.add([execution])
            yield execution

    def _run_alone(self, execution: Execution) -> None:
        # In a context of its own, so that no task sees the context variables of the one before it.
        contextvars.copy_context().run(self._run_sync, execution)

    async def _tend(self, execution: Execution) -> None:
        """Start an async execution and look after it until it has ended here."""
        self.event_loop.adopt()
        self._begin([execution])
        task = execution.task
        try:
            while task is not None and self._inflight.find(execution.key) is not None:
                await asyncio.wait({task}, timeout=LOOK_S)
                self._look()
            if task is not None and not task.done():
                await asyncio.wait({task}, timeout=UNWIND_S)
        except asyncio.CancelledError:
            if task is not None:
                task.cancel()
            raise

    def _end(self, execution: Execution, outcome: End, error: BaseException | None = None) -> None:
        self._look()  # a deadline may have passed since the last time
        self.errors.setdefault(execution.key, error)
        super()._end(execution, outcome, error)


class _Watched(threading.Event):
    """What `ctx.cancelled` asks: it looks around before it answers, as no other thread would set it in time."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self._look = look

    def is_set(self) -> bool:
        self._look()
        return super().is_set()


class _Here(Pool):
    """A pool without threads."""

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job()


class _ThisLoop(EventLoop):
    """The event loop that runs at the moment, whoever started it."""

    def adopt(self) -> None:
        """Take the running loop for it."""
        self._loop = asyncio.get_running_loop()

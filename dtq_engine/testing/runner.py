"""Runs what is due and moves the time, for one test."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from dtq_engine.engine import Dtq
from dtq_engine.testing.budget import Budget
from dtq_engine.testing.clock import Clock
from dtq_engine.testing.due import WORKER, Due
from dtq_engine.testing.errors import KitMisused, RunawayTasks
from dtq_engine.testing.handler_loop import HandlerLoop
from dtq_engine.testing.run import Ran, Run, is_within_run
from dtq_engine.testing.worker_hooks import WorkerHooks

IDLE_MOVES = 50
"""How often the clock is moved in a row without anything that runs: nothing waits for a time by then."""


class Runner:
    """The one worker that a test has; it works only while it is told to.

    `limit` bounds the executions of a call, and `raises` says whether the first failure ends it with HandlerFailed.
    """

    def __init__(self, app: Dtq, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._loop = HandlerLoop()
        self._hooks = WorkerHooks(app, WORKER, self._loop)
        self._due = Due(app, clock, self._hooks.failures)
        self._runs: list[Run] = []
        self._budget: Budget | None = None

    @property
    def ticks(self) -> bool:
        """Whether periodic tasks run at their times."""
        return self._due.ticks

    @ticks.setter
    def ticks(self, value: bool) -> None:
        self._due.ticks = value

    def run(self, limit: int, *, raises: bool, crashes: bool = False, stops: bool = False) -> list[Ran]:
        """Run what is due until nothing is; if it `crashes` no outcome is recorded, if it `stops` it shuts down."""
        __tracebackhide__ = True
        return self._run(Budget(limit), raises=raises, crashes=crashes, stops=stops)

    async def run_async(self, limit: int, *, raises: bool) -> list[Ran]:
        """The same on the running event loop."""
        __tracebackhide__ = True
        with self._begin(Budget(limit), raises=raises) as run:
            await run.go_async()
        return run.ran

    def run_to_end(self, limit: int, *, raises: bool) -> list[Ran]:
        """Run, and move the time to what is due next, in turns, until nothing waits."""
        __tracebackhide__ = True
        budget, idle = Budget(limit), 0
        ran = self._run(budget, raises=raises)
        while (wait_ms := self._due.next_in_ms()) is not None:
            if idle >= IDLE_MOVES:
                raise RunawayTasks(
                    f"The clock was moved {idle} times and nothing ran, although tasks wait: {self._due.waiting()}. "
                    f"Cancel them, or have a handler for them."
                )
            self.move(wait_ms)
            more = self._run(budget, raises=raises)
            idle = 0 if more else idle + 1
            ran += more
        return ran

    def submitted(self, tasks: Iterable[tuple[str, str]]) -> None:
        """These tasks (id and type) were accepted, perhaps from a handler that runs."""
        if self._budget is not None:
            self._budget.submitted(tasks)

    def run_through(self, ms: int, limit: int, *, raises: bool) -> None:
        """Move the time, running each task as it becomes due."""
        __tracebackhide__ = True
        budget = Budget(limit)
        while (wait_ms := self._next_in_ms()) is not None and wait_ms < ms:
            step_ms = max(1, wait_ms)
            self.pass_through(step_ms, limit)
            ms -= step_ms
            self._run(budget, raises=raises)
        self.pass_through(ms, limit)
        self._run(budget, raises=raises)

    def pass_through(self, ms: int, limit: int) -> None:
        """Move the time, with up to `limit` ticks of periodic tasks on the way."""
        __tracebackhide__ = True
        passed_ms, ticks = 0, 0
        while (wait_ms := self._due.next_tick_in_ms()) is not None and passed_ms + wait_ms <= ms:
            if (ticks := ticks + 1) > limit:
                raise RunawayTasks(
                    f"{limit} times for periodic tasks have come, and there are more on the way: move the clock in "
                    f"smaller steps, set a higher limit, or keep them out by setting dtq.periodic to False."
                )
            self._clock.forward(self._app.store, wait_ms)
            passed_ms += wait_ms
        self._clock.forward(self._app.store, ms - passed_ms)
        self._aged(ms)

    def move(self, ms: int) -> None:
        """Move the time: what is due becomes available, and what runs may be late."""
        self._clock.forward(self._app.store, ms)
        self._aged(ms)

    def _aged(self, ms: int) -> None:
        self._clock.age(self._app.store, ms)
        for run in list(self._runs):
            run.beat()
        self._due.pass_time()

    def _next_in_ms(self) -> int | None:
        waits = (self._due.next_tick_in_ms(), self._due.next_in_ms())
        return min((each for each in waits if each is not None), default=None)

    def close(self) -> None:
        """End as a worker ends."""
        self._hooks.end()
        self._loop.close()

    def _run(self, budget: Budget, *, raises: bool, crashes: bool = False, stops: bool = False) -> list[Ran]:
        __tracebackhide__ = True
        with self._begin(budget, raises=raises, crashes=crashes, stops=stops) as run:
            run.go(self._loop)
        return run.ran

    @contextmanager
    def _begin(self, budget: Budget, *, raises: bool, crashes: bool = False, stops: bool = False) -> Generator[Run]:
        if is_within_run(self._clock):
            raise KitMisused("A task cannot run the others: what it submits runs after it.")
        self._hooks.begin()
        run = Run(self._app, self._due, self._clock, budget, raise_failures=raises, crashes=crashes, stops=stops)
        self._runs.append(run)
        self._budget = budget
        try:
            with run.open():
                yield run
        finally:
            self._budget = None
            self._runs.remove(run)

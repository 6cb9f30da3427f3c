"""What an app talks to within a test: the real store over a fake Redis, with an ear at the door."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtq_engine.config import Settings
from dtq_engine.connection import Connection
from dtq_engine.engine import Session
from dtq_engine.errors import ResultNotReady
from dtq_engine.model import NewTask, Receipt, Task, TaskStatus
from dtq_engine.store import Store
from dtq_engine.store.base import Base
from dtq_engine.store.intake import Intake, Parcel
from dtq_engine.store.workers import Workers
from dtq_engine.testing.clock import Clock
from dtq_engine.testing.run import is_within_run
from dtq_engine.waiters import Waiters

Accepted = Callable[[Sequence[NewTask], Sequence[Receipt]], None]


@dataclass(frozen=True, slots=True)
class TestSession(Session):
    """A session that tells `submitted` of each submit."""

    __test__: ClassVar[bool] = False

    on_submitted: Callable[[], None]

    def submitted(self) -> None:
        """A submit is over, its hooks included."""
        __tracebackhide__ = True
        self.on_submitted()


class TestStore(Store):
    """The store, telling `accepted` of what was submitted."""

    __test__ = False

    def __init__(self, connection: Connection, settings: Settings, clock: Clock, accepted: Accepted) -> None:
        super().__init__(connection, settings)
        self.intake = _Intake(self._base, self.workers, self, clock, accepted)


class _Intake(Intake):
    def __init__(self, base: Base, workers: Workers, store: Store, clock: Clock, accepted: Accepted) -> None:
        super().__init__(base, workers)
        self._store = store
        self._clock = clock
        self._accepted = accepted

    def submit(self, tasks: Sequence[NewTask]) -> list[Receipt]:
        self._clock.cover(self._store, {task.queue for task in tasks})
        receipts = super().submit(tasks)
        self._accepted(tasks, receipts)
        return receipts

    def send(self, parcel: Parcel) -> list[Receipt]:
        self._clock.cover(self._store, {parcel.queue})
        receipts = super().send(parcel)
        self._accepted(parcel.tasks, receipts)
        return receipts


class NoWaiting(Waiters):
    """Answers for tasks that have ended, and says of others what the test has to do first; it never waits."""

    def __init__(self, connection: Connection, store: Store, clock: Clock) -> None:
        super().__init__(connection, store)
        self._of = store
        self._clock = clock

    def wait(self, task_id: str, queue: str, timeout_s: float | None = None) -> Task | None:  # noqa: ARG002
        """The task, if it has ended. Raises ResultNotReady otherwise, whatever the timeout, and TaskNotFound."""
        task = self._of.inspect.get(task_id, queue=queue)
        if task.status.is_final:
            return task
        because = f" ({task.reason})" if task.reason else ""
        raise ResultNotReady(f"task {task.id} ({task.type}) is {task.status}{because}, {self._advice(task)}")

    def _advice(self, task: Task) -> str:
        if is_within_run(self._clock):
            return "and runs only after the task that waits for it here: have it submit what comes next instead."
        if task.status is TaskStatus.RUNNING:
            return "on a worker that is gone: advance the clock until its lease has expired, and call run_all()."
        if task.due_ms is not None and (wait_ms := task.due_ms - self._clock.now_ms(self._of)) > 0:
            return f"and due in {wait_ms / 1000:.3g} s: advance the clock, and call run_all()."
        return "and in a test nothing runs by itself: call run_all() first."

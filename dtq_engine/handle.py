"""A submitted task in its submitter's hands."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from dtq_engine import codec, validate
from dtq_engine.config import Settings
from dtq_engine.errors import ResultNotReady, ResultTruncated, TaskFailed
from dtq_engine.model import CancelOutcome, NewTask, SubmitOutcome, Task, TaskStatus, Tree
from dtq_engine.registry import Registry
from dtq_engine.store import Store
from dtq_engine.waiters import Waiters

R_co = TypeVar("R_co", covariant=True)


class App(Protocol):
    """What handles and submitters ask of the app they belong to."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        ...

    @property
    def registry(self) -> Registry:
        """The handlers, by which results are read."""
        ...

    @property
    def store(self) -> Store:
        """The data access layer."""
        ...

    @property
    def waiters(self) -> Waiters:
        """Where results are waited for."""
        ...

    def submit(self, task: NewTask, /) -> "Handle[Any]":
        """Submit a prepared task."""
        ...

    def submit_flow(self, tasks: Iterable[NewTask], /) -> "list[Handle[Any]]":
        """Submit the tasks of a workflow."""
        ...


class Handle(Generic[R_co]):
    """One task, by its id. It reads Redis anew with each call and keeps nothing."""

    __slots__ = ("_app", "_queue", "id", "outcome")

    def __init__(
        self, app: App, task_id: str, queue: str | None = None, *, outcome: SubmitOutcome | None = None
    ) -> None:
        self.id = task_id
        self.outcome = outcome
        """What submitting came to: NEW, or what made an earlier task stand for it; None without a submit."""
        self._app = app
        self._queue = queue

    @property
    def duplicate(self) -> bool:
        """Whether submitting found this task in place, by its id, its keys or a throttle; `outcome` says which."""
        return self.outcome not in {None, SubmitOutcome.NEW}

    @property
    def queue(self) -> str:
        """The queue the task is in. Raises TaskNotFound if it was not given and no queue has the task."""
        if self._queue is None:
            self._queue = self._app.store.inspect.get(self.id).queue
        return self._queue

    def status(self) -> TaskStatus:
        """Where the task is in its life. Raises TaskNotFound."""
        return self.info().status

    def info(self) -> Task:
        """All that is known of the task. Raises TaskNotFound."""
        task = self._app.store.inspect.get(self.id, queue=self._queue)
        self._queue = task.queue
        return task

    def result(self, timeout: float | timedelta | None = None) -> R_co:
        """What the handler returned, waiting for it up to `timeout` seconds; None waits for as long as it takes.

        Raises ResultNotReady at the timeout, TaskFailed if the task ended without a result (`status` says how),
        ResultTruncated if only a preview was kept, ResultMismatch if it is not of the type that the handler promises
        here, TaskNotFound if the record is gone, RedisUnavailable.
        """
        timeout_s = None if timeout is None else validate.duration_ms("timeout", timeout) / 1000
        task = self._app.waiters.wait(self.id, self.queue, timeout_s)
        if task is None:
            raise ResultNotReady(f"task {self.id} has not ended within {timeout_s:g} s: wait longer, or ask again.")
        return self._outcome(task)

    def cancel(self, reason: str = "") -> CancelOutcome:
        """Cancel the task: at once if it waits, by asking its handler if it runs. Raises TaskNotFound."""
        return self._app.store.control.cancel(self.id, queue=self._queue, reason=reason)

    def tree(self, limit: int = 200) -> Tree:
        """The task and all that are linked with it, as they are now, at most `limit`. Raises TaskNotFound."""
        return self._app.store.trees.tree(self.id, queue=self._queue, limit=limit)

    @property
    def children(self) -> "tuple[Handle[Any], ...]":
        """The tasks that wait, or waited, for this one. Raises TaskNotFound."""
        node = self.tree(limit=1).nodes[0]
        return tuple(Handle(self._app, each.id, each.queue) for each in node.children)

    def _outcome(self, task: Task) -> R_co:
        if task.status is not TaskStatus.SUCCEEDED:
            raise TaskFailed(task.id, task.status, _epitaph(task))
        if task.result_truncated:
            raise ResultTruncated(
                f"the result of task {task.id} has {task.result_size} bytes, and only its beginning was kept: "
                f"have the handler store it elsewhere and return where it is, or raise DTQ_RESULT_MAX_BYTES."
            )
        handler = self._app.registry.get(task.type)
        value: R_co = handler.decode_result(task.result) if handler else _plain(task.result)
        return value

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"


def _plain(result: bytes | None) -> Any:
    return None if result is None else codec.decode(result)


def _epitaph(task: Task) -> str:
    """How a task ended without a result, in a sentence."""
    how = f"task {task.id} ({task.type}) ended as {task.status}"
    reason = f" ({task.reason})" if task.reason else ""
    error = task.errors[-1] if task.errors else None
    last = f": {error.type}: {error.message}".removesuffix(": ") if error else "."
    return how + reason + last

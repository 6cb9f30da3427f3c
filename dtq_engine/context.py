"""What a handler may know of the execution that it is."""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from dtq_engine.model import Claim, Input


class TaskContext:
    """The execution a handler runs in: passed as its first parameter, if that is annotated with this class.

    A thread cannot be interrupted, so a long-running handler looks at `cancelled` now and then and returns
    or raises when it is set; an async handler is cancelled by itself.
    """

    __slots__ = ("_cancelled", "_claim", "_stopping")

    def __init__(self, *, claim: Claim, cancelled: threading.Event, stopping: threading.Event) -> None:
        self._claim = claim
        self._cancelled = cancelled
        self._stopping = stopping

    @property
    def task_id(self) -> str:
        """The task's id, the same in every attempt."""
        return self._claim.task_id

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._claim.queue

    @property
    def type(self) -> str:
        """The task type: the name its handler is registered under."""
        return self._claim.type

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the task has in all."""
        return self._claim.retry.max_attempts

    @property
    def fence(self) -> int:
        """A number that rises with each execution of the task, for systems that can refuse stale writers.

        After a failover of Redis it may repeat.
        """
        return self._claim.fence

    @property
    def headers(self) -> Mapping[str, str]:
        """What the submitter sent beside the arguments, such as a trace context."""
        return self._claim.headers

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What became of the tasks that this one waited for, in the order in which it names them."""
        return self._claim.inputs

    @property
    def worker_id(self) -> str:
        """The worker that runs this."""
        return self._claim.worker

    @property
    def deadline(self) -> datetime:
        """When the attempt times out, by Redis' clock."""
        return datetime.fromtimestamp(self._claim.deadline_ms / 1000, UTC)

    @property
    def cancelled(self) -> bool:
        """Whether to give up: someone cancelled the task, or it is past its deadline."""
        return self._cancelled.is_set()

    @property
    def stopping(self) -> bool:
        """Whether the worker is shutting down and waits for this execution, for a while."""
        return self._stopping.is_set()

    def cancel(self) -> None:
        """Ask the handler to give up: `cancelled` becomes True."""
        self._cancelled.set()

    def __repr__(self) -> str:
        return f"<TaskContext {self.type} {self.task_id} attempt {self.attempt}/{self.max_attempts}>"

"""Tasks as rows of a list."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from flask import request

from dtq_engine import Progress, Task, TaskStatus
from webapp.masking import hidden
from webapp.pages.story import in_line
from webapp.pages.text import blocked
from webapp.readers import sees_payloads
from webapp.state import web

MOST_PLACES = 200

CAN: Mapping[str, frozenset[TaskStatus]] = {
    "cancel": frozenset({status for status in TaskStatus if not status.is_final}),
    "run-now": frozenset({TaskStatus.PENDING, TaskStatus.RETRYING, TaskStatus.BLOCKED}),
    "reprioritise": frozenset({TaskStatus.QUEUED, TaskStatus.PENDING, TaskStatus.RETRYING, TaskStatus.BLOCKED}),
    "requeue": frozenset({status for status in TaskStatus if status.is_final} - {TaskStatus.SUCCEEDED}),
    "discard": frozenset({status for status in TaskStatus if status.is_final} - {TaskStatus.SUCCEEDED}),
}
"""What can be done to a task, by its status."""

Place = tuple[str, str]
"""The queue and the id of a task."""


class Found(Protocol):
    """What a search of the store finds."""

    @property
    def queue(self) -> str:
        """Where the task is."""
        ...

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    @property
    def task(self) -> Task | None:
        """The task; None if its record is gone or damaged."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One task in a list; without a `task` its record is gone or damaged. `moved`: it is not what is asked for."""

    queue: str
    task_id: str
    task: Task | None
    moved: bool = False

    @property
    def place(self) -> str:
        """What the row's checkbox stands for."""
        return f"{self.queue}/{self.task_id}"

    @property
    def can(self) -> str:
        """What can be done to the task; of one that cannot be read, that is not known, so that all may be tried."""
        return " ".join(verb for verb, statuses in CAN.items() if self.task is None or self.task.status in statuses)

    @property
    def url(self) -> str:
        """The page of the task; without Flask's help, whose `url_for` is half the time of a list."""
        return f"{request.script_root}/tasks/{quote(self.task_id)}?queue={quote(self.queue, safe='')}"

    @property
    def progress(self) -> Progress | None:
        """How far a task that runs says it is."""
        return None if self.task is None else said(self.task)

    @property
    def words(self) -> str:
        """What is wrong with the task; of one that runs without having failed, what it says."""
        return self.error or (self.progress.note if self.progress else "")

    @property
    def error(self) -> str:
        """How the latest attempt failed, if the task has not succeeded since; what blocks it, if something does."""
        task = self.task
        if task is not None and task.status is TaskStatus.BLOCKED and task.reason:
            return blocked(task.reason)
        if task is None or not task.errors or task.status is TaskStatus.SUCCEEDED:
            return (task and task.reason) or ""
        last = task.errors[-1]
        return f"{last.type}: {last.message}".removesuffix(": ")


def seen(task: Task) -> Task:
    """A task of a list as the reader may see it. Of types with secrets, errors are shown without what they say.

    A list does not read payloads, so that what to mask in an error is not known.
    """
    return task if sees_payloads() and not web().catalog.redacted(task.type) else hidden(task)


def said(task: Task) -> Progress | None:
    """The progress of the attempt that runs; what an earlier one said is no news of this one."""
    found = task.progress
    return found if task.status is TaskStatus.RUNNING and found and found.attempt == task.attempt else None


def time_of(task: Task) -> tuple[str, int | None]:
    """What there is to know about when, by the task's status: a word and an instant."""
    match task.status:
        case TaskStatus.BLOCKED if in_line(task):
            return "submitted", task.created_ms
        case TaskStatus.PENDING | TaskStatus.RETRYING | TaskStatus.BLOCKED:
            return "due", task.due_ms
        case TaskStatus.RUNNING:
            return "started", task.started_ms
        case TaskStatus.QUEUED:
            return "submitted", task.created_ms
        case _:
            return "ended", task.finished_ms


def row(found: Found, moved: bool = False) -> Row:
    """A row for the reader."""
    task = None if found.task is None else seen(found.task)
    return Row(found.queue, found.task_id, task, moved)


def places(written: Iterable[str]) -> Sequence[Place]:
    """Places as rows name them, at most 200; what is none is left out."""
    parts = (each.partition("/") for each in written)
    return [(queue, task_id) for queue, slash, task_id in parts if slash and queue and task_id][:MOST_PLACES]

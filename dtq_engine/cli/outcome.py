"""Waiting for a task and telling how it ended, for `dtq result` and `dtq submit --wait`."""

import math
from contextlib import suppress

import click
import msgspec

from dtq_engine.cli.console import Console
from dtq_engine.cli.text import error_line, status_words
from dtq_engine.cli.values import duration_s
from dtq_engine.engine import Dtq
from dtq_engine.errors import DtqError
from dtq_engine.harmless import safe, safe_json
from dtq_engine.model import Task, TaskStatus
from dtq_engine.shapes import task_shape

_ENDED = {
    TaskStatus.FAILED: "failed",
    TaskStatus.DEAD_LETTERED: "was dead-lettered",
    TaskStatus.CANCELLED: "was cancelled",
    TaskStatus.EXPIRED: "expired before it could start",
}

WAIT = "as long as it takes"
"""What `--wait` without a duration stands for."""


def as_wait(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Seconds to wait: infinite for a bare `--wait`, None without it."""
    try:
        return None if value is None else math.inf if value == WAIT else duration_s(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; if it is the task's id, write it before --wait.") from None


def wait_for(app: Dtq, task_id: str, *, queue: str | None, wait: float | None) -> Task:
    """The task, once it has ended or the time is up. Raises TaskNotFound."""
    task = app.store.inspect.get(task_id, queue=queue)
    if task.status.is_final or wait is None:
        return task
    with suppress(DtqError):  # whatever it is, the record tells it better
        app.handle(task_id, queue=task.queue).result(timeout=None if math.isinf(wait) else wait)
    return app.store.inspect.get(task_id, queue=task.queue)


def show_result(console: Console, task: Task) -> int:
    """Print the result, or say why there is none; the exit code."""
    if console.json:
        console.emit(task_shape(task))
    elif task.status is TaskStatus.SUCCEEDED and not task.result_truncated:
        console.say(safe_json(_pretty(task.result or b"null")))
    if problem := _problem(task):
        console.warn(problem)
    return 1 if problem else 0


def _pretty(value: bytes) -> str:
    """JSON as people like to read it; what is not JSON as it is."""
    try:
        return msgspec.json.format(value).decode()
    except msgspec.DecodeError:
        return safe(value.decode(errors="replace"))


def _problem(task: Task) -> str | None:
    name = f"task {safe(task.id)}"
    if not task.status.is_final:
        state = status_words(task.status)
        return f"{name} has not ended, it is {state}; wait for it: dtq result {safe(task.id)} --wait 60s"
    if task.status is TaskStatus.SUCCEEDED:
        return _too_large(task) if task.result_truncated else None
    error = task.errors[-1] if task.errors else None
    cause = f": {error_line(error)}" if error else ""
    tries = f" after {task.attempt} of {task.retry.max_attempts} attempts" if error else ""
    return f"{name} {_ENDED[task.status]}{tries}{cause}; all that is known: dtq status {safe(task.id)}"


def _too_large(task: Task) -> str:
    return (
        f"the result of task {safe(task.id)} has {task.result_size:,} bytes, more than DTQ_RESULT_MAX_BYTES, so that "
        f"only its beginning was kept: see it with dtq status {safe(task.id)}."
    )

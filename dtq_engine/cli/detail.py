"""One task in full, for people."""

from collections.abc import Iterator, Sequence

import click

from dtq_engine.cli.text import ago, clip, error_line, status_cell
from dtq_engine.harmless import safe
from dtq_engine.model import AttemptError, Progress, Relative, Task, TaskStatus, TreeNode
from dtq_engine.words import span

LABEL_WIDTH = 12
VALUE_COLUMNS = 400
NAMED_MOST = 5


def detail(task: Task, now_ms: int, node: TreeNode | None = None) -> str:
    """A task as lines of `label value`, its errors last, with the traceback of the last one; `node` has its links."""
    return "\n".join([*_head(task), *_body(task, now_ms), *_links(node), *_ending(task)])


def _head(task: Task) -> Iterator[str]:
    cell = status_cell(task.status)
    reason = f"  ({safe(task.reason)})" if task.reason else ""
    yield f"{click.style(safe(task.id), bold=True)}  {safe(task.type)}"
    yield _field("status", click.style(cell.text, fg=cell.colour, dim=cell.dim or None) + reason)


def _body(task: Task, now_ms: int) -> Iterator[str]:
    yield _field("queue", f"{safe(task.queue)}, priority {task.priority}")
    yield _field("attempt", f"{task.attempt} of {task.retry.max_attempts}" + _earlier(task))
    yield _field("created", ago(task.created_ms, now_ms))
    if task.due_ms is not None and not task.status.is_final and task.due_ms > now_ms:
        yield _field("due", ago(task.due_ms, now_ms))
    if task.started_ms is not None:
        waited = f", {span(task.wait_ms)} after it was created" if task.wait_ms is not None else ""
        yield _field("started", ago(task.started_ms, now_ms) + waited)
    if task.finished_ms is not None:
        ran = f", the last attempt ran {span(task.run_ms)}" if task.run_ms is not None else ""
        yield _field("finished", ago(task.finished_ms, now_ms) + ran)
    if task.progress is not None:
        yield _field("progress", progress_line(task.progress, now_ms))
    if task.worker:
        yield _field("worker", safe(task.worker))
    if task.cancel_requested and not task.status.is_final:
        yield _field("cancel", "requested; its worker has been told")
    if task.idempotency_key:
        yield _field("key", safe(task.idempotency_key))


def _links(node: TreeNode | None) -> Iterator[str]:
    if node is not None and node.parents:
        yield _field("waits for", _names(node.parents))
    if node is not None and node.children:
        yield _field("followed by", _names(node.children))


def _names(relatives: Sequence[Relative]) -> str:
    more = f" and {len(relatives) - NAMED_MOST} more" if len(relatives) > NAMED_MOST else ""
    return ", ".join(safe(each.id) for each in relatives[:NAMED_MOST]) + more


def progress_line(progress: Progress, now_ms: int) -> str:
    """`30 of 60 (50 %), reading, in attempt 1, 2s ago`."""
    known = "" if progress.total is None else f" of {progress.total:,.15g}"
    percent = "" if progress.percent is None else f" ({progress.percent:.0f} %)"
    note = f", {safe(progress.note)}" if progress.note else ""
    return f"{progress.done:,.15g}{known}{percent}{note}, in attempt {progress.attempt}, {ago(progress.at_ms, now_ms)}"


def _earlier(task: Task) -> str:
    return f" (and {task.previous_attempts} before it was requeued)" if task.previous_attempts else ""


def _ending(task: Task) -> Iterator[str]:
    yield _field("payload", _json(task.payload))
    if task.result is not None:
        cut = f" … ({task.result_size:,} bytes, only the beginning was kept)" if task.result_truncated else ""
        yield _field("result", _json(task.result) + cut)
    for error in task.errors:
        yield _error(error)
    if task.errors and task.status is not TaskStatus.SUCCEEDED:
        yield from _traceback(task.errors[-1])


def _error(error: AttemptError) -> str:
    where = f" on {safe(error.worker)}" if error.worker else ""
    took = f" after {span(error.ended_ms - error.started_ms)}" if error.started_ms and error.ended_ms else ""
    return _field(f"error {error.attempt}", click.style(error_line(error), fg="red") + where + took)


def _traceback(error: AttemptError) -> Iterator[str]:
    for line in error.traceback.rstrip().split("\n") if error.traceback else []:
        yield " " * LABEL_WIDTH + click.style(safe(line), dim=True)


def _field(label: str, value: str) -> str:
    return f"{click.style(label.ljust(LABEL_WIDTH), dim=True)}{value}"


def _json(value: bytes) -> str:
    return clip(safe(value.decode(errors="replace")), VALUE_COLUMNS)

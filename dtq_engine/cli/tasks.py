"""`dtq status`, `dtq result`, `dtq list`, `dtq cancel`: looking at tasks and stopping them."""

from collections.abc import Sequence
from dataclasses import replace

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.detail import detail
from dtq_engine.cli.options import as_id, as_ids, as_queue, as_type, common
from dtq_engine.cli.outcome import WAIT, as_wait, show_result, wait_for
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, ago, error_line, status_cell
from dtq_engine.cli.verbs import actor
from dtq_engine.cursors import packed, unpacked
from dtq_engine.errors import InvalidTransition, TaskNotFound
from dtq_engine.harmless import safe
from dtq_engine.model import CancelOutcome, Page, Task, TaskStatus, TreeNode
from dtq_engine.shapes import TasksShape, VerbShape, VerbsShape, cancel_shape, error_shape, task_shape
from dtq_engine.store import Store
from dtq_engine.words import span

HEADERS = (
    Column("ID", least=26),
    Column("TYPE", least=12),
    Column("QUEUE", spare=4, least=8),
    Column("STATUS"),
    Column("PRIO", spare=1),
    Column("ATTEMPT", spare=3),
    Column("CREATED", spare=5),
    Column("RAN", spare=2),
    Column("LAST ERROR", spare=6, least=10),
)

_CANCELLED = {
    CancelOutcome.CANCELLED: "cancelled",
    CancelOutcome.REQUESTED: "is running; its worker was told to stop it",
    CancelOutcome.FINISHED: "had ended before",
}


@click.command(short_help="Show what is known of tasks.")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True, callback=as_ids)
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@common
@click.pass_obj
def status(console: Console, task_ids: Sequence[str], queue: str | None) -> int:
    """Show what is known of tasks; one in full, several as a table.

    \b
    Example:
      dtq status 01K8ME0V9VJ3X0D1M2Q6ZB7C5F
    """
    store = console.app().store
    tasks = store.inspect.find(task_ids, queue=queue)
    found = [task for task in tasks if task is not None]
    missing = [task_id for task_id, task in zip(task_ids, tasks, strict=True) if task is None]
    if console.json:
        console.emit(TasksShape([task_shape(task) for task in found], missing=missing))
        return 1 if missing else 0
    if len(found) == 1:
        console.say(detail(found[0], store.now_ms(), _node_of(store, found[0])))
    elif found:
        show_tasks(console, found, store.now_ms())
    for task_id in missing:
        where = f" in queue {queue}" if queue else ""
        console.warn(f"There is no task {task_id}{where}: check the id; finished tasks are kept only for a time.")
    return 1 if missing else 0


def _node_of(store: Store, task: Task) -> TreeNode | None:
    return store.trees.tree(task.id, queue=task.queue, limit=1).nodes[0] if task.is_linked else None


@click.command(short_help="Print the result of a task.")
@click.argument("task_id", metavar="ID", callback=as_id)
@click.option("--wait", metavar="[DURATION]", is_flag=False, flag_value=WAIT, callback=as_wait,
              help="Wait for the task to end; without DURATION as long as it takes.")  # fmt: skip
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@common
@click.pass_obj
def result(console: Console, task_id: str, wait: float | None, queue: str | None) -> int:
    """Print the result of a task, which is a JSON value.

    A task that did not succeed is told on stderr, with exit code 1.

    \b
    Example:
      dtq result 01K8ME0V9VJ3X0D1M2Q6ZB7C5F --wait 30s | jq .words
    """
    task = wait_for(console.app(), task_id, queue=queue, wait=wait)
    return show_result(console, task)


@click.command("list", short_help="List tasks, newest first.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only tasks of this queue.")
@click.option("--status", type=click.Choice([str(each) for each in TaskStatus]), metavar="STATUS",
              help=f"Only tasks in this status: {', '.join(TaskStatus)}.")  # fmt: skip
@click.option("--type", "type_", metavar="TYPE", callback=as_type, help="Only tasks of this type.")
@click.option(
    "--limit",
    type=click.IntRange(1, 200),
    default=50,
    metavar="NUMBER",
    help="At most this many, 50 by default and 200 at once.",
)
@click.option("--cursor", metavar="TEXT", help="Go on where a listing ended.")
@common
@click.pass_obj
def list_tasks(
    console: Console, *, queue: str | None, status: str | None, type_: str | None, limit: int, cursor: str | None
) -> int:
    """List tasks, newest first.

    \b
    Example:
      dtq list --status running
      dtq list --type reports.build --json | jq -r '.tasks[].id'
    """
    store = console.app().store
    wanted = None if status is None else TaskStatus(status)
    page = store.inspect.tasks(queue=queue, status=wanted, type=type_, limit=limit, cursor=unpacked(cursor))
    page = replace(page, cursor=packed(page.cursor))
    if console.json:
        console.emit(TasksShape([task_shape(task) for task in page.items], page.cursor, complete=page.cursor is None))
    elif page.items:
        show_tasks(console, page.items, store.now_ms())
    _tell_the_rest(console, page)
    return 0


def _tell_the_rest(console: Console, page: Page[Task]) -> None:
    if console.json:
        return
    if page.cursor is None:
        if not page.items:
            console.note("No task matches.")
    elif page.items:
        console.note(f"There may be more: repeat the command with --cursor {safe(page.cursor)}")
    else:
        console.note(f"None found so far among the tasks looked at; go on with --cursor {safe(page.cursor)}")


def show_tasks(console: Console, tasks: Sequence[Task], now_ms: int) -> None:
    """Print tasks as a table."""
    console.show_table(HEADERS, [_row(task, now_ms) for task in tasks])


def _row(task: Task, now_ms: int) -> Sequence[Cell]:
    error = task.errors[-1] if task.errors and task.status is not TaskStatus.SUCCEEDED else None
    return (
        Cell(safe(task.id)),
        Cell(safe(task.type)),
        Cell(safe(task.queue)),
        status_cell(task.status),
        Cell(str(task.priority), right=True),
        Cell(f"{task.attempt}/{task.retry.max_attempts}", right=True),
        Cell(ago(task.created_ms, now_ms), right=True),
        Cell(span(task.run_ms), dim=task.run_ms is None, right=True),
        Cell(error_line(error) if error else "", dim=True),
    )


@click.command(short_help="Cancel tasks.")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True, callback=as_ids)
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@click.option("--reason", default="", help="Kept with the task.")
@common
@click.pass_obj
def cancel(console: Console, task_ids: Sequence[str], queue: str | None, reason: str) -> int:
    """Cancel tasks: what waits ends at once, what runs is told to stop.

    Exit code 1 if one of them was unknown or had ended before.

    \b
    Example:
      dtq cancel 01K8ME0V9VJ3X0D1M2Q6ZB7C5F --reason "ordered twice"
    """
    store = console.app().store
    outcomes = [_cancel(console, store, task_id, queue, reason) for task_id in task_ids]
    if console.json:
        console.emit(VerbsShape(outcomes))
    failed = any(each.error is not None or each.outcome == CancelOutcome.FINISHED for each in outcomes)
    return 1 if failed else 0


def _cancel(console: Console, store: Store, task_id: str, queue: str | None, reason: str) -> VerbShape:
    try:
        outcome = store.control.cancel(task_id, queue=queue, reason=reason, actor=actor())
    except (TaskNotFound, InvalidTransition) as error:
        shape = error_shape(error)
        console.warn(safe(shape.message))
        return VerbShape(task_id, error=shape)
    if not console.json:
        console.say(f"{safe(task_id)}  {_CANCELLED[outcome]}")
    return cancel_shape(task_id, outcome)

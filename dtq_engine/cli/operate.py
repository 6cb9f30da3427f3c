"""`dtq requeue`, `dtq run-now`, `dtq reprioritise`: giving tasks another life, another time, another rank."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import as_ids, as_queue, as_type, common
from dtq_engine.cli.text import error_line
from dtq_engine.cli.verbs import Place, Verb, actor, apply, confirmed
from dtq_engine.model import REQUEUEABLE, Task, TaskStatus
from dtq_engine.store import Store
from dtq_engine.words import plural

PAGE = 200
ENDED = sorted(str(each) for each in REQUEUEABLE)


@dataclass(frozen=True, slots=True)
class Ended:
    """Which ended tasks are meant: in these statuses, of a type and a queue, whose last error contains a text."""

    statuses: Sequence[str]
    type: str | None
    queue: str | None
    error: str | None

    def places(self, store: Store) -> Iterator[Place]:
        """Where they are, newest first within a status."""
        for status in self.statuses or [TaskStatus.DEAD_LETTERED]:
            for task in _every(store, self.queue, TaskStatus(status), self.type):
                if self.error is None or (task.errors and self.error in error_line(task.errors[-1])):
                    yield task.id, task.queue


def _every(store: Store, queue: str | None, status: TaskStatus, type_: str | None) -> Iterator[Task]:
    cursor: str | None = None
    while True:
        page = store.inspect.tasks(queue=queue, status=status, type=type_, limit=PAGE, cursor=cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return


@click.command(short_help="Give ended tasks a new life, by id or by filter.")
@click.argument("task_ids", metavar="[ID]...", nargs=-1, callback=as_ids)
@click.option("--all", "everything", is_flag=True, help="All dead letters (of --queue), or all in --status.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(ENDED), metavar="STATUS",
              help=f"Tasks in this status, dead_lettered by default: {', '.join(ENDED)}; may be repeated.")  # fmt: skip
@click.option("--type", "type_", metavar="TYPE", callback=as_type, help="Only tasks of this type.")
@click.option("--error", metavar="TEXT", help="Only tasks whose last error contains this.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only tasks of this queue.")
@click.option("--reason", default="", help="Kept in the audit log.")
@click.option("--drop-steps", is_flag=True, help="Begin anew: forget the steps and checkpoints that were saved.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
@click.pass_obj
def requeue(
    console: Console,
    *,
    task_ids: Sequence[str],
    everything: bool,
    statuses: Sequence[str],
    type_: str | None,
    error: str | None,
    queue: str | None,
    reason: str,
    drop_steps: bool,
    yes: bool,
) -> int:
    """Give tasks that ended without success a new life, with all their attempts: by id, or all that match.

    Asks before it requeues by a filter. With --json a line for each task.

    \b
    Example:
      dtq requeue 01K8ME0V9VJ3X0D1M2Q6ZB7C5F
      dtq requeue --type reports.build --error "connection refused" --reason "database is back"
      dtq requeue --status cancelled --status expired --queue mail --yes
    """
    by_filter = everything or bool(statuses) or type_ is not None or error is not None
    if by_filter == bool(task_ids):
        raise click.UsageError("Give the ids of tasks, or a filter: --status, --type, --error or --all; but not both.")
    store = console.app().store
    verb = Verb("requeue", "requeued", lambda task_id, where: store.control.requeue(
        task_id, queue=where, actor=actor(), reason=reason, keep_steps=not drop_steps))  # fmt: skip
    if task_ids:
        return apply(console, verb, [(task_id, queue) for task_id in task_ids])
    chosen = list(Ended(statuses, type_, queue, error).places(store))
    if not chosen:
        console.note("No task matches.")
        return 0
    if not yes and not confirmed(console, f"Requeue {plural(len(chosen), 'task')}?"):
        return 1
    return apply(console, verb, chosen)


@click.command("run-now", short_help="Let delayed tasks start at once.")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True, callback=as_ids)
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@click.option("--reason", default="", help="Kept in the audit log.")
@common
@click.pass_obj
def run_now(console: Console, task_ids: Sequence[str], queue: str | None, reason: str) -> int:
    """Let tasks start at once that wait for their time: delayed, to be retried, or blocked.

    With --json a line for each task.

    \b
    Example:
      dtq run-now 01K8ME0V9VJ3X0D1M2Q6ZB7C5F
    """
    store = console.app().store
    verb = Verb("run now", "queued", lambda task_id, where: store.control.run_now(
        task_id, queue=where, actor=actor(), reason=reason))  # fmt: skip
    return apply(console, verb, [(task_id, queue) for task_id in task_ids])


@click.command(short_help="Give waiting tasks another priority.")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True, callback=as_ids)
@click.option("--priority", type=click.IntRange(0, 9), required=True, metavar="0-9", help="9 is the most urgent.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@click.option("--reason", default="", help="Kept in the audit log.")
@common
@click.pass_obj
def reprioritise(console: Console, task_ids: Sequence[str], priority: int, queue: str | None, reason: str) -> int:
    """Give tasks that have not started another priority; among those that have it they come last.

    With --json a line for each task.

    \b
    Example:
      dtq reprioritise 01K8ME0V9VJ3X0D1M2Q6ZB7C5F --priority 9
    """
    store = console.app().store
    verb = Verb("reprioritise", "moved", lambda task_id, where: store.control.reprioritise(
        task_id, priority, queue=where, actor=actor(), reason=reason))  # fmt: skip
    return apply(console, verb, [(task_id, queue) for task_id in task_ids])

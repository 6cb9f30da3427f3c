"""`dtq dlq list|requeue|discard`: what became of tasks that failed for good, and giving them another life."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import CONTEXT, as_ids, as_queue, as_type, common
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, ago
from dtq_engine.cli.verbs import Place, Verb, actor, apply, confirmed
from dtq_engine.harmless import safe
from dtq_engine.model import DeadLetterEntry
from dtq_engine.shapes import DeadLettersShape, dead_letter_shape
from dtq_engine.store import Store
from dtq_engine.words import plural

HEADERS = (
    Column("ID", least=26),
    Column("TYPE", least=12),
    Column("QUEUE", spare=2, least=8),
    Column("DIED", spare=3),
    Column("ATTEMPTS", spare=1),
    Column("REASON", spare=4, least=8),
    Column("ERROR", least=16),
)
PAGE = 200


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters a verb is for: these ids, or all (of a queue, of a type)."""

    task_ids: Sequence[str]
    queue: str | None
    type: str | None
    everything: bool

    def check(self) -> None:
        """Raise a usage error unless it is clear what is meant."""
        in_bulk = self.everything or self.type is not None
        if self.task_ids and in_bulk:
            raise click.UsageError("Give ids, or --all or --type, but not both.")
        if not self.task_ids and not in_bulk:
            raise click.UsageError("Give the ids of dead letters, or --type, or --all.")

    def find(self, store: Store) -> list[Place]:
        """The ids meant, each with its queue where that is known."""
        if self.task_ids:
            return [(task_id, self.queue) for task_id in self.task_ids]
        return [
            (entry.task_id, entry.queue)
            for entry in every_dead_letter(store, self.queue)
            if self.type is None or entry.type == self.type
        ]


def every_dead_letter(store: Store, queue: str | None) -> Iterator[DeadLetterEntry]:
    """All dead letters, newest first, a page at a time."""
    cursor: str | None = None
    while True:
        page = store.inspect.dead_letters(queue=queue, limit=PAGE, cursor=cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return


@click.group(context_settings=CONTEXT, short_help="List, requeue or discard dead letters.")
def dlq() -> None:
    """Dead letters: tasks that failed for good; list, requeue or discard them."""


@dlq.command("list", short_help="List dead letters.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only dead letters of this queue.")
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
def list_dead_letters(console: Console, queue: str | None, limit: int, cursor: str | None) -> int:
    """List dead letters, newest first.

    \b
    Example:
      dtq dlq list --queue reports
    """
    store = console.app().store
    damaged = set[str]()
    page = store.inspect.dead_letters(queue=queue, limit=limit, cursor=cursor, damaged=damaged)
    for key in sorted(damaged):
        console.note(f"{safe(key)} holds no dead letters, so that some are missing here: run dtq doctor.")
    if console.json:
        console.emit(DeadLettersShape([dead_letter_shape(entry) for entry in page.items], page.cursor))
        return 0
    if page.items:
        now_ms = store.now_ms()
        console.show_table(HEADERS, [_row(entry, now_ms) for entry in page.items])
        _tell_more(console, page.cursor)
    else:
        console.note("There are no dead letters.")
    return 0


def _tell_more(console: Console, cursor: str | None) -> None:
    if cursor is not None:
        console.note(f"There is more: repeat the command with --cursor {safe(cursor)}")
    console.note("See one in full: dtq status ID. Give it another life: dtq dlq requeue ID.")


def _row(entry: DeadLetterEntry, now_ms: int) -> Sequence[Cell]:
    return (
        Cell(safe(entry.task_id)),
        Cell(safe(entry.type)),
        Cell(safe(entry.queue)),
        Cell(ago(entry.died_ms, now_ms), right=True),
        Cell(str(entry.attempts), right=True),
        Cell(safe(entry.reason)),
        Cell(safe(entry.error.removesuffix(": ")), colour="red"),
    )


@dlq.command(short_help="Give dead tasks a new life.")
@click.argument("task_ids", metavar="[ID]...", nargs=-1, callback=as_ids)
@click.option("--all", "everything", is_flag=True, help="All dead letters (of --queue).")
@click.option("--type", "type_", metavar="TYPE", callback=as_type, help="All dead letters of this type (and --queue).")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only of this queue.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
@click.pass_obj
def requeue(
    console: Console, *, task_ids: Sequence[str], everything: bool, type_: str | None, queue: str | None, yes: bool
) -> int:
    """Give dead (also failed or cancelled) tasks a new life, with all their attempts.

    With --json a line for each task.

    \b
    Example:
      dtq dlq requeue 01K8ME0V9VJ3X0D1M2Q6ZB7C5F
      dtq dlq requeue --type reports.build --yes
    """
    store = console.app().store

    def call(task_id: str, queue: str | None) -> None:
        store.control.requeue(task_id, queue=queue, actor=actor())

    verb = Verb("requeue", "requeued", call)
    return _apply(console, store, Selection(task_ids, queue, type_, everything), verb, yes=yes)


@dlq.command(short_help="Remove dead letters for good.")
@click.argument("task_ids", metavar="[ID]...", nargs=-1, callback=as_ids)
@click.option("--all", "everything", is_flag=True, help="All dead letters (of --queue).")
@click.option("--type", "type_", metavar="TYPE", callback=as_type, help="All dead letters of this type (and --queue).")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only of this queue.")
@click.option("--reason", default="", help="Kept in the audit log.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
@click.pass_obj
def discard(
    console: Console,
    *,
    task_ids: Sequence[str],
    everything: bool,
    type_: str | None,
    queue: str | None,
    reason: str,
    yes: bool,
) -> int:
    """Remove dead letters for good, with all that is known of their tasks.

    With --json a line for each task.

    \b
    Example:
      dtq dlq discard --type reports.build --queue reports
    """
    store = console.app().store

    def call(task_id: str, queue: str | None) -> None:
        store.control.discard(task_id, queue=queue, actor=actor(), reason=reason)

    verb = Verb("discard", "discarded", call)
    return _apply(console, store, Selection(task_ids, queue, type_, everything), verb, yes=yes)


def _apply(console: Console, store: Store, selection: Selection, verb: Verb, *, yes: bool) -> int:
    selection.check()
    chosen = selection.find(store)
    if not chosen:
        console.note("There are no such dead letters.")
        return 0
    ask = not yes and (not selection.task_ids or verb.name == "discard")
    if ask and not confirmed(console, f"{verb.name.capitalize()} {plural(len(chosen), 'dead letter')}?"):
        return 1
    return apply(console, verb, chosen)

"""`dtq queues`, `dtq pause`, `dtq resume`, `dtq purge`: the queues at a glance, holding one, and emptying it."""

from collections import Counter
from collections.abc import Sequence

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import as_duration, as_queue, as_queues, common
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, number_cell
from dtq_engine.cli.verbs import actor, typed
from dtq_engine.harmless import safe
from dtq_engine.model import QueueStats
from dtq_engine.operator_shapes import PurgeShape
from dtq_engine.shapes import PauseShape, QueuesShape, queue_shape
from dtq_engine.store import Store
from dtq_engine.validate import TEN_YEARS_MS
from dtq_engine.words import nearest, plural, span

HEADERS = (
    Column("QUEUE", least=10),
    Column("WAITING"),
    Column("OLDEST", spare=5),
    Column("RUNNING", spare=6),
    Column("DELAYED", spare=2),
    Column("RETRYING", spare=3),
    Column("BLOCKED", spare=4),
    Column("SUCCEEDED", spare=1),
    Column("DEAD"),
    Column("WORKERS", spare=7),
    Column("", least=19),
)


class QueueNotFound(click.ClickException):
    """Raised when a queue is asked for that no task was ever in: an answer, not a wrong usage."""


@click.command(short_help="Show the queues and what is in them.")
@click.argument("names", metavar="[QUEUE]...", nargs=-1, callback=as_queues)
@common
@click.pass_obj
def queues(console: Console, names: Sequence[str]) -> int:
    """Show the queues: what waits, runs and has ended, and how many workers serve them.

    \b
    Example:
      dtq queues
      dtq queues --json | jq '.queues[] | select(.waiting > 1000) | .queue'
    """
    store = console.app().store
    known = store.inspect.queues()
    for name in names:
        must_be_known(name, known)
    workers = live_workers(store)
    stats = [store.inspect.queue(name) for name in names or sorted(known)]
    if console.json:
        console.emit(QueuesShape([queue_shape(each, workers[each.queue]) for each in stats]))
    elif stats:
        now_ms = store.now_ms()
        console.show_table(HEADERS, [_row(each, workers[each.queue], now_ms) for each in stats])
    else:
        console.note("There is no queue yet; the first task submitted makes one: dtq submit TYPE.")
    return 0


@click.command(short_help="Let no further task of a queue start.")
@click.argument("queue", callback=as_queue)
@click.option("--reason", default="", help="Shown to whoever looks at the queue.")
@click.option("--for", "seconds", metavar="DURATION", callback=as_duration, help="Resume by itself after this time.")
@common
@click.pass_obj
def pause(console: Console, queue: str, reason: str, seconds: float | None) -> int:
    """Let no further task of QUEUE start; what runs goes on, and submitting is still possible.

    \b
    Example:
      dtq pause reports --reason "database upgrade" --for 30m
    """
    store = console.app().store
    must_be_known(queue, store.inspect.queues())
    for_ms = None if seconds is None else round(seconds * 1000)
    if for_ms is not None and not 1 <= for_ms <= TEN_YEARS_MS:
        raise click.BadParameter("use more than no time and at most ten years.", param_hint="--for")
    store.control.pause(queue, reason=reason, actor=actor(), for_ms=for_ms)
    if console.json:
        console.emit(PauseShape(queue, paused=True))
    else:
        how_long = f" for {span(for_ms)}" if for_ms is not None else f"; go on with: dtq resume {queue}"
        console.say(f"{safe(queue)} is paused{how_long}")
    return 0


@click.command(short_help="Let the tasks of a queue start again.")
@click.argument("queue", callback=as_queue)
@click.option("--reason", default="", help="Kept in the audit log.")
@common
@click.pass_obj
def resume(console: Console, queue: str, reason: str) -> int:
    """Let the tasks of QUEUE start again.

    \b
    Example:
      dtq resume reports --reason "the upgrade is done"
    """
    store = console.app().store
    must_be_known(queue, store.inspect.queues())
    store.control.resume(queue, actor=actor(), reason=reason)
    if console.json:
        console.emit(PauseShape(queue, paused=False))
    else:
        console.say(f"{safe(queue)} goes on")
    return 0


@click.command(short_help="Cancel all that waits in a queue.")
@click.argument("queue", callback=as_queue)
@click.option(
    "--delayed", is_flag=True, help="Also what waits for its time: delayed, to be retried, blocked (as by a limit)."
)
@click.option("--reason", default="", help="Kept with the tasks and in the audit log.")
@click.option("--yes", is_flag=True, help="Do not ask for the queue's name.")
@common
@click.pass_obj
def purge(console: Console, queue: str, *, delayed: bool, reason: str, yes: bool) -> int:
    """Cancel all that waits in QUEUE now; what runs goes on, and what comes meanwhile stays.

    Asks for the queue's name, to be sure that it is this one. Cancelled tasks can be requeued for as long as they
    are kept.

    \b
    Example:
      dtq purge reports --reason "sent twice"
    """
    store = console.app().store
    must_be_known(queue, store.inspect.queues())
    if not yes:
        stats = store.inspect.queue(queue)
        waiting = stats.waiting + (_later(stats) if delayed else 0)
        question = f"This cancels {plural(waiting, 'task')}. Type the name of the queue, {queue}, to go on"
        if not typed(console, question, queue):
            return 1
    cancelled = store.control.purge(queue, delayed=delayed, actor=actor(), reason=reason)
    if console.json:
        console.emit(PurgeShape(queue, cancelled))
    else:
        console.say(f"Cancelled {plural(cancelled, 'task')} of {safe(queue)}.")
        if stay := 0 if delayed else _later(store.inspect.queue(queue)):
            console.note(f"It still has {plural(stay, 'task')} delayed, to be retried or blocked: see --delayed.")
    return 0


def _later(stats: QueueStats) -> int:
    """How many tasks wait for their time, for a retry, for a slot or for others."""
    return stats.delayed + stats.retrying + stats.blocked


def live_workers(store: Store) -> Counter[str]:
    """How many live workers serve each queue."""
    return Counter(queue for worker in store.workers.list() for queue in worker.queues)


def must_be_known(name: str, known: Sequence[str]) -> None:
    """Raise QueueNotFound, with the nearest name there is, for a queue that no task was ever in."""
    if name in known:
        return
    hint = nearest(name, known, "see them all: dtq queues.")
    raise QueueNotFound(f"There is no queue {name}; {hint}")


def _row(stats: QueueStats, workers: int, now_ms: int) -> Sequence[Cell]:
    oldest = None if stats.oldest_waiting_ms is None else now_ms - stats.oldest_waiting_ms
    unserved = not workers and stats.waiting + stats.delayed + stats.retrying > 0
    return (
        Cell(safe(stats.queue)),
        number_cell(stats.waiting),
        Cell(span(oldest), dim=oldest is None, right=True),
        number_cell(stats.running, colour="cyan"),
        number_cell(stats.delayed),
        number_cell(stats.retrying, colour="yellow"),
        number_cell(stats.blocked, colour="magenta"),
        number_cell(stats.succeeded, colour="green"),
        number_cell(stats.dead_lettered + stats.failed, colour="red"),
        number_cell(workers),
        Cell(_remark(stats, unserved), colour="yellow"),
    )


def _remark(stats: QueueStats, unserved: bool) -> str:
    if stats.paused:
        return "paused" + (f": {safe(stats.pause_reason)}" if stats.pause_reason else "")
    return "no worker serves it" if unserved else ""

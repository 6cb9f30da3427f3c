"""`dtq events` and `dtq audit`: what happened, and what operators did."""

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import as_id, as_moment, as_queue, as_queues, as_type, common
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, ago
from dtq_engine.errors import RedisUnavailable
from dtq_engine.harmless import safe
from dtq_engine.operator_shapes import ActionsShape, action_shape, event_shape, gap_shape
from dtq_engine.store import Store
from dtq_engine.store.events import AuditEntry, Event, EventType
from dtq_engine.store.feed import EventFeed, EventGap, Told
from dtq_engine.words import plural

LOOK_S = 1.0
LOG_LENGTH = 10_000
COLOURS = {
    "WORKER_STALE": "red",
    "CONFIGURATION_CHANGED": "yellow",
    "TASK_SUCCEEDED": "green",
    "TASK_FAILED": "red",
    "TASK_DEAD_LETTERED": "red",
    "TASK_STARTED": "cyan",
    "TASK_RETRY_SCHEDULED": "yellow",
    "TASK_FENCED": "magenta",
}
ACTIONS = (
    Column("WHEN"),
    Column("WHO", least=8),
    Column("ACTION"),
    Column("TARGET", least=16),
    Column("QUEUE", spare=1, least=8),
    Column("TASKS", spare=2),
    Column("REASON", least=16),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events are to be shown; what is empty lets all pass."""

    queues: Sequence[str]
    names: Sequence[str]
    type: str | None
    task_id: str | None
    worker_id: str | None

    def __call__(self, event: Event) -> bool:
        """Whether to show this one."""
        return (
            (not self.names or event.type in self.names)
            and (bool(self.names or self.task_id) or event.type != EventType.TASK_PROGRESS)
            and self.type in {None, event.task_type}
            and self.task_id in {None, event.task_id}
            and self.worker_id in {None, event.worker_id}
        )


@click.command(short_help="Show what happens to tasks, workers and queues, with --follow as it does.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--since", metavar="TIME", callback=as_moment, help="All since then: 10m (ago), or 2026-10-31T08:00.")
@click.option("--limit", type=click.IntRange(0, LOG_LENGTH), metavar="NUMBER",
              help="Begin with at most this many; 50 by default, 10 with --follow, all with --since.")  # fmt: skip
@click.option("--queue", "queues", metavar="NAME", multiple=True, callback=as_queues,
              help="Only of this queue; may be repeated.")  # fmt: skip
@click.option("--event", "names", type=click.Choice(list(EventType), case_sensitive=False), metavar="NAME",
              multiple=True,
              help=f"Only events of this name, such as {EventType.TASK_FAILED}; may be repeated.")  # fmt: skip
@click.option("--type", "type_", metavar="TYPE", callback=as_type, help="Only of tasks of this type.")
@click.option("--id", "task_id", metavar="ID", callback=as_id, help="Only of this task.")
@click.option("--worker", "worker_id", metavar="NAME", help="Only what this worker did, and what became of it.")
@common
@click.pass_obj
def events(
    console: Console,
    *,
    follow: bool,
    since: Callable[[int], int] | None,
    limit: int | None,
    queues: Sequence[str],
    names: Sequence[str],
    type_: str | None,
    task_id: str | None,
    worker_id: str | None,
) -> int:
    """Show what happened to tasks, workers and queues, oldest first; the log keeps about 10,000 events of each queue.

    With --json a line for each event.

    \b
    Example:
      dtq events --follow --event TASK_FAILED --event TASK_DEAD_LETTERED
      dtq events --since 10m --type reports.build --json
      dtq events --event WORKER_STALE --event CONFIGURATION_CHANGED
    """
    store = console.app().store
    wanted = Wanted(queues, names, type_, task_id, worker_id)
    since_ms = None if since is None else since(store.now_ms())
    if limit is None:
        limit = LOG_LENGTH if since is not None else 10 if follow else 50
    report = Report(console, store, wanted)
    shown = report.earlier(since_ms, limit)
    if follow:
        report.follow()
    elif not shown and not console.json:
        console.note("No event matches.")
    return 0


class Report:
    """The events of some queues, or of all there are: first the earlier ones, then those that come."""

    def __init__(self, console: Console, store: Store, wanted: Wanted) -> None:
        self._console = console
        self._store = store
        self._wanted = wanted
        self._feed = EventFeed(store.connection, store.keys, store.events, self._queues)

    def earlier(self, since_ms: int | None, limit: int) -> int:
        """Print up to `limit` events that the logs have; how many there were. What comes later is for `follow`."""
        came = self._feed.next(0)
        logs = [self._log(queue, since_ms or 0) for queue in self._queues()]
        merged = heapq.merge(*logs, key=lambda event: (-event.ts_ms, event.queue, -event.event_id))
        found = list(islice(filter(self._wanted, merged), limit))
        for each in [*reversed(found), *came]:
            self._tell(each)
        return len(found)

    def _log(self, queue: str, since_ms: int) -> Iterator[Event]:
        """A queue's events, newest first, from the one where following begins."""
        newest = self._store.events.newest(queue, before=self._feed.positions.get(queue, 0) + 1)
        return takewhile(lambda event: event.ts_ms >= since_ms, newest)

    def follow(self) -> None:
        """Print what happens, until the process is interrupted; Redis may go away and come back."""
        away = False
        while True:
            try:
                for each in self._feed.next(LOOK_S):
                    self._tell(each)
                away = False
            except RedisUnavailable as error:
                if not away:
                    self._console.note(f"Waiting for Redis: {safe(str(error))}")
                away = True
                time.sleep(LOOK_S)

    def _queues(self) -> Sequence[str]:
        return self._wanted.queues or self._store.inspect.queues()

    def _tell(self, told: Told) -> None:
        if isinstance(told, EventGap):
            self._tell_gap(told.queue, told.before - told.after - 1)
        elif not self._wanted(told):
            return
        elif self._console.json:
            self._console.emit_line(event_shape(told))
        else:
            self._console.say(_line(told))

    def _tell_gap(self, queue: str, missing: int) -> None:
        """Say how many events cannot be shown; less than one where the log itself was lost and has begun anew."""
        if self._console.json:
            self._console.emit_line(gap_shape(queue, missing if missing > 0 else None))
        elif missing > 0:
            self._console.say(f"{plural(missing, 'event')} of {safe(queue)} came and went too fast to be shown here")
        else:
            self._console.say(f"The log of {safe(queue)} was lost, and has begun anew")


def _line(event: Event) -> str:
    when = datetime.fromtimestamp(event.ts_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    name = click.style(event.type.ljust(20), fg=COLOURS.get(event.type))
    words = [when, name, safe(event.queue), *(safe(each) for each in (event.task_id, event.task_type) if each)]
    if event.attempt:
        words.append(f"attempt {event.attempt}")
    words += [safe(each) for each in (event.worker_id, event.detail) if each]
    return "  ".join(words)


@click.command(short_help="Show what operators did.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only on this queue and its tasks.")
@click.option("--actor", "who", metavar="NAME", help="Only by this person or program.")
@click.option("--action", metavar="NAME", help="Only such actions: cancel, requeue, discard, pause, purge, …")
@click.option("--since", metavar="TIME", callback=as_moment, help="Only since then: 1d (ago), or 2026-10-31T08:00.")
@click.option("--limit", type=click.IntRange(1, LOG_LENGTH), default=50, metavar="NUMBER",
              help="At most this many, 50 by default.")  # fmt: skip
@common
@click.pass_obj
def audit(
    console: Console,
    *,
    queue: str | None,
    who: str | None,
    action: str | None,
    since: Callable[[int], int] | None,
    limit: int,
) -> int:
    """Show what operators did, newest first: who, what, on which task or queue, and why.

    \b
    Example:
      dtq audit --since 1d
      dtq audit --action purge --json
    """
    store = console.app().store
    now_ms = store.now_ms()
    since_ms = 0 if since is None else since(now_ms)
    count = limit if who is None and action is None else LOG_LENGTH
    names = [queue] if queue else store.inspect.queues()
    found = [
        entry
        for name in names
        for entry in store.events.audit(name, count)
        if entry.ts_ms >= since_ms and who in {None, entry.actor} and action in {None, entry.action}
    ]
    entries = sorted(found, key=lambda entry: (-entry.ts_ms, entry.queue))[:limit]
    if console.json:
        console.emit(ActionsShape([action_shape(entry) for entry in entries]))
    elif entries:
        console.show_table(ACTIONS, [_row(entry, now_ms) for entry in entries])
    else:
        console.note("No action matches.")
    return 0


def _row(entry: AuditEntry, now_ms: int) -> Sequence[Cell]:
    return (
        Cell(ago(entry.ts_ms, now_ms), right=True),
        Cell(safe(entry.actor)),
        Cell(safe(entry.action)),
        Cell(safe(entry.target)),
        Cell(safe(entry.queue)),
        Cell(str(entry.count), right=True),
        Cell(safe(entry.reason)),
    )

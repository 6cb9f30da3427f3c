"""`dtq logs`: what the executions of a task logged, and with --follow what they log."""

import time
from collections.abc import Sequence
from datetime import datetime

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import as_id, as_queue, common
from dtq_engine.errors import RedisUnavailable, TaskNotFound
from dtq_engine.harmless import safe
from dtq_engine.model import LogLine
from dtq_engine.report_shapes import line_shape
from dtq_engine.store import Store
from dtq_engine.words import plural

LOOK_S = 0.5

_COLOURS = {"DEBUG": "blue", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


@click.command(short_help="Show what a task's executions logged.")
@click.argument("task_id", metavar="ID", callback=as_id)
@click.option("--follow", "-f", is_flag=True, help="Go on with what is logged, until the task has ended.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Only the lines of this attempt.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="NUMBER", help="Only lines after this number.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@common
@click.pass_obj
def logs(console: Console, *, task_id: str, follow: bool, attempt: int | None, after: int, queue: str | None) -> int:
    """Show the lines that a task's executions logged, oldest first; the latest of them are kept.

    With --json a line for each.

    \b
    Example:
      dtq logs 01K8ME0V9VJ3X0D1M2Q6ZB7C5F --follow
      dtq logs 01K8ME0V9VJ3X0D1M2Q6ZB7C5F --attempt 2 --json
    """
    store = console.app().store
    where = store.inspect.get(task_id, queue=queue).queue
    reader = _Reader(console, store, task_id, where, attempt)
    if not reader.read_all(after) and not follow and not console.json:
        console.note("Nothing was logged, or it is gone.")
    if follow:
        reader.follow()
    return 0


class _Reader:
    """Prints the lines of a task, each once."""

    def __init__(self, console: Console, store: Store, task_id: str, queue: str, attempt: int | None) -> None:
        self._console = console
        self._store = store
        self._task_id = task_id
        self._queue = queue
        self._attempt = attempt
        self._after = 0

    def read(self, after: int) -> int:
        """Print the lines after a number; how many there were."""
        lines: Sequence[LogLine] = self._store.reports.logs(
            self._task_id, queue=self._queue, after=after, attempt=self._attempt
        )
        self._after = lines[-1].number if lines else after
        for line in lines:
            self._tell(line)
        return len(lines)

    def read_all(self, after: int) -> bool:
        """Print all lines after a number, a call's worth at a time; whether there was one."""
        found = self.read(after)
        while self.read(self._after):
            continue
        return found > 0

    def follow(self) -> None:
        """Print what comes until the task has ended; Redis may go away and come back."""
        away = False
        while True:
            try:
                # In this order: what was logged last is there before the end is.
                ended = self._has_ended()
                if not self.read(self._after) and ended:
                    return
                away = False
            except RedisUnavailable as error:
                if not away:
                    self._console.note(f"Waiting for Redis: {safe(str(error))}")
                away = True
            time.sleep(LOOK_S)

    def _has_ended(self) -> bool:
        try:
            return self._store.inspect.get(self._task_id, queue=self._queue).status.is_final
        except TaskNotFound:
            return True

    def _tell(self, line: LogLine) -> None:
        if self._console.json:
            self._console.emit_line(line_shape(line))
            return
        if line.missing and self._attempt is None:
            self._console.say(click.style(f"… {plural(line.missing, 'line')} before this one are gone", dim=True))
        when = datetime.fromtimestamp(line.at_ms / 1000).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = click.style(line.level.ljust(8), fg=_COLOURS.get(line.level))
        logger = f"{safe(line.logger)}: " if line.logger else ""
        text = safe(line.message, keep="\n").replace("\n", "\n  | ")
        self._console.say(f"{when} {line.attempt} {level} {logger}{text}")

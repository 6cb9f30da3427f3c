"""How far the tasks are: a bar in a terminal, plain lines elsewhere."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Collection
from types import TracebackType
from typing import Self

import click

from dtq_engine import Task, TaskStatus
from dtq_engine.cli.text import clip

BAR = 30
LINE_EVERY_S = 1.0


class Progress:
    """Shows how many of `total` tasks have ended, and what the others do."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._in_terminal = sys.stdout.isatty()
        self._said = ""
        self._next_line = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._in_terminal:
            click.echo()
        click.echo()

    def show(self, tasks: Collection[Task]) -> None:
        """Draw the bar anew; or say a line, at most one a second and none twice."""
        ended = sum(task.status.is_final for task in tasks)
        state = f"{ended} of {self._total} tasks have ended{_others(tasks)}"
        if self._in_terminal:
            filled = BAR * ended // self._total
            line = f"{'█' * filled}{'░' * (BAR - filled)}  {state}"
            # A line that wraps could not be drawn anew.
            click.echo(f"\r\x1b[K{clip(line, shutil.get_terminal_size().columns - 1)}", nl=False)
        elif state != self._said and (ended == self._total or time.monotonic() >= self._next_line):
            self._said, self._next_line = state, time.monotonic() + LINE_EVERY_S
            click.echo(state)


def _others(tasks: Collection[Task]) -> str:
    counts = Counter(task.status for task in tasks if not task.status.is_final)
    order = (TaskStatus.RUNNING, TaskStatus.QUEUED, TaskStatus.PENDING, TaskStatus.RETRYING, TaskStatus.BLOCKED)
    names = {TaskStatus.QUEUED: "waiting", TaskStatus.PENDING: "delayed"}
    return "".join(f", {counts[each]} {names.get(each, each)}" for each in order if counts[each])

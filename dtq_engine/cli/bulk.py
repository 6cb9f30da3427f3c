"""`dtq submit --file`: many tasks from lines of JSON, a chunk at a time."""

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.lines import Line, new_task, read_line, unapplied, with_defaults
from dtq_engine.engine import Dtq
from dtq_engine.errors import DtqError, InvalidTask
from dtq_engine.harmless import safe
from dtq_engine.model import NewTask, Receipt, SubmitOutcome
from dtq_engine.shapes import SubmittedShape, error_shape, submitted_shape
from dtq_engine.submission import submit_each
from dtq_engine.words import plural, span

CHUNK = 500
CHUNK_BYTES = 4 * 1_048_576
LINE_BYTES = 4 * 1_048_576
SHOWN_REFUSALS = 20
REDRAW_S = 0.1

Numbered = tuple[int, bytes]
Ready = tuple[int, NewTask]


def numbered_lines(stream: BinaryIO) -> Iterator[Numbered]:
    """Each line that is not blank, with its number; of one over `LINE_BYTES` only the beginning, and one byte more."""
    number = 0
    while part := stream.readline(LINE_BYTES + 1):
        number += 1
        rest = part
        while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(LINE_BYTES + 1)
        line = part.removesuffix(b"\n") if number > 1 else part.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
        if line.strip():
            yield number, line


def chunked(lines: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    """Lines in lists of at most `CHUNK`, each of a size that memory bears."""
    chunk: list[Numbered] = []
    size = 0
    for number, line in lines:
        chunk.append((number, line))
        size += len(line)
        if len(chunk) == CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@dataclass(slots=True)
class Bulk:
    """One file's way in: what was accepted and refused so far."""

    console: Console
    app: Dtq
    defaults: Line
    accepted: int = 0
    known: int = 0
    refused: int = 0
    last_line: int = 0
    began: float = field(default_factory=time.monotonic)
    drawn: float = 0.0
    types: set[str] = field(default_factory=set[str])

    def run(self, stream: BinaryIO) -> int:
        """Submit all lines; the exit code. What stops half-way says how far it came."""
        chunk: list[Numbered] = []
        try:
            for chunk in chunked(numbered_lines(stream)):
                self._submit(chunk)
                self._draw()
        except (DtqError, KeyboardInterrupt):
            self._summary()
            self._tell_where_it_stopped(chunk)
            raise
        self._summary()
        if not self.console.json and (warning := self._warning(self.types)):
            self.console.note(safe(warning))
        return 1 if self.refused else 0

    def _submit(self, chunk: Sequence[Numbered]) -> None:
        ready: list[Ready] = []
        for number, written in chunk:
            try:
                line = self._read(written)
                if not {task.id for _, task in ready}.isdisjoint(line.after or ()):
                    # It waits for tasks of lines that were read and not sent: only what is there can be waited for.
                    self._send(ready)
                    ready = []
                ready.append((number, new_task(line, self.app)))
            except InvalidTask as error:
                self._refuse(number, error)
        self._send(ready)
        self.last_line = chunk[-1][0]

    def _send(self, ready: Sequence[Ready]) -> None:
        answers = submit_each(self.app, [task for _, task in ready])
        for (number, task), answer in zip(ready, answers, strict=True):
            if isinstance(answer, Receipt):
                self._accept(number, task.type, answer)
            else:
                self._refuse(number, answer)

    def _read(self, written: bytes) -> Line:
        if len(written) > LINE_BYTES:
            raise InvalidTask("line", f"the line is longer than {LINE_BYTES:,} bytes.")
        return with_defaults(read_line(written), self.defaults)

    def _accept(self, number: int, type_: str, receipt: Receipt) -> None:
        self.accepted += 1
        warning = None
        if receipt.outcome is SubmitOutcome.NEW:
            self.types.add(type_)
            warning = self._warning([type_])
        self.known += receipt.outcome is not SubmitOutcome.NEW
        if self.console.json:
            self.console.emit_line(submitted_shape(receipt, number, warning=warning))

    def _refuse(self, number: int, error: Exception) -> None:
        shape = error_shape(error)
        self.refused += 1
        if self.console.json:
            self.console.emit_line(SubmittedShape(line=number, error=shape))
        if self.refused <= SHOWN_REFUSALS:
            self._clear()
            self.console.note(f"line {number}: {safe(shape.message)}")
        elif self.refused == SHOWN_REFUSALS + 1:
            self._clear()
            self.console.note("Further refused lines are counted, and shown by --json.")

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self.drawn >= REDRAW_S and sys.stderr.isatty():
            self.drawn = now
            rate = self.accepted / max(now - self.began, 0.001)
            state = f"{self.accepted:,} submitted, {self.refused:,} refused, {rate:,.0f}/s"
            click.echo(f"\r\x1b[K{state}", err=True, nl=False)

    def _clear(self) -> None:
        if self.drawn:
            click.echo("\r\x1b[K", err=True, nl=False)

    def _summary(self) -> None:
        self._clear()
        known = f", {self.known:,} of them known before" if self.known else ""
        refused = f"; {plural(self.refused, 'line')} refused" if self.refused else ""
        took = span((time.monotonic() - self.began) * 1000)
        self.console.note(f"Submitted {plural(self.accepted, 'task')} in {took}{known}{refused}.")

    def _warning(self, types: Collection[str]) -> str | None:
        return unapplied(types, self.app, self.console.tasks or self.app.settings.tasks)

    def _tell_where_it_stopped(self, chunk: Sequence[Numbered]) -> None:
        if not chunk or chunk[-1][0] == self.last_line:
            self.console.note(f"Stopped after line {self.last_line}.")
        else:
            self.console.note(
                f"Stopped: lines {chunk[0][0]} to {chunk[-1][0]} may be in or not, what follows is not. "
                f'Lines that have an "id" or "idempotency_key" can be sent again without being doubled.'
            )

"""Where output goes: text for people or JSON for programs on stdout, remarks and errors on stderr."""

import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from dtq_engine.cli.tables import Column, table
from dtq_engine.cli.text import Cell
from dtq_engine.config import Settings
from dtq_engine.engine import Dtq, load_app
from dtq_engine.harmless import safe, safe_json
from dtq_engine.shapes import ErrorShape, FailureShape, error_shape


@dataclass(slots=True)
class Console:
    """One run of the command line: how it prints, and which app it speaks for."""

    json: bool = False
    debug: bool = False
    colour: bool | None = None
    tasks: str | None = None

    def app(self, *, handlers: bool = False) -> Dtq:
        """The app of `--app`; with `handlers` that of `DTQ_TASKS` too; else one that knows only the settings."""
        path = self.tasks or (Settings.from_env().tasks if handlers else None)
        return Dtq(Settings.from_env()) if path is None else load_app(path)

    def say(self, text: str = "") -> None:
        """Print text for people; whatever of it comes from others must be `safe` already."""
        click.echo(text, color=self.colour)

    def note(self, text: str) -> None:
        """A remark beside the output; where stderr takes none, it is lost, and the command goes on."""
        with suppress(OSError):
            click.echo(text, err=True, color=self.colour)

    def warn(self, text: str) -> None:
        """A problem that does not stop the command."""
        self.note(click.style("Error: ", fg="red") + text)

    def emit(self, value: Any) -> None:
        """Print one JSON value: indented on a terminal, else on one line."""
        indent = 2 if sys.stdout.isatty() else -1
        click.echo(safe_json(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()))

    def emit_line(self, value: Any) -> None:
        """Print one line of NDJSON."""
        click.echo(safe_json(msgspec.json.encode(value).decode()))

    def show_table(self, headers: Sequence[Column | str], rows: Sequence[Sequence[Cell]]) -> None:
        """Print an aligned table; on a terminal no line is wider than it."""
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self.say(table(headers, rows, columns=columns))

    def fail(self, error: Exception) -> None:
        """Say why the command failed: a sentence on stderr, and with `--json` a value on stdout."""
        shape = error_shape(error)
        if self.json:
            self.emit(FailureShape(shape))
        self.warn(_lines(shape))


def _lines(shape: ErrorShape) -> str:
    lines = [safe(line) for line in shape.message.splitlines()] or [shape.code]
    return lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} things are wrong:", *lines])

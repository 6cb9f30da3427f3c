"""`dtq`: the group of all commands, and the one place where errors become sentences and exit codes."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from itertools import takewhile

import click

from dtq_engine import errors
from dtq_engine.cli.completion import completion
from dtq_engine.cli.console import Console
from dtq_engine.cli.dev import dev
from dtq_engine.cli.dlq import dlq
from dtq_engine.cli.doctor import doctor
from dtq_engine.cli.events import audit, events
from dtq_engine.cli.limits import limits
from dtq_engine.cli.logs import logs
from dtq_engine.cli.operate import reprioritise, requeue, run_now
from dtq_engine.cli.options import CONTEXT
from dtq_engine.cli.password import hash_password
from dtq_engine.cli.periodic import periodic
from dtq_engine.cli.queues import QueueNotFound, pause, purge, queues, resume
from dtq_engine.cli.submit import submit
from dtq_engine.cli.tasks import cancel, list_tasks, result, status
from dtq_engine.cli.tree import tree
from dtq_engine.cli.worker import worker
from dtq_engine.cli.workers import workers
from dtq_engine.harmless import safe
from dtq_engine.shapes import ErrorShape, FailureShape
from dtq_engine.stdio import open_what_is_closed

OK, BAD_ANSWER, CANNOT, INTERRUPTED = 0, 1, 2, 130

ANSWERS = (
    errors.ClaimLost,
    errors.HookFailed,
    errors.IdempotencyConflict,
    errors.IdempotencyMismatch,
    errors.InvalidTransition,
    errors.LimitNotFound,
    errors.MemoryFull,
    errors.NewerRecord,
    errors.PeriodicNotFound,
    errors.QueueFull,
    errors.ResultNotReady,
    errors.ResultTruncated,
    errors.TaskFailed,
    errors.TaskNotFound,
)
"""Errors that answer the question, though not as hoped: exit code 1. All others mean it could not be asked: 2."""


def _version() -> str:
    try:
        return version("dtq")
    except PackageNotFoundError:
        return "(not installed)"


class InOrder(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of all commands."""
        return list(self.commands)


@click.group("dtq", cls=InOrder, context_settings=CONTEXT)
@click.version_option(_version(), prog_name="dtq", message="%(prog)s %(version)s")
@click.option("--no-color", is_flag=True, help="No colours, as with NO_COLOR set.")
@click.option("--no-color-variable", envvar="NO_COLOR", hidden=True)
@click.option("--debug", is_flag=True, help="Show where an unexpected error comes from.")
@click.pass_obj
def root(console: Console, no_color: bool, no_color_variable: str | None, debug: bool) -> None:
    """A task queue on Redis or Valkey: submit tasks, watch them, run workers.

    \b
    dtq dev examples.tasks:app                       try it: a server of your own and a worker
    dtq submit files.count_words path=README.md      submit a task
    dtq list --status running                        see what runs
    dtq result 01K8ME0V9VJ3X0D1M2Q6ZB7C5F --wait     wait for a task and print its result

    Redis is looked for at DTQ_REDIS_URL, else REDIS_TLS_URL, else REDIS_URL, else 127.0.0.1:6379.

    Exit codes: 0 all is well; 1 the answer is bad (a task failed, is unknown, was refused); 2 it could
    not be asked (usage, settings, no Redis).
    """
    console.colour = False if no_color or no_color_variable else None
    console.debug = debug


_TASKS = (submit, status, result, logs, list_tasks, tree, cancel, requeue, run_now, reprioritise)
_QUEUES = (queues, pause, resume, purge, limits, dlq)
_DEPLOYMENT = (periodic, workers, events, audit, doctor)
_PROCESSES = (worker, dev, hash_password, completion)
for _command in (*_TASKS, *_QUEUES, *_DEPLOYMENT, *_PROCESSES):
    root.add_command(_command)


def main() -> None:
    """Run the command line with the arguments of this process, and exit."""
    open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding lacks is shown as an escape: never an error over a tick or a name.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; no exception leaves but those that end the interpreter."""
    # Until click has read the options; where it cannot read them, this is all that is known.
    console = Console(json="--json" in takewhile(lambda each: each != "--", arguments))
    try:
        return _run(console, arguments)
    except BrokenPipeError:
        return _cut_off(BAD_ANSWER)
    except OSError as error:
        console.warn(safe(f"reading or writing failed, and what was done before stays done: {_cause(error)}."))
        return _cut_off(CANNOT)


def _run(console: Console, arguments: Sequence[str]) -> int:
    try:
        code: object = root.main(list(arguments), prog_name="dtq", standalone_mode=False, obj=console)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        return _misused(console, error)
    except errors.DtqError as error:
        console.fail(error)
        return BAD_ANSWER if isinstance(error, ANSWERS) else CANNOT
    except OSError:
        raise
    except Exception as error:
        return _fault(console, error)
    return code if isinstance(code, int) else OK


def _misused(console: Console, error: click.ClickException) -> int:
    with suppress(OSError):
        error.show()
    unknown = isinstance(error, QueueNotFound)
    if console.json:
        code = QueueNotFound.__name__ if unknown else click.UsageError.__name__
        console.emit(FailureShape(ErrorShape(code, error.format_message())))
    return BAD_ANSWER if unknown else CANNOT


def _fault(console: Console, error: Exception) -> int:
    if console.debug:
        raise error
    console.fail(error)
    console.note("That was not expected: run it again as `dtq --debug …` to see where it comes from, and report it.")
    return CANNOT


def _cause(error: OSError) -> str:
    place = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{place}"


def _cut_off(code: int) -> int:
    """Nobody can read our output any more: what Python still flushes at exit goes nowhere."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code

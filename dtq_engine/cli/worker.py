"""`dtq worker`: a worker process as `worker_main.py` starts it, with options over the environment."""

import dataclasses
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common_with_handlers
from dtq_engine.config import Settings
from dtq_engine.engine import load_app
from dtq_engine.errors import ConfigurationError
from dtq_engine.worker import Worker
from dtq_engine.worker.logs import configure as log_as


@click.command(short_help="Run a worker.")
@click.option("--queues", metavar="NAMES", help="Queues to serve, most urgent first.  [env: DTQ_WORKER_QUEUES]")
@click.option("--concurrency", type=int, metavar="NUMBER", help="Tasks at a time.  [env: DTQ_WORKER_CONCURRENCY]")
@common_with_handlers
@click.pass_obj
def worker(console: Console, queues: str | None, concurrency: int | None) -> NoReturn:
    """Run a worker until it is told to stop (Ctrl-C or SIGTERM).

    Everything is taken from the environment, as by `python worker_main.py`; the options win over it. It
    logs to stderr, with --json one JSON object a line.

    \b
    Example:
      dtq worker --app shop.tasks:app --queues mail,default --concurrency 20
    """
    settings = with_options(Settings.from_env(), console, queues, concurrency)
    if settings.tasks is None:
        raise ConfigurationError(["no app is named: give --app MODULE:APP, such as shop.tasks:app, or set DTQ_TASKS."])
    app = load_app(settings.tasks)
    log_as(settings)
    leave(Worker(app, settings).run())


def with_options(settings: Settings, console: Console, queues: str | None, concurrency: int | None) -> Settings:
    """The settings, with what the options say. Raises ConfigurationError."""
    given: dict[str, Any] = {
        "tasks": console.tasks,
        "worker_queues": None if queues is None else tuple(name.strip() for name in queues.split(",")),
        "worker_concurrency": concurrency,
        "log_json": True if console.json else None,
    }
    return dataclasses.replace(settings, **{name: value for name, value in given.items() if value is not None})


def leave(code: int) -> NoReturn:
    """End the process now: a handler that still sits in a thread does not hold it up."""
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

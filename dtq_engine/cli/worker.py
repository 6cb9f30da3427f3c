"""`dtq worker`: a worker process as `worker_main.py` starts it, with options over the environment."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common_with_handlers
from dtq_engine.cli.plan import Plan
from dtq_engine.cli.reload import MISSING, Reloader, can_reload
from dtq_engine.config import SETTINGS, Settings, problem
from dtq_engine.engine import load_app
from dtq_engine.errors import ConfigurationError
from dtq_engine.stdio import leave
from dtq_engine.worker.process import supervise

reload_dirs = click.option(
    "--reload-dir",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    metavar="FOLDER",
    help="Watch this folder and all in it, instead of those of the app's modules; may be repeated.",
)


@click.command(short_help="Run a worker.")
@click.option("--queues", metavar="NAMES", help="Queues to serve, most urgent first.  [env: DTQ_WORKER_QUEUES]")
@click.option("--concurrency", type=int, metavar="NUMBER", help="Tasks at a time.  [env: DTQ_WORKER_CONCURRENCY]")
@click.option("--processes", type=int, metavar="NUMBER", help="Worker processes.  [env: DTQ_WORKER_PROCESSES]")
@click.option("--reload", is_flag=True, help="For development: start anew when the code of the tasks changes.")
@reload_dirs
@common_with_handlers
@click.pass_obj
def worker(
    console: Console,
    *,
    queues: str | None,
    concurrency: int | None,
    processes: int | None,
    reload: bool,
    folders: Sequence[Path],
) -> NoReturn:
    """Run a worker until it is told to stop (Ctrl-C or SIGTERM).

    Everything is taken from the environment, as by `python worker_main.py`; the options win over it. It
    logs to stderr, with --json one JSON object a line. With several --processes, each runs --concurrency tasks;
    those that die are started again, and one signal stops them all.

    \b
    Example:
      dtq worker --app shop.tasks:app --queues mail,default --concurrency 20
      dtq worker --app shop.tasks:app --reload
    """
    settings = with_options(Settings.from_env(), console, queues, concurrency, processes)
    if settings.tasks is None:
        raise ConfigurationError(["no app is named: give --app MODULE:APP, such as shop.tasks:app, or set DTQ_TASKS."])
    plan = Plan(settings, json=console.json)
    if reload or folders:
        if not can_reload():
            raise ConfigurationError([MISSING])
        leave(Reloader(plan, folders).run())
    if settings.worker_processes > 1:
        leave(supervise(settings))
    leave(plan.run(load_app(settings.tasks)))


def with_options(
    settings: Settings, console: Console, queues: str | None, concurrency: int | None, processes: int | None = None
) -> Settings:
    """The settings, with what the options say. Raises ConfigurationError, which names options by their own names."""
    options: dict[str, tuple[str, Any]] = {
        "tasks": ("MODULE:APP", console.tasks),
        "worker_queues": ("--queues", None if queues is None else tuple(name.strip() for name in queues.split(","))),
        "worker_concurrency": ("--concurrency", concurrency),
        "worker_processes": ("--processes", processes),
        "log_json": ("--json", True if console.json else None),
    }
    given = {name: option for name, option in options.items() if option[1] is not None}
    problems = [problem(option, SETTINGS[name], value) for name, (option, value) in given.items()
                if not SETTINGS[name].accepts(value)]  # fmt: skip
    if problems:
        raise ConfigurationError(problems)
    return dataclasses.replace(settings, **{name: value for name, (_, value) in given.items()})

"""`dtq dev`: everything a developer needs in one terminal, a server and a worker that follows changes of the code."""

import dataclasses
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common_with_handlers
from dtq_engine.cli.plan import Plan
from dtq_engine.cli.reload import MISSING, Reloader, can_reload
from dtq_engine.cli.worker import reload_dirs, with_options
from dtq_engine.config import Settings
from dtq_engine.embedded import EmbeddedValkey, earlier_port, is_free, url_of
from dtq_engine.engine import load_app
from dtq_engine.errors import ConfigurationError
from dtq_engine.stdio import leave

FOLDER = Path(".dtq")


@click.command(short_help="Run a server of your own and a worker, to try things out.")
@click.argument("path", metavar="[MODULE:APP]", required=False)
@click.option("--redis-url", metavar="URL", envvar=["DTQ_REDIS_URL", "REDIS_TLS_URL", "REDIS_URL"],
              help="Use this server instead of one of your own.  [env: DTQ_REDIS_URL]")  # fmt: skip
@click.option(
    "--port", type=int, metavar="NUMBER", help="Where your own server listens; if not given, as the last time."
)
@click.option("--queues", metavar="NAMES", help="Queues to serve, most urgent first; all of the app's by default.")
@click.option("--concurrency", type=int, metavar="NUMBER", help="Tasks at a time.  [env: DTQ_WORKER_CONCURRENCY]")
@click.option("--reload/--no-reload", default=True, help="Start the worker anew when its code changes, or do not.")
@reload_dirs
@common_with_handlers
@click.pass_obj
def dev(
    console: Console,
    *,
    path: str | None,
    redis_url: str | None,
    port: int | None,
    queues: str | None,
    concurrency: int | None,
    reload: bool,
    folders: Sequence[Path],
) -> NoReturn:
    """Run a server of your own (data in .dtq/) and a worker for MODULE:APP; Ctrl-C ends both.

    When a Python file of the app changes, the worker finishes what it runs and starts anew. The server's address
    stays the same from one time to the next, as long as no other program takes its port. With DTQ_REDIS_URL set to
    another server, that is used.

    \b
    Example:
      dtq dev examples.tasks:app
    """
    console.tasks = path or console.tasks
    settings = with_options(Settings.from_env(), console, queues, concurrency)
    if settings.tasks is None:
        raise ConfigurationError(["no app is named: write it after dev, such as dtq dev shop.tasks:app."])
    if reload and not can_reload():
        console.note(f"Changes of the code are not followed: {MISSING}")
        reload = False
    all_queues = queues is None and settings.worker_queues == Settings().worker_queues
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server(console, redis_url, port) as url:
        settings = dataclasses.replace(settings, redis_url=url)
        plan = Plan(settings, json=console.json, for_app=True, all_queues=all_queues, introduce=True)
        code = Reloader(plan, folders).run() if reload else plan.run(load_app(settings.tasks or ""))
    leave(code)


@contextmanager
def server(console: Console, redis_url: str | None, port: int | None) -> Generator[str, None, None]:
    """The address of the given server, or of one that lives as long as this context."""
    earlier = earlier_port(FOLDER)
    # Exported here the last time, that address is our own: it answers only if it is in use by another `dtq dev`.
    if redis_url and not (earlier and redis_url == url_of(earlier) and is_free(earlier)):
        yield redis_url
        return
    with EmbeddedValkey(FOLDER, port) as embedded:
        if port is None and earlier not in {None, embedded.port}:
            console.note(f"The port {earlier} of the last time is taken: export the new address where you use the old.")
        yield embedded.url

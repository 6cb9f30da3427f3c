"""`dtq dev`: everything a developer needs in one terminal, a server and a worker."""

import dataclasses
import shlex
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common_with_handlers
from dtq_engine.cli.program import program
from dtq_engine.cli.text import plural
from dtq_engine.cli.worker import leave, with_options
from dtq_engine.config import Settings
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import ConfigurationError
from dtq_engine.harmless import safe
from dtq_engine.worker import Worker
from dtq_engine.worker.logs import configure as log_as

FOLDER = Path(".dtq")


class DevShape(msgspec.Struct):
    """`dtq dev --json`: where Redis is, and what the worker serves."""

    redis_url: str
    queues: list[str]
    types: list[str]


@click.command(short_help="Run a server of your own and a worker, to try things out.")
@click.argument("path", metavar="[MODULE:APP]", required=False)
@click.option("--redis-url", metavar="URL", envvar=["DTQ_REDIS_URL", "REDIS_TLS_URL", "REDIS_URL"],
              help="Use this server instead of one of your own.  [env: DTQ_REDIS_URL]")  # fmt: skip
@click.option("--port", type=int, metavar="NUMBER", help="Where your own server listens; a free port by default.")
@click.option("--queues", metavar="NAMES", help="Queues to serve, most urgent first; all of the app's by default.")
@click.option("--concurrency", type=int, metavar="NUMBER", help="Tasks at a time.  [env: DTQ_WORKER_CONCURRENCY]")
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
) -> NoReturn:
    """Run a server of your own (data in .dtq/) and a worker for MODULE:APP; Ctrl-C ends both.

    With DTQ_REDIS_URL set, that server is used.

    \b
    Example:
      dtq dev examples.tasks:app
    """
    console.tasks = path or console.tasks
    settings = with_options(Settings.from_env(), console, queues, concurrency)
    if settings.tasks is None:
        raise ConfigurationError(["no app is named: write it after dev, such as dtq dev shop.tasks:app."])
    app = load_app(settings.tasks)
    if queues is None and settings.worker_queues == Settings().worker_queues:
        settings = dataclasses.replace(settings, worker_queues=queues_of(app))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server(redis_url, port) as url:
        code = _work(console, app, dataclasses.replace(settings, redis_url=url))
    leave(code)


@contextmanager
def server(redis_url: str | None, port: int | None) -> Generator[str, None, None]:
    """The address of the given server, or of one that lives as long as this context."""
    if redis_url:
        yield redis_url
        return
    with EmbeddedValkey(FOLDER, port) as embedded:
        yield embedded.url


def queues_of(app: Dtq) -> tuple[str, ...]:
    """The queues that the handlers of an app name, and the default one."""
    handlers = [app.registry.get(name) for name in app.registry.types()]
    named = {handler.defaults.queue for handler in handlers if handler is not None}
    return tuple(sorted(named | set(Settings().worker_queues)))


def _work(console: Console, app: Dtq, settings: Settings) -> int:
    app.configure(settings)
    log_as(settings)
    if console.json:
        queues, types = settings.worker_queues, app.registry.types()
        console.emit_line(DevShape(settings.redis_url, list(queues), list(types)))
    else:
        console.say(introduction(app, settings))
    return Worker(app, settings).run()


def example_call(app: Dtq) -> str:
    """How to submit one of the app's tasks, with the arguments that it requires."""
    for name in app.registry.types():
        if (handler := app.registry.get(name)) is not None:
            wanted = [each for each in handler.signature.types if each in handler.signature.required]
            return " ".join([name, *(f"{each}=…" for each in wanted)])
    return "TYPE KEY=VALUE"


def introduction(app: Dtq, settings: Settings) -> str:
    """What runs here, and what to type in another terminal to use it."""
    types, tasks, dtq = app.registry.types(), safe(settings.tasks or ""), program(Path.cwd())
    lines = [
        f"Redis   {safe(settings.redis_url)}",
        f"Worker  {plural(len(types), 'task type')} of {tasks}, queues {', '.join(settings.worker_queues)}",
        "",
        "In another terminal:",
        f"  export DTQ_REDIS_URL={shlex.quote(settings.redis_url)} DTQ_TASKS={tasks}",
        f"  {dtq} submit {example_call(app)} --wait",
        f"  {dtq} list",
        "",
        "Ctrl-C ends it.",
    ]
    return "\n".join(lines)

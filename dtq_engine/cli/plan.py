"""What worker `dtq worker` and `dtq dev` are to run, and running it in this process."""

import dataclasses
import shlex
from pathlib import Path

import msgspec

from dtq_engine.cli.console import Console
from dtq_engine.cli.program import program
from dtq_engine.config import Settings
from dtq_engine.engine import Dtq
from dtq_engine.harmless import safe
from dtq_engine.logs import configure as log_as
from dtq_engine.words import plural
from dtq_engine.worker import Worker
from dtq_engine.worker.process import settle_in, supervise


class DevShape(msgspec.Struct):
    """`dtq dev --json`: where Redis is, and what the worker serves."""

    redis_url: str
    queues: list[str]
    types: list[str]


class Imported(msgspec.Struct):
    """What the process that carries out a plan tells first: whether the app was imported, and from which folders.

    `misnamed`: there is no such module, or nothing of that name in it.
    """

    worked: bool
    folders: list[str]
    misnamed: bool = False


class Plan(msgspec.Struct, frozen=True):
    """A worker to run: here, or by a process of its own that is ended and started anew.

    With `for_app` the app itself takes the settings over, with `all_queues` they are those that its handlers name.
    `introduce`: say what runs and how to use it.
    """

    settings: Settings
    json: bool = False
    for_app: bool = False
    all_queues: bool = False
    introduce: bool = False

    def run(self, app: Dtq) -> int:
        """Run it in this process until it is told to stop; the exit code. Raises as `Worker.start` does."""
        settings = self.settings
        if self.all_queues:
            settings = dataclasses.replace(settings, worker_queues=queues_of(app))
        if self.for_app:
            app.configure(settings)
        log_as(settings)
        if self.introduce:
            self._introduce(app, settings)
        if settings.worker_processes > 1:
            return supervise(settings, for_app=self.for_app)
        settle_in()
        return Worker(app, settings).run()

    def _introduce(self, app: Dtq, settings: Settings) -> None:
        if self.json:
            queues, types = settings.worker_queues, app.registry.types()
            Console().emit_line(DevShape(settings.redis_url, list(queues), list(types)))
        else:
            Console().say(introduction(app, settings))


def queues_of(app: Dtq) -> tuple[str, ...]:
    """The queues that the handlers of an app name, and the default one."""
    handlers = [app.registry.get(name) for name in app.registry.types()]
    named = {handler.defaults.queue for handler in handlers if handler is not None}
    return tuple(sorted(named | set(Settings().worker_queues)))


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

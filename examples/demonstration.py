"""The demonstration, from its server to its verdict."""

import os
import secrets
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path

import click

from dtq_engine import Dtq, DtqError, Task, TaskStatus
from dtq_engine.cli.program import program
from dtq_engine.cli.tables import table
from dtq_engine.cli.text import clip
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.harmless import safe
from examples import api, tasks
from examples.processes import Process, ProcessFailed, Web, Worker
from examples.progress import Progress
from examples.verdicts import HEADERS, rows, verdicts
from examples.workload import ROOT, Workload, submit, text_files

LOOK_S = 0.1


def demonstrate(*, once: bool, time_limit_s: float, worker_app: str, data: Path) -> int:
    """The whole demonstration; its exit code: 0 if all ended as it should, 1 if not, 2 if it could not be shown."""
    started_in = Path.cwd()
    os.chdir(ROOT)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no tick or bar shows ?
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell in the background has SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        return _run(None if once else started_in, time_limit_s, worker_app, data)
    except BrokenPipeError:
        raise
    except (DtqError, ProcessFailed, api.ApiFailed, OSError) as error:
        click.echo(f"Error: {safe(str(error))}", err=True)
        return 2


def _run(started_in: Path | None, time_limit_s: float, worker_app: str, data: Path) -> int:
    """All of it; afterwards it stays up if someone, in the folder `started_in`, wants to try things out."""
    name = secrets.token_hex(4)
    with (
        _redis(data) as url,
        Worker(name, url, worker_app, data / "worker.log", tasks.app) as worker,
        Web(url, data / "web.log") as web,
    ):
        say(f"Redis   {url}")
        worker.wait_until_ready()
        say(f"Worker  process {worker.pid}, log in {worker.log}")
        web.wait_until_ready()
        say(f"Web     {web.url}, process {web.pid}, log in {web.log}")
        paths = text_files()
        work = submit(name, paths, data / "demo", partial(api.submit, web.port))
        say(f"Tasks   {len(work.ids)}, most of them about {len(paths)} text files of this repository")
        say()
        found = follow(tasks.app, work, (worker, web), time.monotonic() + time_limit_s)
        good = tell(work, found)
        if started_in is not None:
            stay(url, (worker, web), started_in)
    return 0 if good else 1


@contextmanager
def _redis(data: Path) -> Generator[str, None, None]:
    """The address of Redis: DTQ_REDIS_URL, or a server that lives as long as this context."""
    if url := os.environ.get("DTQ_REDIS_URL"):
        yield url
        return
    with EmbeddedValkey(data) as embedded:
        os.environ["DTQ_REDIS_URL"] = embedded.url
        yield embedded.url


def follow(app: Dtq, work: Workload, processes: Sequence[Process], ends: float) -> dict[str, Task]:
    """The tasks once all have ended, or as they are when the time is up; cancels the one that is to be cancelled.

    Raises TaskNotFound if one has vanished.
    """
    found = {each: app.handle(each).info() for each in work.ids}
    cancelled = False
    try:
        with Progress(len(found)) as progress:
            while (unfinished := _unfinished(found)) and time.monotonic() < ends:
                found.update((task.id, task) for task in app.store.inspect.find(unfinished) if task is not None)
                progress.show(found.values())
                if not cancelled and found[work.watch].status is TaskStatus.RUNNING:
                    app.handle(work.watch).cancel(reason="the demonstration wants to see it stop")
                    cancelled = True
                check(processes)
                time.sleep(LOOK_S)
    finally:
        _cancel(app, _unfinished(found))
    return found


def _unfinished(found: dict[str, Task]) -> list[str]:
    return [task.id for task in found.values() if not task.status.is_final]


def _cancel(app: Dtq, task_ids: Sequence[str]) -> None:
    """Leave nothing of this run behind for the next one."""
    with suppress(DtqError):
        for each in task_ids:
            app.handle(each).cancel(reason="the demonstration ended")


def tell(work: Workload, found: dict[str, Task]) -> bool:
    """Print the table and the verdicts; whether all expectations were met."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    say(table(HEADERS, list(rows(found)), columns=columns))
    say()
    judged = list(verdicts(work, found))
    longest = max(len(verdict.expectation) for verdict in judged)
    if columns is not None and longest + max(len(verdict.seen) for verdict in judged) + 4 > columns:
        longest = 0  # no room to align them
    for verdict in judged:
        mark = click.style("✓", fg="green") if verdict.met else click.style("✗", fg="red")
        room = None if columns is None else columns - max(longest, len(verdict.expectation)) - 4
        seen = verdict.seen if room is None else clip(verdict.seen, max(8, room))
        say(f"{mark} {verdict.expectation:<{longest}}  {click.style(seen, dim=True)}")
    say()
    good = all(verdict.met for verdict in judged)
    say("Every task ended as it should." if good else click.style("Not every task ended as it should.", fg="red"))
    return good


def to_try(url: str, started_in: Path) -> list[str]:
    """What to type in another terminal, in the folder `started_in`, to look at what the demonstration did."""
    dtq = program(ROOT)
    return [
        *([] if started_in == ROOT else [f"cd {shlex.quote(str(ROOT))}"]),
        f"export DTQ_REDIS_URL={shlex.quote(url)}",
        f"{dtq} queues",
        f"{dtq} list --status dead_lettered",
        f"{dtq} dlq list",
        f"{dtq} submit files.count_words path=README.md --app examples.tasks:app --wait",
    ]


def stay(url: str, processes: Sequence[Process], started_in: Path) -> None:
    """Wait for Ctrl-C, with something to try meanwhile."""
    say()
    say("All of it stays up until Ctrl-C: open the address above in a browser, or try in another terminal:")
    for line in to_try(url, started_in):
        say(f"  {line}")
    with suppress(KeyboardInterrupt):
        while True:
            check(processes)
            time.sleep(0.5)
    say()


def check(processes: Sequence[Process]) -> None:
    """Raise ProcessFailed if one has ended."""
    for process in processes:
        process.check()


def say(text: str = "") -> None:
    """Print a line; colours only on a terminal that wants them."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)

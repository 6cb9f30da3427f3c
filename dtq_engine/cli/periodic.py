"""`dtq periodic list|pause|resume|trigger`: what runs at times, when next, and whether it may."""

from collections.abc import Sequence

import click

from dtq_engine import validate
from dtq_engine.cli.console import Console
from dtq_engine.cli.options import CONTEXT, common
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, ago
from dtq_engine.cli.verbs import actor
from dtq_engine.errors import InvalidTask
from dtq_engine.harmless import safe
from dtq_engine.operator_shapes import PeriodicsShape, PeriodicVerbShape, periodic_shape
from dtq_engine.periodic import PeriodicTask
from dtq_engine.words import span

HEADERS = (
    Column("NAME", least=12),
    Column("WHEN", least=9),
    Column("TYPE", spare=1, least=8),
    Column("QUEUE", spare=2, least=8),
    Column("LAST", spare=5),
    Column("LAST TASK", spare=3, least=12),
    Column("NEXT"),
    Column("", least=8),
)


def _as_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        return validate.check_type(value)
    except InvalidTask:
        raise click.BadParameter(f"{value!r} is no name of a periodic task: see `dtq periodic list`.") from None


@click.group(context_settings=CONTEXT, short_help="List, pause, resume or trigger periodic tasks.")
def periodic() -> None:
    """Periodic tasks: those that run at times, as the code says; list, pause, resume or trigger them."""


@periodic.command("list", short_help="List periodic tasks, with their last and next runs.")
@common
@click.pass_obj
def list_periodic(console: Console) -> int:
    """List periodic tasks, with their last and next runs. Those that were removed from the code are shown for a day.

    \b
    Example:
      dtq periodic list
      dtq periodic list --json | jq '.periodic[] | select(.paused) | .name'
    """
    store = console.app().store
    found = store.periodic.list()
    if console.json:
        console.emit(PeriodicsShape([periodic_shape(each) for each in found]))
    elif found:
        now_ms = store.now_ms()
        console.show_table(HEADERS, [_row(each, now_ms) for each in found])
    else:
        console.note("There is no periodic task: put @app.periodic(…) above a task, and start a worker.")
    return 0


@periodic.command(short_help="Let the ticks of a periodic task pass.")
@click.argument("name", callback=_as_name)
@click.option("--reason", default="", help="Shown to whoever looks at it.")
@common
@click.pass_obj
def pause(console: Console, name: str, reason: str) -> int:
    """Let the ticks of NAME pass without a task, until it is resumed.

    \b
    Example:
      dtq periodic pause reports.nightly --reason "the warehouse moves"
    """
    console.app().store.periodic.pause(name, actor=actor(), reason=reason)
    return _done(console, name, "paused", f"{safe(name)} is paused; go on with: dtq periodic resume {name}")


@periodic.command(short_help="Let a periodic task run again.")
@click.argument("name", callback=_as_name)
@click.option("--reason", default="", help="Kept in the audit log.")
@common
@click.pass_obj
def resume(console: Console, name: str, reason: str) -> int:
    """Let NAME run again from its next tick on; what passed meanwhile is not made up for.

    \b
    Example:
      dtq periodic resume reports.nightly
    """
    console.app().store.periodic.resume(name, actor=actor(), reason=reason)
    return _done(console, name, "resumed", f"{safe(name)} runs again")


@periodic.command(short_help="Run a periodic task now.")
@click.argument("name", callback=_as_name)
@click.option("--reason", default="", help="Kept in the audit log.")
@common
@click.pass_obj
def trigger(console: Console, name: str, reason: str) -> int:
    """Run NAME now, out of turn and even while it is paused; prints the id of the task.

    \b
    Example:
      dtq result "$(dtq periodic trigger reports.nightly)" --wait
    """
    receipt = console.app().store.periodic.trigger(name, actor=actor(), reason=reason)
    return _done(console, name, "triggered", receipt.id, receipt.id)


def _done(console: Console, name: str, outcome: str, text: str, task_id: str | None = None) -> int:
    if console.json:
        console.emit(PeriodicVerbShape(name, outcome, task_id))
    else:
        console.say(text)
    return 0


def _row(task: PeriodicTask, now_ms: int) -> Sequence[Cell]:
    definition = task.definition
    zone = "" if definition.tz == "UTC" else f" {definition.tz}"
    when = f"{definition.cron}{zone}" if definition.every_ms is None else f"every {span(definition.every_ms)}"
    return (
        Cell(safe(task.name), dim=task.removed_ms is not None),
        Cell(safe(when)),
        Cell(safe(definition.type)),
        Cell(safe(task.queue)),
        Cell(ago(task.last_ms, now_ms), right=True),
        Cell(safe(task.last_task or "-")),
        Cell(ago(task.next_ms, now_ms), right=True),
        Cell(_remark(task, now_ms), colour="yellow"),
    )


def _remark(task: PeriodicTask, now_ms: int) -> str:
    if task.removed_ms is not None:
        return f"removed {ago(task.removed_ms, now_ms)}"
    if task.paused_ms is not None:
        return "paused" + (f": {safe(task.pause_reason)}" if task.pause_reason else "")
    if task.next_ms is None:
        return "means nothing to this release"
    return "nobody leads: start a worker" if task.next_ms < now_ms - 60_000 else ""

"""`dtq limits list|set|clear`: how many tasks may run and start, how many do and wait, and others for a while."""

import re
from collections.abc import Sequence
from typing import Literal

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import CONTEXT, as_queue, common
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, ago
from dtq_engine.cli.values import duration_s
from dtq_engine.cli.verbs import actor
from dtq_engine.harmless import safe
from dtq_engine.limit_shapes import LimitsShape, LimitVerbShape, limit_shape
from dtq_engine.limit_states import LimitState
from dtq_engine.limits import QUEUE_WIDE, Rate
from dtq_engine.validate import shown
from dtq_engine.words import span

HEADERS = (
    Column("QUEUE", least=8),
    Column("LIMIT", least=12),
    Column("RUNNING"),
    Column("AT MOST"),
    Column("RATE"),
    Column("WAITING"),
    Column("", least=8),
)

_WHOLE = r"[0-9]{1,18}"
_RATE = re.compile(rf"({_WHOLE})/(.+)")


def _as_most(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "none":
        return value
    if not re.fullmatch(_WHOLE, value):
        raise click.BadParameter(f"{shown(value)} is no number: say how many may run at once, or 'none'.")
    return int(value)


def _as_rate(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Rate | str | None:
    if value is None or value == "none":
        return value
    found = _RATE.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{shown(value)} is no rate: say starts and a time, such as 100/60s, or 'none'.")
    try:
        return int(found[1]), duration_s(found[2])
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


@click.group(context_settings=CONTEXT, short_help="List, set or clear limits.")
def limits() -> None:
    """Limits: how many tasks may run at once and start in a time, over all workers; list, set or clear them."""


@limits.command("list", short_help="List limits: what they allow, and what runs and waits.")
@click.option("--queue", callback=as_queue, help="Only those of this queue.")
@common
@click.pass_obj
def list_limits(console: Console, queue: str | None) -> int:
    """List limits: what they allow, how many tasks run, and how many wait for them. `*` is that of a whole queue.

    \b
    Example:
      dtq limits list
      dtq limits list --json | jq '.limits[] | select(.waiting > 0) | .name'
    """
    store = console.app().store
    found = store.limits.list(None if queue is None else [queue])
    if console.json:
        console.emit(LimitsShape([limit_shape(each) for each in found]))
    elif found:
        now_ms = store.now_ms()
        console.show_table(HEADERS, [_row(each, now_ms) for each in found])
    else:
        console.note("There is no limit: make one by app.limit(…) and name it in a task, and start a worker.")
    return 0


@limits.command("set", short_help="Let other numbers be in force than the code's.")
@click.argument("queue", callback=as_queue)
@click.argument("name", default=QUEUE_WIDE)
@click.option("--max-running", metavar="N", callback=_as_most, help="Most that may run at once, or 'none'.")
@click.option("--rate", metavar="N/TIME", callback=_as_rate, help="Most starts in any such time, or 'none'.")
@click.option("--reason", default="", help="Shown to whoever looks at it.")
@common
@click.pass_obj
def set_limit(
    console: Console,
    queue: str,
    name: str,
    *,
    max_running: int | Literal["none"] | None,
    rate: Rate | Literal["none"] | None,
    reason: str,
) -> int:
    """Let other numbers be in force for the limit NAME of QUEUE, or for all of QUEUE, until they are cleared.

    What is not given stays as the code says it. A limit that is raised lets those who wait go on at once.

    \b
    Example:
      dtq limits set payments stripe --max-running 1 --reason "they ask us to be gentle"
      dtq limits set mail --rate 100/60s
    """
    if max_running is None and rate is None:
        raise click.UsageError("Give --max-running, --rate, or both; `none` lifts one.")
    store = console.app().store
    store.limits.set(queue, name, max_running=max_running, rate=rate, actor=actor(), reason=reason)
    label = safe(f"{queue} {name}" if name != QUEUE_WIDE else queue)
    return _done(console, queue, name, "set", f"{label} is limited so; go back by: dtq limits clear {label}")


@limits.command("clear", short_help="Let the code's numbers be in force again.")
@click.argument("queue", callback=as_queue)
@click.argument("name", default=QUEUE_WIDE)
@click.option("--reason", default="", help="Kept in the audit log.")
@common
@click.pass_obj
def clear_limit(console: Console, queue: str, name: str, reason: str) -> int:
    """Let the code's numbers be in force again for the limit NAME of QUEUE, or for all of QUEUE.

    \b
    Example:
      dtq limits clear payments stripe
    """
    console.app().store.limits.clear(queue, name, actor=actor(), reason=reason)
    return _done(console, queue, name, "cleared", f"{safe(queue)} {safe(name)} is limited as the code says")


def _done(console: Console, queue: str, name: str, outcome: str, text: str) -> int:
    if console.json:
        console.emit(LimitVerbShape(queue, name, outcome))
    else:
        console.say(text)
    return 0


def _row(state: LimitState, now_ms: int) -> Sequence[Cell]:
    numbers = state.numbers
    rate = "-" if numbers.starts is None else f"{numbers.starts} in {span(numbers.window_ms)}"
    return (
        Cell(safe(state.queue)),
        Cell(safe(state.name)),
        Cell(str(state.running), right=True),
        Cell("-" if numbers.max_running is None else str(numbers.max_running), right=True),
        Cell(rate, right=True),
        Cell("-" if state.is_queue_wide else str(state.waiting), right=True),
        Cell(_remark(state, now_ms), colour="yellow"),
    )


def _remark(state: LimitState, now_ms: int) -> str:
    keys = sum(bool(each.key) for each in state.buckets)
    waiting = f"waiting for {keys} key{'' if keys == 1 else 's'}" if keys else ""
    if state.override is None:
        return waiting
    by = f" by {safe(state.override.by)}" if state.override.by else ""
    why = f": {safe(state.override.reason)}" if state.override.reason else ""
    said = f"set {ago(state.override.since_ms, now_ms)}{by}{why}"
    return f"{said}; {waiting}" if waiting else said

"""Options that several commands share, and how their text becomes values."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from dtq_engine import validate
from dtq_engine.cli.console import Console
from dtq_engine.cli.lines import Line
from dtq_engine.cli.values import duration_s, instant
from dtq_engine.errors import InvalidTask

F = TypeVar("F", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, Any], Any]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def common(command: F) -> F:
    """`--json`, and `--app` for a command that only needs its settings; both are kept by the console."""
    return _with_json(_app_option("Take the settings from your app, such as shop.tasks:app.")(command))


def common_with_handlers(command: F) -> F:
    """`--json`, and `--app` for a command that knows handlers."""
    return _with_json(_app_option("Your app, such as shop.tasks:app.  [env: DTQ_TASKS]")(command))


def _with_json(command: F) -> F:
    """`--json`; and what is written before the command may also be written after it."""
    return _json_option(_late_no_color(_late_debug(command)))


def _keep_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.ensure_object(Console).json = value


def _keep_app(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    ctx.ensure_object(Console).tasks = value


def _keep_no_color(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Console).colour = False


def _keep_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Console).debug = True


_late_no_color = click.option("--no-color", is_flag=True, hidden=True, expose_value=False, callback=_keep_no_color)
_late_debug = click.option("--debug", is_flag=True, hidden=True, expose_value=False, callback=_keep_debug)
_json_option = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_json,
    help="Print JSON instead of text for people.",
)


def _app_option(help: str) -> Callable[[F], F]:
    return click.option("--app", metavar="MODULE:APP", expose_value=False, callback=_keep_app, help=help)


class InputFile(click.File):
    """A file to read; `-` is standard input, which may be closed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The open file. Raises ClickException if there is none."""
        if value == "-" and sys.stdin is None:
            raise click.ClickException("standard input is closed: name a file, or send the lines through a pipe.")
        return super().convert(value, param, ctx)


def as_queue(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A queue's name; a usage error for what cannot be one."""
    return value if value is None else _checked(validate.check_queue, value)


def as_queues(_ctx: click.Context, _param: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    """Queue names; a usage error for what cannot be one."""
    return [_checked(validate.check_queue, each) for each in value]


def as_type(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A task type's name; a usage error for what cannot be one."""
    return value if value is None else _checked(validate.check_type, value)


def as_id(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A task's id; a usage error for what cannot be one."""
    return value if value is None else _checked(validate.check_id, value)


def as_ids(_ctx: click.Context, _param: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    """Ids of tasks; a usage error for what cannot be one."""
    return [_checked(validate.check_id, each) for each in value]


def _checked(check: Callable[[object], str], value: str) -> str:
    try:
        return check(value)
    except InvalidTask as error:
        raise click.BadParameter(str(error)) from None


def as_duration(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Seconds; a usage error shows how durations are written."""
    try:
        return None if value is None else duration_s(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def as_moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Callable[[int], int] | None:
    """What makes epoch milliseconds of an instant out of those of now; a usage error shows how it is written."""
    if value is None:
        return None
    try:
        seconds = duration_s(value)
        return lambda now_ms: now_ms - round(seconds * 1000)
    except ValueError:
        pass
    try:
        at_ms = round(instant(value).timestamp() * 1000)
        return lambda _now_ms: at_ms
    except ValueError as error:
        raise click.BadParameter(f"{error}, nor a duration such as 10m or 1d.") from None


def task_options(command: F) -> F:
    """The options that describe a task; `described` makes a line of them."""
    for option in reversed(_TASK_OPTIONS):
        command = option(command)
    return command


def described(ctx: click.Context, type_: str) -> Line:
    """The task that the options of this command describe."""
    return Line(type=type_, **ctx.meta.get(_DESCRIBED, {}))


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_DESCRIBED, {})[param.name] = value


def _keep_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    _keep(ctx, param, as_duration(ctx, param, value))


def _keep_instant(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    try:
        _keep(ctx, param, value if value is None else instant(value).isoformat())
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def _keep_ids(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> None:
    _keep(ctx, param, list(as_ids(ctx, param, value)) or None)


def _describing(
    name: str, *, metavar: str, help: str, type: "click.ParamType[Any] | None" = None, callback: Callback = _keep
) -> Callable[[F], F]:
    return click.option(name, metavar=metavar, help=help, type=type, callback=callback, expose_value=False)


_DESCRIBED = "dtq_engine.cli.described"
_AFTER = "Start once this task has succeeded; may be given several times."
_POLICY = "If one of --after fails for good: cancel (it ends too, which is the default), or run all the same."
_UNIQUE = "No second one like it: waiting (for its start), until_done, or no (whatever the handler says)."
_AT_MOST = "Accept no more of these in the time that --per says."
_DEBOUNCE = "Start in this time, unless one like it comes: then that, and the time begins anew."
_TASK_OPTIONS = (
    _describing("--queue", metavar="NAME", help="Instead of the handler's queue, or `default`."),
    _describing("--priority", type=click.IntRange(0, 9), metavar="0-9", help="9 is the most urgent, 5 the default."),
    _describing("--delay", metavar="DURATION", callback=_keep_duration, help="Start no sooner than in this time."),
    _describing("--run-at", metavar="TIME", callback=_keep_instant, help="Start no sooner than at 2026-10-31T08:00."),
    _describing("--id", metavar="TEXT", help="The task's id, instead of a new one."),
    _describing("--idempotency-key", metavar="TEXT", help="Submitting again under this key gives the same task."),
    _describing("--expires-in", metavar="DURATION", callback=_keep_duration, help="Drop it unless started by then."),
    _describing("--timeout", metavar="DURATION", callback=_keep_duration, help="How long an attempt may run."),
    _describing("--max-attempts", type=click.IntRange(1, 100), metavar="NUMBER", help="How often it is tried."),
    click.option("--after", metavar="ID", multiple=True, callback=_keep_ids, expose_value=False, help=_AFTER),
    _describing("--on-parent-failure", type=click.Choice(["cancel", "run"]), metavar="HOW", help=_POLICY),
    _describing("--unique", type=click.Choice(["waiting", "until_done", "no"]), metavar="HOW", help=_UNIQUE),
    _describing("--unique-key", metavar="TEXT", help="What makes tasks alike, instead of all arguments."),
    _describing("--at-most", type=click.IntRange(1, validate.THROTTLE_CAP), metavar="NUMBER", help=_AT_MOST),
    _describing("--per", metavar="DURATION", callback=_keep_duration, help="The time that --at-most counts in."),
    _describing("--debounce", metavar="DURATION", callback=_keep_duration, help=_DEBOUNCE),
    _describing(
        "--debounce-max", metavar="DURATION", callback=_keep_duration, help="Start no later than in this time."
    ),
)

"""`app.periodic`: handlers that run at times, as the code says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import msgspec

from dtq_engine import ids, validate
from dtq_engine.config import Settings
from dtq_engine.deduplication import Rule
from dtq_engine.errors import ConfigurationError, DtqError, InvalidHandler, InvalidTask
from dtq_engine.model import NewTask
from dtq_engine.options import Duration, Options, task_maker
from dtq_engine.periodic import CatchUp, Definition, cron
from dtq_engine.registry import Registry
from dtq_engine.task import Task

LEAST_MS = 1_000
MOST_JITTER_MS = 86_400_000
TICKS_LOOKED_AT = 1_500
"""More than a day has minutes."""

T = TypeVar("T", bound=Task[..., Any, ..., Any])


@dataclass(frozen=True, slots=True)
class Timetable:
    """The periodic tasks of one app; calling it gives the decorator that adds one."""

    registry: Registry

    def __call__(
        self,
        expression: str | None = None,
        *,
        every: Duration | None = None,
        tz: str | None = None,
        catch_up: Literal["skip", "once"] = "skip",
        jitter: Duration | None = None,
        arguments: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Callable[[T], T]:
        """Run the decorated task at each tick, once, however many workers there are. It goes above `@app.task`.

        `expression` is cron's five fields, by the wall clock of the zone `tz` (UTC); or `every` is the time between
        two ticks, counted from 1970-01-01T00:00Z. After an outage `catch_up` lets the ticks that were missed by more
        than a minute go ("skip") or runs one task in place of them all ("once"). `jitter` delays each start by a time
        of up to so much, the same for everyone who looks at that tick. `arguments` go to each call. `name` tells
        several of one task type apart; it is the task's own otherwise. Raises InvalidHandler, which names what is
        wrong.
        """

        def schedule(task: T, /) -> T:
            if not isinstance(task, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidHandler(f"{task!r} cannot be periodic, as it is no task yet: put @app.task(…) below it.")
            self.registry.schedule(
                _definition(
                    task,
                    expression=expression,
                    every=every,
                    tz=tz,
                    catch_up=catch_up,
                    jitter=jitter,
                    arguments=arguments,
                    name=name,
                )
            )
            return task

        return schedule


def _definition(
    task: Task[..., Any, ..., Any],
    *,
    expression: object,
    every: object,
    tz: object,
    catch_up: object,
    jitter: object,
    arguments: object,
    name: object,
) -> Definition:
    """What was given, checked, without what the settings decide."""
    label = task.name if name is None else name
    try:
        cron_text, every_ms, zone = _when(expression, every, tz)
        payload = task.handler.encode_arguments((), _mapping(arguments))
        found = Definition(
            name=_name(label),
            type=task.name,
            cron=cron_text,
            tz=zone,
            every_ms=every_ms,
            catch_up=_catch_up(catch_up),
            jitter_ms=0 if jitter is None else _positive("jitter", jitter, 1, MOST_JITTER_MS),
            queue=task.handler.defaults.queue,
            payload=payload.decode(),
            limits=task.handler.buckets(payload),
        )
        _check_debounced(found, task.handler.defaults.deduplication)
        return found
    except (InvalidHandler, InvalidTask) as error:
        raise InvalidHandler(f"the periodic task {validate.shown(label)} cannot be registered: {error}") from None


def _check_debounced(definition: Definition, rule: Rule | None) -> None:
    """Raise InvalidHandler if a debounced task is put off by each tick anew, or if its start is said twice."""
    if rule is None or rule.debounce_ms is None:
        return
    if definition.jitter_ms:
        raise InvalidHandler("jitter says when a task starts, and so does its debounce: drop one of them.")
    if rule.debounce_max_ms is not None:
        return
    tick_ms = definition.ticks.after(0)
    for _ in range(TICKS_LOOKED_AT):
        before_ms, tick_ms = tick_ms, definition.ticks.after(tick_ms)
        if tick_ms - before_ms > rule.debounce_ms or tick_ms > validate.TEN_YEARS_MS:
            return
    raise InvalidHandler("each tick would put off its debounced task, which never runs: give it debounce_max=….")


def _name(value: object) -> str:
    try:
        return validate.check_type(value)
    except InvalidTask as error:
        raise InvalidHandler(str(error).replace("type", "name", 1)) from None


def _when(expression: object, every: object, tz: object) -> tuple[str | None, int | None, str]:
    """The expression, the milliseconds, and the zone, two of which say when."""
    if (expression is None) == (every is None):
        raise InvalidHandler("say when it runs, by a cron expression or by `every`, but not both.")
    if every is not None:
        if tz is not None:
            raise InvalidHandler("`every` counts seconds in no time zone: drop tz, or give a cron expression.")
        return None, _positive("every", every, LEAST_MS, validate.TEN_YEARS_MS), "UTC"
    if not isinstance(expression, str):
        raise InvalidHandler(
            f"{validate.shown(expression)} is no cron expression: give text, such as '*/5 * * * *', or `every=…`."
        )
    zone = "UTC" if tz is None else tz
    if not isinstance(zone, str):
        raise InvalidHandler(f"tz cannot be {validate.shown(zone)}: use the name of a zone, such as 'Europe/Berlin'.")
    cron(expression, zone)
    return " ".join(expression.split()), None, zone


def _positive(field: str, value: object, low_ms: int, high_ms: int) -> int:
    return validate.duration_ms(field, value, low_ms=low_ms, high_ms=high_ms)


def _catch_up(value: object) -> CatchUp:
    if not isinstance(value, str) or value not in set(CatchUp):
        raise InvalidHandler(f"catch_up cannot be {validate.shown(value)}: use 'skip' or 'once'.")
    return CatchUp(value)


def _mapping(arguments: object) -> Mapping[str, Any]:
    if arguments is None:
        return {}
    said, given = validate.shown(arguments), cast("Mapping[Any, Any]", arguments)
    if not isinstance(arguments, Mapping) or not all(isinstance(each, str) for each in given):
        raise InvalidHandler(f"arguments cannot be {said}: use a mapping of names to values.")
    return given


def definitions(registry: Registry, settings: Settings) -> tuple[Definition, ...]:
    """The periodic tasks of an app as its workers announce them, by name, with what the settings decide.

    Raises ConfigurationError if one would be refused as a task.
    """
    problems: list[str] = []
    found: list[Definition] = []
    for each in registry.periodic():
        handler = registry.get(each.type)
        assert handler is not None, "a task is registered before it is scheduled"
        make = task_maker(each.type, handler.defaults, Options(), settings, handler.bind_payload)
        try:
            made = make(id=ids.new_id(), payload=each.payload.encode())
            found.append(_completed(each, made))
            validate.check(found[-1].task(made.id), settings)
        except DtqError as error:
            problems.append(f"The periodic task {each.name} cannot run: {error}")
    if problems:
        raise ConfigurationError(problems)
    return tuple(found)


def _completed(definition: Definition, made: NewTask) -> Definition:
    """A definition with what the settings say of its tasks, one of which was `made`."""
    return msgspec.structs.replace(
        definition,
        priority=made.priority,
        expires_in_ms=made.expires_in_ms,
        timeout_ms=made.timeout_ms,
        retry=made.retry,
        keep_result=made.keep_result,
        restartable=made.restartable,
        deduplication=made.deduplication,
    )

"""What a task type decides for all its tasks, and what a call decides for one."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TypeVar

from dtq_engine import codec, validate
from dtq_engine.config import Settings
from dtq_engine.deduplication import DeduplicationOptions, Rule, read_rule
from dtq_engine.errors import InvalidHandler, InvalidTask
from dtq_engine.limits import LimitUse
from dtq_engine.model import NewTask, Parent, RetryPolicy
from dtq_engine.unique_keys import Bind
from dtq_engine.words import nearest

Duration = float | timedelta
"""Seconds, or a timedelta."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a task type decides; None leaves it to the settings."""

    queue: str = "default"
    priority: int = 5
    max_attempts: int | None = None
    timeout_ms: int | None = None
    retry_base_delay_ms: int | None = None
    retry_max_delay_ms: int | None = None
    retry_jitter: float | None = None
    expires_in_ms: int | None = None
    keep_result: bool = True
    restartable: bool = False
    redact: tuple[str, ...] = ()
    deduplication: Rule | None = None
    limits: tuple[LimitUse, ...] = ()

    def retry_policy(self, settings: Settings, max_attempts: int | None = None) -> RetryPolicy:
        """The retry numbers of a task, each from the first of call, type and settings that gives one."""
        return RetryPolicy(
            max_attempts=_first(max_attempts, self.max_attempts, settings.max_attempts),
            base_delay_ms=_first(self.retry_base_delay_ms, round(settings.retry_base_delay_s * 1000)),
            max_delay_ms=_first(self.retry_max_delay_ms, round(settings.retry_max_delay_s * 1000)),
            jitter=_first(self.retry_jitter, settings.retry_jitter),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one call decides; None leaves it to the task type."""

    id: str | None = None
    queue: str | None = None
    priority: int | None = None
    delay_ms: int | None = None
    run_at_ms: int | None = None
    expires_in_ms: int | None = None
    timeout_ms: int | None = None
    max_attempts: int | None = None
    idempotency_key: str | None = None
    headers: Mapping[str, str] | None = None
    deduplication: Rule | None = None
    after: tuple[Parent, ...] | None = None
    run_anyway: bool | None = None

    def over(self, earlier: "Options") -> "Options":
        """These options, and the earlier ones where these say nothing."""
        if self.delay_ms is not None:
            earlier = replace(earlier, run_at_ms=None)
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.deduplication is not None:
            given["deduplication"] = self.deduplication.over(earlier.deduplication)
        return replace(earlier, **{name: value for name, value in given.items() if value is not None})


def read_options(
    *,
    delay: Duration | None,
    run_at: datetime | None,
    priority: int | None,
    queue: str | None,
    idempotency_key: str | None,
    expires_in: Duration | None,
    timeout: Duration | None,
    max_attempts: int | None,
    headers: Mapping[str, str] | None,
    id: str | None,
    same: DeduplicationOptions,
) -> Options:
    """The options of a call as given. Raises InvalidTask, which names the one that is wrong."""
    if delay is not None and run_at is not None:
        raise InvalidTask("run_at", "delay and run_at exclude each other: give one of them.")
    return Options(
        id=_given(id, validate.check_id),
        queue=_given(queue, validate.check_queue),
        priority=_given(priority, validate.priority),
        delay_ms=_given(delay, lambda value: validate.duration_ms("delay", value)),
        run_at_ms=_given(run_at, lambda value: validate.instant_ms("run_at", value)),
        expires_in_ms=_given(expires_in, validate.expires_in_ms),
        timeout_ms=_given(timeout, validate.timeout_ms),
        max_attempts=_given(max_attempts, validate.max_attempts),
        idempotency_key=_given(idempotency_key, validate.check_idempotency_key),
        headers=_given(headers, validate.check_headers),
        deduplication=read_rule(**same),
    )


def read_defaults(
    type: str,
    *,
    queue: str,
    priority: int,
    max_attempts: int | None,
    timeout: Duration | None,
    retry_base_delay: Duration | None,
    retry_max_delay: Duration | None,
    retry_jitter: float | None,
    expires_in: Duration | None,
    keep_result: bool,
    restartable: bool,
    redact: tuple[str, ...],
    same: DeduplicationOptions,
    taker: Callable[..., object],
    limits: tuple[LimitUse, ...] = (),
) -> Defaults:
    """The options of a task type as given to `taker`. Raises InvalidHandler, which names the one that is wrong."""
    try:
        check_names(same, taker)
        validate.check_type(type)
        return Defaults(
            queue=validate.check_queue(queue),
            priority=validate.priority(priority),
            max_attempts=_given(max_attempts, validate.max_attempts),
            timeout_ms=_given(timeout, validate.timeout_ms),
            retry_base_delay_ms=_given(retry_base_delay, lambda value: validate.duration_ms("retry_base_delay", value)),
            retry_max_delay_ms=_given(retry_max_delay, lambda value: validate.duration_ms("retry_max_delay", value)),
            retry_jitter=_given(retry_jitter, lambda value: validate.fraction("retry_jitter", value)),
            expires_in_ms=_given(expires_in, validate.expires_in_ms),
            keep_result=validate.flag("keep_result", keep_result),
            restartable=validate.flag("restartable", restartable),
            redact=validate.names("redact", redact),
            deduplication=_checked(read_rule(**same)),
            limits=limits,
        )
    except InvalidTask as error:
        raise InvalidHandler(f"task {type!r} cannot be registered: {error}") from None


def check_names(same: DeduplicationOptions, taker: Callable[..., object]) -> None:
    """Raise InvalidTask for an option that `taker` does not have: Python lets any name pass beside a TypedDict's."""
    known = DeduplicationOptions.__annotations__
    for name in same.keys() - known.keys():
        parameters = inspect.signature(taker).parameters.values()
        options = [*(each.name for each in parameters if each.kind is each.KEYWORD_ONLY), *known]
        raise InvalidTask(name, f"there is no option {name}; {nearest(name, options, 'remove it.')}")


def rule_of(defaults: Defaults, options: Options) -> Rule | None:
    """What a call says of tasks that are alike, over what the type says. Raises InvalidTask if that is at odds."""
    called = options.deduplication
    return _checked(defaults.deduplication if called is None else called.over(defaults.deduplication))


def task_maker(
    type: str, defaults: Defaults, options: Options, settings: Settings, bind: Bind = codec.decode_object
) -> Callable[..., NewTask]:
    """NewTask with everything filled in but what comes with a call; made once, because a bulk submit calls it often.

    `bind` gives the arguments that a function is called with which makes a unique key of them. Raises InvalidTask for
    another queue than that in which the limits of the type count.
    """
    if defaults.limits and options.queue not in {None, defaults.queue}:
        raise InvalidTask("queue", f"{type} has limits, which count in the queue {defaults.queue}: submit it there.")
    rule = rule_of(defaults, options)
    make = functools.partial(
        NewTask,
        type=type,
        queue=_first(options.queue, defaults.queue),
        priority=_first(options.priority, defaults.priority),
        delay_ms=_first(options.delay_ms, 0),
        run_at_ms=options.run_at_ms,
        expires_in_ms=options.expires_in_ms if options.expires_in_ms is not None else defaults.expires_in_ms,
        timeout_ms=_first(options.timeout_ms, defaults.timeout_ms, round(settings.task_timeout_s * 1000)),
        retry=defaults.retry_policy(settings, options.max_attempts),
        idempotency_key=options.idempotency_key,
        headers=_first(options.headers, {}),
        keep_result=defaults.keep_result,
        restartable=defaults.restartable,
        after=_first(options.after, ()),
    )
    return make if rule is None else rule.maker(make, bind)


def _checked(rule: Rule | None) -> Rule | None:
    if rule is not None:
        rule.plain()
    return rule


def _given(value: object, read: Callable[[object], T]) -> T | None:
    return None if value is None else read(value)


def _first(*values: T | None) -> T:
    return next(each for each in values if each is not None)

"""Periodic tasks: what defines one, when its ticks are, and what is to be done about them now. All without I/O."""

import difflib
import hashlib
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, NoReturn, Protocol

import msgspec
from cronsim import CronSim, CronSimError

from dtq_engine.errors import InvalidHandler
from dtq_engine.model import Deduplication, NewTask, RetryPolicy
from dtq_engine.validate import shown

LATE_MS = 60_000
"""A tick that is no later than this still runs, so that a change of leader costs none; later ones were missed."""

CORRECTION_MS = 3 * 3_600_000
"""A clock put back by more was wrong before, and ticks count anew; by less, no tick comes again. So it is in cron."""

NAME_HEADER, TICK_HEADER = "dtq-periodic", "dtq-tick"

_YEAR_MS = 366 * 86_400_000


class CatchUp(StrEnum):
    """What becomes of ticks that were missed: SKIP lets them go, ONCE runs one task in place of them all."""

    SKIP = "skip"
    ONCE = "once"


class Ticks(Protocol):
    """The times at which something is due, in milliseconds since the epoch."""

    def after(self, ms: int) -> int:
        """The first tick after an instant."""
        ...

    def latest(self, since_ms: int, until_ms: int) -> int:
        """The last tick after one instant and no later than another; there must be one."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """A tick each so many milliseconds, counted from the epoch, so that all who count agree."""

    ms: int

    def after(self, ms: int) -> int:
        """The first tick after an instant."""
        return (ms // self.ms + 1) * self.ms

    def latest(self, since_ms: int, until_ms: int) -> int:  # noqa: ARG002 - there is one, so it is not needed
        """The last tick after one instant and no later than another; there must be one."""
        return until_ms // self.ms * self.ms


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, by the wall clock of a zone."""

    expression: str
    zone: tzinfo

    def after(self, ms: int) -> int:
        """The first tick after an instant. Raises InvalidHandler if there is none within fifty years."""
        # Times fixed by hour and minute are given for the first pass of a doubled hour, and so may be past.
        for tick in CronSim(self.expression, datetime.fromtimestamp(ms // 1000, self.zone)):
            if (tick_ms := int(tick.timestamp()) * 1000) > ms:
                return tick_ms
        raise InvalidHandler(
            f"the cron expression {shown(self.expression)} matches no time in fifty years: correct it."
        )

    def latest(self, since_ms: int, until_ms: int) -> int:
        """The last tick after one instant and no later than another; there must be one."""
        span_ms, tick_ms = 3_600_000, until_ms + 1
        while tick_ms > until_ms:
            tick_ms = self.after(max(since_ms, until_ms - span_ms))
            span_ms *= 2
        while (following_ms := self.after(tick_ms)) <= until_ms:
            tick_ms = following_ms
        return tick_ms


@lru_cache(maxsize=1024)
def cron(expression: str, tz: str) -> Cron:
    """The ticks of a cron expression. Raises InvalidHandler, which says what is wrong with it or the zone."""
    zone = _zone(tz)
    if len(expression.split()) != 5:
        raise InvalidHandler(
            f"the cron expression {shown(expression)} cannot be read: "
            f"give it five fields, minute hour day-of-month month day-of-week, such as '*/5 * * * *'."
        )
    ticks = Cron(expression, zone)
    try:
        ticks.after(0)
    except CronSimError as error:
        raise InvalidHandler(
            f"the cron expression {shown(expression)} cannot be read: "
            f"{_lower(error)} is out of range or no cron syntax."
        ) from None
    return ticks


def _lower(error: CronSimError) -> str:
    return "the " + str(error).removeprefix("Bad ")


def _zone(tz: str) -> tzinfo:
    if tz == "UTC":  # known everywhere, also where there is no database of time zones
        return UTC
    if tz in _OF_THE_MACHINE:
        raise InvalidHandler(f"the time zone {tz!r} may be another on each machine: name the one that is meant.")
    try:
        return zoneinfo.ZoneInfo(tz)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        _refuse_zone(tz)


_OF_THE_MACHINE = frozenset({"localtime", "posixrules"})


def _refuse_zone(tz: str) -> NoReturn:
    known = zoneinfo.available_timezones()
    if not known:
        raise InvalidHandler(f"the time zone {shown(tz)} is unknown, as all are: install the package tzdata.")
    by_case = {each.lower(): each for each in known - _OF_THE_MACHINE}
    near = difflib.get_close_matches(tz.lower(), by_case, n=1)
    hint = f"did you mean {by_case[near[0]]!r}?" if near else "use a name such as 'Europe/Berlin', or 'UTC'."
    raise InvalidHandler(f"the time zone {shown(tz)} is unknown: {hint}") from None


_Positive = Annotated[int, msgspec.Meta(gt=0, lt=10**14)]


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the code says of one periodic task, as workers announce it: when, and which task.

    `cron` with `tz`, or `every_ms`, says when. `payload` is the JSON object of the arguments.
    """

    name: str
    type: str
    cron: str | None = None
    tz: str = "UTC"
    every_ms: _Positive | None = None
    catch_up: CatchUp = CatchUp.SKIP
    jitter_ms: Annotated[int, msgspec.Meta(ge=0, lt=10**14)] = 0
    queue: str = "default"
    payload: str = "{}"
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 5
    expires_in_ms: _Positive | None = None
    timeout_ms: _Positive = 300_000
    retry: RetryPolicy = RetryPolicy()
    keep_result: bool = True
    restartable: bool = False
    deduplication: Deduplication | None = None
    limits: tuple[str, ...] = ()

    @property
    def schedule(self) -> str:
        """When its ticks are, on one line."""
        return f"every {self.every_ms} ms" if self.every_ms is not None else f"{self.cron} ({self.tz})"

    @property
    def digest(self) -> str:
        """What tells it from another definition under this name: 16 hexadecimal digits."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of each of its tasks, as JSON values."""
        return msgspec.json.decode(self.payload, type=dict[str, Any])

    @property
    def ticks(self) -> Ticks:
        """When it is due. Raises InvalidHandler if the zone or the expression mean nothing here."""
        return Every(self.every_ms) if self.every_ms is not None else cron(self.cron or "", self.tz)

    def task(self, id: str, tick_ms: int | None = None) -> NewTask:
        """The task of a tick, or one out of turn; its headers say so."""
        tick = {} if tick_ms is None else {TICK_HEADER: _written(tick_ms)}
        return NewTask(
            id=id,
            type=self.type,
            payload=self.payload.encode(),
            queue=self.queue,
            priority=self.priority,
            run_at_ms=None if tick_ms is None or not self.jitter_ms else tick_ms + self._delay_ms(tick_ms),
            expires_in_ms=self.expires_in_ms,
            timeout_ms=self.timeout_ms,
            retry=self.retry,
            headers={NAME_HEADER: self.name, **tick},
            keep_result=self.keep_result,
            restartable=self.restartable,
            deduplication=self.deduplication,
            limits=self.limits,
        )

    def task_id(self, tick_ms: int) -> str:
        """The id of a tick's task: always the same."""
        stem = "".join(each if each.isalnum() else "-" for each in self.name)[:32]
        mark = hashlib.sha256(self.name.encode()).hexdigest()[:6]
        return f"{stem}-{mark}-{_written(tick_ms).translate(_IN_IDS)}"

    def _delay_ms(self, tick_ms: int) -> int:
        number = hashlib.sha256(f"{self.name} {tick_ms}".encode()).digest()[:8]
        return int.from_bytes(number) * self.jitter_ms >> 64


_IN_IDS = str.maketrans(".", "_", "-:")


def _written(ms: int) -> str:
    precision = "seconds" if ms % 1000 == 0 else "milliseconds"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Turn:
    """All ticks up to `tick_ms` are dealt with by this; `runs`: by a task for that tick."""

    tick_ms: int
    runs: bool


def next_turn(ticks: Ticks, catch_up: CatchUp, at_ms: int, now_ms: int) -> Turn | None:
    """What to do now about a definition whose ticks up to `at_ms` have been dealt with; None if no tick is due."""
    if at_ms > now_ms + CORRECTION_MS:
        return Turn(now_ms, runs=False)
    due_ms = ticks.after(max(at_ms, now_ms - LATE_MS - 1))
    if due_ms <= now_ms:
        return Turn(due_ms, runs=True)
    if ticks.after(at_ms) > now_ms:
        return None
    return Turn(ticks.latest(at_ms, now_ms), runs=catch_up is CatchUp.ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    """A periodic task as Redis has it: its definition, and how far it has come.

    `at_ms`: its ticks up to then have been dealt with. `last_ms` and `last_task` are the tick (or the time of the
    trigger) and the id of the latest task that was made of it.
    """

    definition: Definition
    digest: str
    at_ms: int
    last_ms: int | None = None
    last_task: str | None = None
    paused_ms: int | None = None
    paused_by: str = ""
    pause_reason: str = ""
    removed_ms: int | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.definition.name

    @property
    def queue(self) -> str:
        """Where its tasks wait."""
        return self.definition.queue

    @property
    def is_active(self) -> bool:
        """Whether it runs at its ticks: it is neither paused nor removed."""
        return self.paused_ms is None and self.removed_ms is None

    @property
    def next_ms(self) -> int | None:
        """Its next tick, in the past while nobody deals with it; None while it is not active or means nothing here."""
        if not self.is_active:
            return None
        try:
            return self.definition.ticks.after(self.at_ms)
        except InvalidHandler:
            return None

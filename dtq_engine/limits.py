"""Limits: how many tasks may run at once, and start in a span of time, over the whole fleet. All without I/O."""

import difflib
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NoReturn, cast

import msgspec

from dtq_engine import codec
from dtq_engine.errors import InvalidLimit, InvalidTask, NotJson
from dtq_engine.validate import duration_ms, is_queue, shown

QUEUE_WIDE = "*"
"""What the limit of a whole queue is called, and its bucket."""

MAX_RUNNING = 1_000_000
MAX_STARTS = 100_000
MAX_WINDOW_MS = 31 * 86_400_000
MOST_PARAMETERS = 4
LIMITS_CAP = 8
"""Of one task; so it is with the parameters of one limit."""

Rate = tuple[int, float | timedelta]
"""So many starts in any so many seconds (or timedelta)."""

Parameters = str | Sequence[str] | None
"""The parameters of a task's function that a limit counts by, each value having its own bucket; None for one in all."""

is_limit_name = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}").fullmatch
"""Whether a text can be the name of a limit; that of a whole queue is QUEUE_WIDE."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.:@-]{1,40}").fullmatch


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a limit: most that may run at once, and most starts in any `window_ms`; None for no such limit."""

    max_running: int | None = None
    starts: int | None = None
    window_ms: int | None = None

    def __str__(self) -> str:
        """As the scripts read it."""
        return f"{self.max_running or 0}/{self.starts or 0}/{self.window_ms or 0}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit as the code has it; `queue` is that of a queue-wide one, whose name is `*`."""

    name: str
    numbers: Numbers
    queue: str | None = None


Named = Limit | str | Sequence[Limit | str] | Mapping[str, Parameters] | None
"""The limits of a task type: one, several, or each with what it counts by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """That the tasks of a type have a limit: in one bucket, or one for each value of the parameters `key`.

    `otherwise` has the parameters' defaults, for calls that do not pass them.
    """

    name: str
    key: tuple[str, ...] = ()
    otherwise: tuple[str | int | None, ...] = ()

    def bucket(self, arguments: Mapping[str, Any]) -> str:
        """The bucket of a task with these arguments. Raises InvalidTask unless its key is strings or whole numbers."""
        return "/".join([self.name, *map(self._part, self.key, self.otherwise, [arguments] * len(self.key))])

    def _part(self, name: str, otherwise: str | int | None, arguments: Mapping[str, Any]) -> str:
        value = arguments.get(name, otherwise)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidTask(
                name,
                f"the limit {self.name} counts by {name}, which cannot be {shown(value)}: pass a string or a whole "
                f"number.",
            )
        text = str(value)
        return text if _PLAIN_KEY(text) else "#" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def buckets_of(uses: Sequence[LimitUse], payload: bytes) -> tuple[str, ...]:
    """The buckets of a task with this payload, each once. Raises InvalidTask as `LimitUse.bucket` does, and NotJson."""
    arguments = codec.decode_object(payload) if any(use.key for use in uses) else {}
    return tuple(dict.fromkeys(use.bucket(arguments) for use in uses))


def published_buckets(options: Mapping[str, Any], payload: bytes) -> tuple[str, ...]:
    """The buckets of a task with this payload, by what workers publish of its type's options (`TaskSchema.defaults`).

    Raises InvalidTask if the arguments cannot name one, and NotJson if the payload is no object.
    """
    published = options.get("limits")
    return buckets_of(msgspec.convert(published, tuple[LimitUse, ...]), payload) if published else ()


@dataclass(frozen=True, slots=True)
class Declared:
    """The limits of an app as its workers declare them; `homes` has, by name, the queue of the tasks that name each."""

    limits: tuple[Limit, ...] = ()
    homes: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, queue: str) -> tuple[tuple[str, str], ...]:
        """What a queue is told: names and numbers, the last of which says whether its tasks name the limit."""
        return tuple(
            (limit.name, f"{limit.numbers}/{int(limit.queue == queue or self.homes.get(limit.name) == queue)}")
            for limit in self.limits
            if limit.queue in {None, queue}
        )


# What the code says -------------------------------------------------------------------------------------


def read_limit(name: object, *, max_running: object, rate: object, queue: str | None = None) -> Limit:
    """A limit as given. Raises InvalidLimit, which names what is wrong."""
    label = f"the limit {name!r}" if queue is None else f"the limit of the queue {queue!r}"
    if queue is None and not (isinstance(name, str) and is_limit_name(name)):
        raise InvalidLimit(
            f"a limit cannot be called {shown(name)}: use 1 to 64 letters, digits, '_', '.', ':' or '-', the first a "
            f"letter, digit or '_'."
        )
    if queue is not None and not is_queue(queue):
        raise InvalidLimit(f"there is no queue {shown(queue)}: use lower-case letters, digits, '_' or '-'.")
    if max_running is None and rate is None:
        raise InvalidLimit(f"{label} limits nothing: give it max_running=…, or rate=(starts, seconds), or both.")
    numbers = Numbers(read_max(label, max_running), *read_rate(label, rate))
    return Limit(QUEUE_WIDE if queue is not None else str(name), numbers, queue)


def read_max(label: str, value: object) -> int | None:
    """Most that may run at once, or None. Raises InvalidLimit, which begins with the label."""
    if value is not None and (type(value) is not int or not 1 <= value <= MAX_RUNNING):
        raise InvalidLimit(
            f"{label}: max_running cannot be {shown(value)}: use a whole number from 1 to {MAX_RUNNING}; to stop a "
            f"queue, pause it."
        )
    return value


def read_rate(label: str, value: object) -> tuple[int | None, int | None]:
    """Starts and the milliseconds that they are counted in, or None for both. Raises InvalidLimit."""
    if value is None:
        return None, None
    said = shown(value)
    pair = cast("Sequence[object]", value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2:
        raise InvalidLimit(f"{label}: rate cannot be {said}: use (starts, seconds), such as (100, 60).")
    starts, window = pair
    if type(starts) is not int or not 1 <= starts <= MAX_STARTS:
        raise InvalidLimit(
            f"{label}: rate cannot begin with {shown(starts)}: use a whole number of starts from 1 to {MAX_STARTS}."
        )
    try:
        return starts, duration_ms("rate", window, low_ms=1, high_ms=MAX_WINDOW_MS)
    except InvalidTask:
        raise InvalidLimit(
            f"{label}: rate cannot span {shown(window)}: use seconds or a timedelta, from 0.001 s to 31 days."
        ) from None


def read_uses(task: str, limit: object, limit_key: object) -> tuple[LimitUse, ...]:
    """The limits that a task type names, as given to `app.task`. Raises InvalidLimit, which names what is wrong.

    `limit` is a name, several, or a mapping of names to the parameters that each counts by; `limit_key` has those
    of all that are not in a mapping.
    """
    said = shown(limit)
    if limit is None:
        if limit_key is not None:
            _refuse(task, "limit_key says what a limit counts by: name the limit by limit=…")
        return ()
    if isinstance(limit, Mapping):
        if limit_key is not None:
            _refuse(task, "limit says for each limit what it counts by: drop limit_key")
        pairs = list(cast("Mapping[object, object]", limit).items())
    else:
        names = cast("Sequence[object]", limit) if isinstance(limit, list | tuple) else (limit,)
        pairs = [(name, limit_key) for name in names]
    uses = tuple(_read_use(task, name, key) for name, key in pairs)
    if not 1 <= len(uses) <= LIMITS_CAP or len({use.name for use in uses}) < len(uses):
        _refuse(task, f"limit cannot be {said}: name 1 to {LIMITS_CAP} limits, each once")
    return uses


def _read_use(task: str, limit: object, key: object) -> LimitUse:
    name = limit.name if isinstance(limit, Limit) and limit.queue is None else limit
    if not isinstance(name, str) or not is_limit_name(name):
        _refuse(task, f"limit cannot be {shown(limit)}: use the name of a limit that was made by app.limit(…)")
    given = () if key is None else (key,) if isinstance(key, str) else key
    words = cast("Sequence[object]", given) if isinstance(given, tuple | list) else (None,)
    if not all(isinstance(word, str) for word in words) or len(words) > MOST_PARAMETERS:
        _refuse(task, f"limit_key cannot be {shown(key)}: name a parameter of its function, or up to {MOST_PARAMETERS}")
    return LimitUse(name=name, key=tuple(cast("Sequence[str]", words)))


def bound(task: str, uses: Iterable[LimitUse], parameters: Mapping[str, object]) -> tuple[LimitUse, ...]:
    """The uses with the defaults of the function's parameters. Raises InvalidLimit for a parameter it does not have.

    `parameters` are those that arguments can be passed for, each with its default, or `...` where it has none.
    """
    for use in uses:
        for name in use.key:
            if name not in parameters:
                hint = _near(name, parameters, "it takes", "no arguments")
                _refuse(task, f"limit_key names {name!r}, which is no parameter of its function; {hint}")
    return tuple(replace(use, otherwise=tuple(_default(parameters[name]) for name in use.key)) for use in uses)


def _default(value: object) -> str | int | None:
    """A default as it would be in the payload had it been passed, so that both count in one bucket."""
    try:
        plain = codec.decode(codec.write(value))
    except NotJson:
        return None
    return plain if isinstance(plain, str | int) and not isinstance(plain, bool) else None


def check_known(task: str, uses: Iterable[LimitUse], known: Collection[str]) -> None:
    """Raise InvalidLimit if a limit was not made."""
    for use in uses:
        if use.name not in known:
            hint = _near(use.name, known, "there are", "none yet: make it before by app.limit(…)")
            _refuse(task, f"there is no limit {use.name!r}; {hint}")


def check_home(task: str, use: LimitUse, queue: str, home: str | None) -> None:
    """Raise InvalidLimit if tasks of another queue name the limit already."""
    if home not in {None, queue}:
        _refuse(
            task,
            f"its limit {use.name!r} counts within one queue, which is {home!r} for other tasks, and {queue!r} here: "
            f"give them the same queue, or a limit each",
        )


def _near(name: str, known: Iterable[str], otherwise: str, nothing: str) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}" if near else f"{otherwise} {', '.join(names) or nothing}"


def _refuse(task: str, problem: str) -> NoReturn:
    raise InvalidLimit(f"task {task!r} cannot be registered: {problem}.")

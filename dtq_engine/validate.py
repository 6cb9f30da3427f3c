"""What a task must look like, checked before it is sent; InvalidTask names the field and what would be right."""

import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec

from dtq_engine import codec
from dtq_engine.config import Settings
from dtq_engine.errors import InvalidTask, NotJson, PayloadTooLarge
from dtq_engine.harmless import safe
from dtq_engine.model import Deduplication, NewTask, RetryPolicy, Unique

TEN_YEARS_MS = 10 * 365 * 86_400_000
TIMEOUT_CAP_MS = 86_400_000
ATTEMPTS_CAP = 100
HEADERS_MAX_BYTES = 4096
KEY_MAX_BYTES = 255
THROTTLE_CAP = 10_000

_QUEUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}").fullmatch
_TYPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}").fullmatch
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}").fullmatch
_BUCKETS = re.compile(r"(\w[\w.:-]{0,63}(/[\w.:@#-]{1,40}){0,4}( (?=.)|$)){1,8}", re.ASCII).fullmatch
_TEXT_ENCODER = msgspec.json.Encoder()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def check(task: NewTask, settings: Settings) -> None:
    """Raise InvalidTask (or its child PayloadTooLarge) unless `task` may be submitted under `settings`."""
    _check_kind("task", task, NewTask)
    _check_names(task, settings.queues)
    _check_payload(task.payload, settings.max_payload_bytes)
    _check_times(task)
    _check_kind("retry", task.retry, RetryPolicy)
    _check_retry(task.retry)
    if task.headers:
        check_headers(task.headers)
    if task.idempotency_key is not None:
        check_idempotency_key(task.idempotency_key)
    if task.deduplication is not None:
        check_deduplication(task.deduplication)
        _check_debounced(task)
    if task.limits:
        _check_kind("limits", task.limits, tuple)
        if not _BUCKETS(" ".join(map(str, task.limits))):
            raise InvalidTask(
                "limits", f"limits cannot be {shown(task.limits)}: let its type's `prepare` make the task."
            )


def check_queue(queue: object, allowed: tuple[str, ...] | None = None) -> str:
    """`queue`, or InvalidTask if it is no queue name or not among the allowed ones."""
    if not isinstance(queue, str) or not _QUEUE(queue):
        raise InvalidTask(
            "queue",
            f"queue cannot be {shown(queue)}: use 1 to 64 lower-case letters, digits, '_' or '-', "
            f"the first a letter or digit.",
        )
    if allowed is not None and queue not in allowed:
        raise InvalidTask("queue", f"queue {queue!r} is not allowed: use one of {', '.join(allowed)}.")
    return queue


def is_queue(name: str) -> bool:
    """Whether a queue may be called so."""
    return _QUEUE(name) is not None


def check_type(name: object) -> str:
    """`name`, or InvalidTask if it cannot name a task type."""
    if not isinstance(name, str) or not _TYPE(name):
        raise InvalidTask(
            "type",
            f"type cannot be {shown(name)}: use 1 to 128 letters, digits, '_', '.', ':' or '-', "
            f"the first a letter, digit or '_'.",
        )
    return name


def check_id(task_id: object) -> str:
    """`task_id`, or InvalidTask if it cannot be a task's id."""
    if not isinstance(task_id, str) or not _ID(task_id):
        raise InvalidTask("id", f"id cannot be {shown(task_id)}: use 1 to 64 letters, digits, '_' or '-'.")
    return task_id


def check_idempotency_key(key: object) -> str:
    """`key`, or InvalidTask unless it is 1 to 255 bytes of printable text."""
    if not isinstance(key, str) or not key.isprintable() or not 1 <= len(key.encode()) <= KEY_MAX_BYTES:
        raise InvalidTask(
            "idempotency_key",
            f"idempotency_key cannot be {shown(key)}: use 1 to {KEY_MAX_BYTES} bytes of printable text.",
        )
    return key


def check_headers(headers: object) -> dict[str, str]:
    """A copy of `headers`, or InvalidTask unless they map strings to strings within 4 KiB as JSON."""
    try:
        copy = msgspec.convert(headers, dict[str, str], strict=True)
        size = len(_TEXT_ENCODER.encode(copy))
    except (msgspec.ValidationError, UnicodeEncodeError):
        message = f"headers cannot be {shown(headers)}: give a mapping of strings to strings."
        raise InvalidTask("headers", message) from None
    if size > HEADERS_MAX_BYTES:
        message = f"headers take {size} bytes as JSON, and {HEADERS_MAX_BYTES} are allowed: send the rest as arguments."
        raise PayloadTooLarge("headers", message)
    return copy


def whole(field: str, value: object, low: int, high: int) -> int:
    """`value`, or InvalidTask unless it is a whole number from `low` to `high` (a bool is none)."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidTask(field, f"{field} cannot be {shown(value)}: use a whole number from {low} to {high}.")
    return value


def fraction(field: str, value: object) -> float:
    """`value`, or InvalidTask unless it is a number from 0 to 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidTask(field, f"{field} cannot be {shown(value)}: use a number from 0 to 1.")
    return value


def flag(field: str, value: object) -> bool:
    """`value`, or InvalidTask unless it is True or False."""
    if value is not True and value is not False:
        raise InvalidTask(field, f"{field} cannot be {shown(value)}: use True or False.")
    return value


def names(field: str, value: object) -> tuple[str, ...]:
    """`value`, or InvalidTask unless it is a tuple of names."""
    refusal = InvalidTask(field, f'{field} cannot be {shown(value)}: use a tuple of names, such as ("card",).')
    given = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (None,)
    if not all(isinstance(each, str) and each for each in given):
        raise refusal
    return cast("tuple[str, ...]", given)


def duration_ms(field: str, value: object, *, low_ms: int = 0, high_ms: int = TEN_YEARS_MS) -> int:
    """Milliseconds in a duration given as seconds or timedelta; InvalidTask unless it is within the bounds."""
    milliseconds = math.nan
    if isinstance(value, timedelta):
        milliseconds = value / _MILLISECOND
    elif isinstance(value, int | float) and not isinstance(value, bool):
        milliseconds = value * 1000
    if not low_ms <= milliseconds <= high_ms:
        raise InvalidTask(
            field,
            f"{field} cannot be {shown(value)}: use seconds from {low_ms / 1000:g} to {high_ms // 1000}, "
            f"as a number or a timedelta.",
        )
    return round(milliseconds)


def instant_ms(field: str, value: object) -> int:
    """Epoch milliseconds of an aware datetime from 1970 to ten years from now; InvalidTask for anything else."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidTask(
            field, f"{field} cannot be {shown(value)}: use a datetime with a time zone, such as datetime.now(UTC)."
        )
    milliseconds = (value - _EPOCH) // _MILLISECOND
    if not 0 <= milliseconds <= _latest_ms():
        raise InvalidTask(field, f"{field} cannot be {value.isoformat()}: use a time from 1970 to ten years from now.")
    return milliseconds


def priority(value: object) -> int:
    """`value`, or InvalidTask unless it is a priority: 0 (whenever there is time) to 9 (most urgent)."""
    return whole("priority", value, 0, 9)


def max_attempts(value: object) -> int:
    """`value`, or InvalidTask unless it is a number of attempts."""
    return whole("max_attempts", value, 1, ATTEMPTS_CAP)


def timeout_ms(value: object) -> int:
    """Milliseconds in a timeout of an attempt; InvalidTask unless it is positive and at most a day."""
    return duration_ms("timeout", value, low_ms=1, high_ms=TIMEOUT_CAP_MS)


def expires_in_ms(value: object) -> int:
    """Milliseconds in which a task must start; InvalidTask unless positive."""
    return duration_ms("expires_in", value, low_ms=1)


def at_most(value: object) -> int:
    """`value`, or InvalidTask unless it is a number of tasks that a throttle may let pass."""
    return whole("at_most", value, 1, THROTTLE_CAP)


def check_deduplication(wanted: Deduplication) -> None:
    """Raise InvalidTask, which names the option, unless what is wanted goes together."""
    _check_kind("deduplication", wanted, Deduplication)
    if wanted.unique is not None:
        _check_kind("unique", wanted.unique, Unique)
    for field in ("per_ms", "debounce_ms", "debounce_max_ms"):
        if (value := getattr(wanted, field)) is not None:
            whole(field, value, 1, TEN_YEARS_MS)
    if (wanted.at_most is None) != (wanted.per_ms is None):
        raise InvalidTask("at_most", "at_most and per say together how many tasks are accepted in how long: give both.")
    if wanted.at_most is not None:
        at_most(wanted.at_most)
    _check_postponing(wanted)
    if wanted.key is not None:
        _check_unique_key(wanted.key)


def _check_postponing(wanted: Deduplication) -> None:
    if wanted.debounce_ms is not None and (wanted.unique is not None or wanted.at_most is not None):
        raise InvalidTask("debounce", "debounce excludes unique and at_most: give one of them.")
    if wanted.debounce_max_ms is not None and wanted.debounce_max_ms < (wanted.debounce_ms or math.inf):
        raise InvalidTask("debounce_max", "debounce_max bounds debounce: give both, and at least as much as debounce.")


def _check_unique_key(key: object) -> None:
    try:
        is_text = isinstance(key, str) and bool(key.encode())
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise InvalidTask("unique_key", f"unique_key cannot be {shown(key)}: use text that is not empty.")


def _check_debounced(task: NewTask) -> None:
    wanted = task.deduplication
    if (
        wanted is not None
        and wanted.debounce_ms is not None
        and (task.delay_ms or task.run_at_ms is not None or task.after)
    ):
        raise InvalidTask("debounce", "debounce says when a task starts: give it no delay, no run_at and no parents.")


def _check_kind(field: str, value: object, kind: type[object]) -> None:
    if not isinstance(value, kind):
        raise InvalidTask(field, f"{field} cannot be {shown(value)}: use a {kind.__name__}.")


def _check_names(task: NewTask, allowed: tuple[str, ...] | None) -> None:
    check_id(task.id)
    check_type(task.type)
    check_queue(task.queue, allowed)
    flag("keep_result", task.keep_result)
    flag("restartable", task.restartable)


def _check_payload(payload: object, limit: int) -> None:
    if not isinstance(payload, bytes):
        raise InvalidTask("payload", f"payload cannot be {shown(payload)}: use a JSON object as UTF-8 bytes.")
    if len(payload) > limit:
        raise PayloadTooLarge(
            "payload",
            f"payload has {len(payload)} bytes, and {limit} are allowed: store the data elsewhere and send "
            f"where it is, or raise DTQ_MAX_PAYLOAD_BYTES.",
        )
    try:
        codec.decode_object(payload)
    except NotJson as error:
        raise InvalidTask("payload", f"payload is refused: {error}") from None


def _check_times(task: NewTask) -> None:
    whole("priority", task.priority, 0, 9)
    whole("delay_ms", task.delay_ms, 0, TEN_YEARS_MS)
    whole("timeout_ms", task.timeout_ms, 1, TIMEOUT_CAP_MS)
    if task.run_at_ms is not None:
        whole("run_at_ms", task.run_at_ms, 0, _latest_ms())
    if task.expires_in_ms is not None:
        whole("expires_in_ms", task.expires_in_ms, 1, TEN_YEARS_MS)
        if task.run_at_ms is None and task.expires_in_ms <= task.delay_ms:
            raise InvalidTask("expires_in", "the task could never start: expires_in must be more than its delay.")


def _latest_ms() -> int:
    """The latest time a task may be due."""
    return int(time.time() * 1000) + TEN_YEARS_MS


def _check_retry(retry: RetryPolicy) -> None:
    whole("max_attempts", retry.max_attempts, 1, ATTEMPTS_CAP)
    whole("retry_base_delay_ms", retry.base_delay_ms, 0, TEN_YEARS_MS)
    whole("retry_max_delay_ms", retry.max_delay_ms, 0, TEN_YEARS_MS)
    fraction("retry_jitter", retry.jitter)


def shown(value: object) -> str:
    """The value as a message may show it: short, whatever its repr does."""
    try:
        text = safe(repr(value))
    except Exception:
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."

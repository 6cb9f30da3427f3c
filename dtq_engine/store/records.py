"""Records as Redis holds them, to and from the model. The fields are listed in `lua/_lib.lua`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from dtq_engine.model import RECORD_VERSION, AttemptError, Claim, NewTask, RetryPolicy, Takes, Task
from dtq_engine.store import deduplication
from dtq_engine.store.link_records import decode_inputs, encode_links
from dtq_engine.store.progress import unpack_progress
from dtq_engine.store.states import status_of

DEFAULT_PRIORITY = 5
NEVER_MS = 9e13
"""Where tasks that wait for their parents have their place in the schedule of the blocked ones."""
ERROR_TYPE_MAX = 200
"""Characters of an error's type that are kept."""


def pack_limits(retry: RetryPolicy, timeout_ms: int) -> str:
    """A task's limits as the record holds them: attempts, base ms, max ms, jitter in thousandths, timeout ms."""
    return f"{retry.max_attempts} {retry.base_delay_ms} {retry.max_delay_ms} {round(retry.jitter * 1000)} {timeout_ms}"


@lru_cache(maxsize=1024)
def unpack_limits(packed: bytes) -> tuple[RetryPolicy, int]:
    """The reverse of `pack_limits`; anything unreadable gives the defaults."""
    try:
        attempts, base, most, jitter, timeout = map(_number, packed.split())
    except ValueError:
        return RetryPolicy(), 0
    return RetryPolicy(attempts, base, most, jitter / 1000), timeout


def unpack_asked(packed: bytes) -> tuple[int, int, RetryPolicy, int]:
    """A record's `r`: priority, creation and timeout in ms with the policy between; defaults for what is unreadable."""
    try:
        priority, created_ms, limits = packed.split(b" ", 2)
        return _number(priority), _number(created_ms), *unpack_limits(limits)
    except ValueError:
        return DEFAULT_PRIORITY, 0, RetryPolicy(), 0


class Execution(NamedTuple):
    """A record's `L`; zeros for a task that never started."""

    holder: str = "-"
    attempt: int = 0
    fence: int = 0
    started_ms: int = 0
    lease_ms: int = 0


def unpack_execution(packed: bytes) -> Execution:
    """A record's `L`; anything unreadable counts as never started."""
    try:
        token, attempt, fence, started_ms, lease_ms = packed.split(b" ")
        return Execution(_text(token), *map(_number, (attempt, fence, started_ms, lease_ms)))
    except ValueError:
        return Execution()


def encode_new(task: NewTask, fingerprint: str | None) -> list[str | bytes | int]:
    """One task as `submit.lua` takes it."""
    pairs: list[str | bytes | int] = []
    if task.run_at_ms is not None:
        pairs += ("+at", task.run_at_ms)
    elif task.delay_ms:
        pairs += ("+delay", task.delay_ms)
    if task.expires_in_ms is not None:
        pairs += ("+expires", task.expires_in_ms)
    if task.headers:
        pairs += ("+headers", msgspec.json.encode(task.headers))
    if task.idempotency_key is not None and fingerprint is not None:
        pairs += ("i", task.idempotency_key, "+print", fingerprint)
    pairs += encode_links(task)
    if not task.keep_result:
        pairs += ("K", "0")
    if task.restartable:
        pairs += ("Z", "1")
    if task.deduplication is not None:
        pairs += deduplication.encode(task, task.deduplication)
    if task.limits:
        pairs += ("c", " ".join(task.limits))
    limits = pack_limits(task.retry, task.timeout_ms)
    return [task.id, task.type, task.payload, task.priority, limits, len(pairs) // 2, *pairs]


def encode_error(error: AttemptError) -> bytes:
    """One attempt's error as the history keeps it; the script puts the time in front."""
    return msgspec.json.encode(replace(error, type=error.type[:ERROR_TYPE_MAX]))


def decode_error(item: bytes) -> AttemptError:
    """The reverse, with `ended_ms` by Redis' clock; something unreadable becomes an error that says so."""
    ended, _, body = item.partition(b" ")
    try:
        return msgspec.structs.replace(_ERROR.decode(body), ended_ms=int(ended)).to_model()
    except (msgspec.MsgspecError, ValueError):
        return AttemptError("Unreadable", "this attempt's error cannot be read")


class _StoredError(msgspec.Struct):
    type: str
    message: str = ""
    traceback: str = ""
    attempt: int = 0
    worker: str = ""
    started_ms: int = 0
    ended_ms: int = 0

    def to_model(self) -> AttemptError:
        return AttemptError(
            self.type, self.message, self.traceback, self.attempt, self.worker, self.started_ms, self.ended_ms
        )


_ERROR = msgspec.json.Decoder(_StoredError)


def decode_headers(raw: bytes) -> dict[str, str]:
    """Headers as a dictionary; empty when there are none or they are unreadable."""
    if not raw:
        return {}
    try:
        return msgspec.json.decode(raw, type=dict[str, str])
    except (msgspec.MsgspecError, ValueError):
        return {}


_ORDINARY = (b"0", b"0", b"", b"", b"", b"", b"")


def decode_claim(described: bytes | Sequence[Any], queue: str, worker: str, token: str) -> Claim:
    """One task as the scripts give it: as `brief` does most, or as `describe` does.

    Never raises, whatever it holds: an error would take the other tasks of its answer along.
    """
    if not isinstance(described, bytes):
        return _decode_described(described, queue, worker, token)
    head, _, payload = described.partition(b"\n")
    try:
        return _decode_brief(head, payload, queue, worker, token)
    except ValueError:
        words = (*head.split(b" ", 8), *[b""] * 8)
        parts = (words[0], words[1], words[8], words[2], b" ".join(words[3:8]), payload)
        return _decode_described(parts, queue, worker, token)


def _decode_brief(head: bytes, payload: bytes, queue: str, worker: str, token: str) -> Claim:
    """`id type entry L r`; the payload came behind it. Every ordinary task comes this way: it is quick."""
    task_id, type_, entry, _, attempt, fence, started, lease, priority, created, limits = head.split(b" ", 10)
    started_ms = int(started)
    retry, timeout_ms = unpack_limits(limits)
    return Claim(
        task_id.decode(),
        queue,
        type_.decode(),
        payload,
        token,
        entry.decode(),
        int(priority),
        int(attempt),
        int(fence),
        worker,
        int(created),
        started_ms,
        started_ms + timeout_ms,
        timeout_ms,
        int(lease),
        retry,
    )


def _decode_described(described: Sequence[Any], queue: str, worker: str, token: str) -> Claim:
    """What has more about it than most; a reclaimed one names the worker that was lost."""
    task_id, type_, asked, entry, execution, payload = described[:6]
    restarts, expiries, keep, restartable, cancel, headers, holder = described[6:13] or _ORDINARY
    takes, inputs = decode_inputs(described[13]) if len(described) > 13 else (Takes.NOTHING, ())
    priority, created_ms, retry, timeout_ms = unpack_asked(asked)
    _, attempt, fence, started_ms, lease_ms = unpack_execution(execution)
    return Claim(
        task_id=_text(task_id),
        queue=queue,
        type=_text(type_),
        payload=payload,
        token=token,
        entry=_text(entry),
        priority=priority,
        attempt=attempt,
        fence=fence,
        worker=_text(holder) or worker,
        created_ms=created_ms,
        started_ms=started_ms,
        deadline_ms=started_ms + timeout_ms,
        timeout_ms=timeout_ms,
        lease_ms=lease_ms,
        retry=retry,
        restarts=_int(restarts),
        lease_expiries=_int(expiries),
        headers=decode_headers(headers),
        keep_result=keep != b"0",
        restartable=restartable == b"1",
        cancel_requested=cancel == b"1",
        inputs=inputs,
        takes=takes,
        saved=_saved(described[14]) if len(described) > 14 else {},
    )


def _saved(flat: Sequence[bytes]) -> dict[str, bytes]:
    """What executions saved, from an answer of HGETALL."""
    return {_text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def decode_task(queue: str, task_id: str, fields: Mapping[bytes, bytes], read: Callable[[bytes], Any]) -> Task | None:
    """A record with its satellites as a Task; None when it cannot be one.

    `read(letter)` gives what the satellite of that letter holds, and for a state when a task is due that waits in it.
    """
    state = fields.get(b"s", b"")
    status = status_of(state)
    if status is None or b"t" not in fields:
        return None
    priority, created_ms, retry, timeout_ms = unpack_asked(fields.get(b"r", b""))
    due_ms = read(state)
    task = Task(
        id=task_id,
        queue=queue,
        type=_text(fields[b"t"]),
        status=status,
        priority=priority,
        attempt=unpack_execution(fields.get(b"L", b"")).attempt,
        retry=retry,
        timeout_ms=timeout_ms,
        created_ms=created_ms,
        payload=fields[b"d"] if b"d" in fields else read(b"p") or b"{}",
        due_ms=int(due_ms) if due_ms is not None and 0 <= due_ms < NEVER_MS else None,
        expires_ms=_optional(fields, b"z"),
        cancel_requested=fields.get(b"x") == b"1",
        reason=_text(fields[b"m"]) if b"m" in fields else None,
        idempotency_key=_text(fields[b"i"]) if b"i" in fields else None,
        unique=deduplication.LETTERS.get(fields.get(b"u", b"")[:1]),
        debounced=fields.get(b"u", b"").startswith(b"b"),
        headers=decode_headers(fields.get(b"h") or read(b"h") or b""),
        is_linked=b"A" in fields,
        version=_int(fields[b"v"]) if b"v" in fields else RECORD_VERSION,
    )
    return _with_executions(task, fields, read)


def _with_executions(task: Task, fields: Mapping[bytes, bytes], read: Callable[[bytes], Any]) -> Task:
    """The task with what is known of how it ran."""
    execution = unpack_execution(fields.get(b"L", b""))
    started_ms = execution.started_ms or None
    result = fields.get(b"R") if b"R" in fields else read(b"r")
    return replace(
        task,
        started_ms=started_ms,
        finished_ms=_optional(fields, b"F"),
        deadline_ms=None if started_ms is None else started_ms + task.timeout_ms,
        worker=_text(fields[b"w"]) if fields.get(b"w") else None,
        fence=execution.fence,
        restarts=_int(fields.get(b"n", b"0")),
        lease_expiries=_int(fields.get(b"y", b"0")),
        previous_attempts=_int(fields.get(b"P", b"0")),
        errors=tuple(decode_error(item) for item in read(b"e") or ()),
        result=result,
        result_size=_optional(fields, b"G") or (None if result is None else len(result)),
        progress=unpack_progress(fields[b"g"]) if b"g" in fields else None,
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _number(word: bytes) -> int:
    """A number as records hold it. Raises ValueError for anything else, and for over 14 digits."""
    if not word.isdigit() or len(word) > 14:
        raise ValueError(word)
    return int(word)


def _int(value: bytes) -> int:
    try:
        return _number(value)
    except ValueError:
        return 0


def _optional(fields: Mapping[bytes, bytes], name: bytes) -> int | None:
    return _int(fields[name]) if fields.get(name) else None

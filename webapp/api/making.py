"""What a request says about a task, completed by what its type and the settings say."""

import functools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UnsetType

from dtq_engine import InvalidTask, NewTask, Parent, RetryPolicy, new_id, published_buckets
from dtq_engine.after import parents_by_id
from dtq_engine.deduplication import Rule, read_published, read_rule
from dtq_engine.unique_keys import literal
from dtq_engine.validate import instant_ms
from webapp.api.requests import NewTaskBody
from webapp.state import Web


def new_task(body: NewTaskBody, here: Web) -> NewTask:
    """The task that a body asks for. Raises InvalidTask for fields at odds and a payload that does not fit its type."""
    payload = b"{}" if isinstance(body.payload, UnsetType) else _compact(bytes(body.payload))
    published = here.catalog.find(body.type)
    if published is not None and len(payload) <= here.settings.max_payload_bytes:
        published.check(payload)
    of_type = here.defaults if published is None else {**here.defaults, **published.defaults}
    timeout_ms, expires_in_ms = _timeout_ms(body), _ms(body.expires_in_seconds)
    queue = of_type["queue"] if body.queue is None else body.queue
    limits = published_buckets(of_type, payload)
    if limits and queue != of_type["queue"]:
        raise InvalidTask(
            "queue", f"{body.type} has limits, which count in the queue {of_type['queue']}: submit it there."
        )
    make = functools.partial(
        NewTask,
        type=body.type,
        queue=queue,
        priority=of_type["priority"] if body.priority is None else body.priority,
        delay_ms=_ms(body.delay_seconds) or 0,
        run_at_ms=_run_at_ms(body),
        expires_in_ms=of_type["expires_in_ms"] if expires_in_ms is None else expires_in_ms,
        timeout_ms=of_type["timeout_ms"] if timeout_ms is None else timeout_ms,
        retry=_retry(of_type, body.max_attempts),
        idempotency_key=body.idempotency_key,
        headers=body.metadata or {},
        keep_result=of_type["keep_result"],
        restartable=of_type["restartable"],
        limits=limits,
        after=_parents(body, here),
    )
    rule = _rule(body, of_type)
    return (make if rule is None else rule.maker(make))(id=body.id or new_id(), payload=payload)


def _parents(body: NewTaskBody, here: Web) -> tuple[Parent, ...]:
    if not body.after:
        if body.on_parent_failure == "run":
            raise InvalidTask("on_parent_failure", "on_parent_failure is about those in after: name some, or drop it.")
        return ()
    return parents_by_id(here.app, body.after, run_anyway=body.on_parent_failure == "run", child=body.id)


def warnings_about(task_type: str, here: Web) -> list[str]:
    """What whoever submits tasks of a type should know."""
    published = here.catalog.find(task_type)
    if published is None:
        return [f"No living worker knows the type {task_type}: its payload is not checked, and it waits for one."]
    return [] if published.is_alive else [f"No living worker knows the type {task_type}: it waits for one."]


def _rule(body: NewTaskBody, of_type: Mapping[str, Any]) -> Rule | None:
    """What the body says of tasks that are alike, over what the type says."""
    published = read_published(body.type, of_type.get("deduplication"))
    given = read_rule(
        unique=body.unique,
        unique_key=literal(body.unique_key),
        at_most=body.at_most,
        per=body.per_seconds,
        debounce=body.debounce_seconds,
        debounce_max=body.debounce_max_seconds,
    )
    return published if given is None else given.over(published)


def _retry(of_type: Mapping[str, Any], max_attempts: int | None) -> RetryPolicy:
    return RetryPolicy(
        of_type["max_attempts"] if max_attempts is None else max_attempts,
        of_type["retry_base_delay_ms"],
        of_type["retry_max_delay_ms"],
        of_type["retry_jitter"],
    )


def _compact(payload: bytes) -> bytes:
    """JSON on one line, its numbers digit by digit as they are; what is out of its limits is refused later."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return msgspec.json.format(payload, indent=-1)
    return payload


def _run_at_ms(body: NewTaskBody) -> int | None:
    if body.run_at is None:
        return None
    if body.delay_seconds is not None:
        raise InvalidTask("run_at", "delay_seconds and run_at exclude each other: give one of them.")
    return instant_ms("run_at", body.run_at)


def _timeout_ms(body: NewTaskBody) -> int | None:
    if body.timeout_ms is not None and body.timeout_seconds is not None:
        raise InvalidTask("timeout_ms", "timeout_ms and timeout_seconds exclude each other: give one of them.")
    return body.timeout_ms if body.timeout_seconds is None else _ms(body.timeout_seconds)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)

"""What is sent over an event socket: JSON objects of under 1 KB, each with a `type`."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from dtq_engine import Event, EventGap, EventType
from dtq_engine.operator_shapes import GAP, EventShape, event_shape

SIZE = 1000
"""The most bytes of a message."""

DETAIL_BYTES = 200
"""An error's name may be of any length; all else that an event has is short."""

TERMINAL = frozenset({"TASK_SUCCEEDED", "TASK_FAILED", "TASK_DEAD_LETTERED", "TASK_CANCELLED", "TASK_EXPIRED"})
"""The ends of tasks: what a reader would miss most."""

EVENTS = frozenset(map(str, EventType))
"""The types of all events."""

REDIS_AWAY = '{"type":"REDIS_AWAY"}'
REDIS_BACK = '{"type":"REDIS_BACK"}'

_encoder = msgspec.json.Encoder()


class Note:
    """Something that was told, as it is sent; written once, however many sockets there are."""

    def __init__(self, told: Event | EventGap) -> None:
        self.told = told

    @cached_property
    def text(self) -> str:
        """The message."""
        told = self.told
        return gap(told.queue, told) if isinstance(told, EventGap) else _text(event_shape(_short(told)))

    @property
    def is_vital(self) -> bool:
        """Whether it is the last that is heard of a task, is of no task, or says that something was not heard."""
        return isinstance(self.told, EventGap) or self.told.task_id is None or self.told.type in TERMINAL


def name(queue: str, number: int) -> str:
    """What names an event among those of all queues."""
    return f"{queue}:{number}"


def gap(queue: str, where: EventGap) -> str:
    """Events that cannot be told any more; `event_id` is the last of them, `missing` how many, if that is known."""
    missing = where.before - where.after - 1
    return _text(EventShape(type=GAP, queue=queue, event_id=where.before - 1, missing=missing if missing > 0 else None))


def dropped(queue: str, number: int) -> str:
    """Events that were not sent because the reader was too slow."""
    return _text(EventShape(type=GAP, queue=queue, missing=number))


def hello(positions: Mapping[str, int]) -> Iterator[str]:
    """The event of each queue that the following ones come after, in as many messages as it takes."""
    names: list[str] = []
    for each in sorted(name(*item) for item in positions.items()):
        if names and sum(map(len, names)) + 3 * len(names) + len(each) > SIZE - 50:
            yield _text({"type": "HELLO", "event_ids": names})
            names = []
        names.append(each)
    yield _text({"type": "HELLO", "event_ids": names})


def digest(many: int, events: Collection[str], queues: Collection[str], tasks: Collection[str] | None) -> str:
    """What has changed: the names of queues and tasks, or null where there are too many to name."""
    body: dict[str, Any] = {"type": "DIGEST", "many": many, "events": sorted(events)}
    named = {"queues": sorted(queues), "tasks": None if tasks is None else sorted(tasks)}
    for hidden in ({}, {"tasks": None}):
        if len(text := _text(body | named | hidden)) <= SIZE:
            return text
    return _text(body | {"queues": None, "tasks": None})


def _short(event: Event) -> Event:
    detail = event.detail
    if detail is None or len(raw := detail.encode()) <= DETAIL_BYTES:
        return event
    return replace(event, detail=raw[:DETAIL_BYTES].decode("utf-8", "ignore") + "…")


def _text(body: Any) -> str:
    return _encoder.encode(body).decode()

"""What happened: events, and operators' actions, newest first."""

import base64
import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import msgspec
from flask import Blueprint, Response

from dtq_engine import AuditEntry, Event, InvalidCursor, RedisDamaged
from dtq_engine.operator_shapes import EventShape, action_shape, event_shape
from webapp.answers import reply
from webapp.api import paging
from webapp.api.endpoint import Operation, endpoint
from webapp.api.requests import AuditQuery, EventsQuery
from webapp.api.responses import ActionPage, EventPage
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("history", __name__)

ROW_BUDGET = 2000
"""How many events one page may look at; a filter that matches less often gives short pages."""

T = TypeVar("T")

_ENTRY = re.compile(r"[0-9]{1,19}-[0-9]{1,19}").fullmatch
_NOT_OURS = "This cursor is not one of ours: start again without it."


@blueprint.get("/events")
@endpoint(
    Operation(
        summary="What happened to tasks, workers and queues, newest first",
        roles=(Role.VIEWER,),
        query=EventsQuery,
        answers={200: EventPage},
        problems=("INVALID_CURSOR",),
    )
)
def events(query: EventsQuery) -> Response:
    """Events that match all filters, as far back as the log reaches."""
    marks = _read(query.cursor, int, lambda mark: 0 < mark < 2**63)
    unreadable = set[str]()
    sources = [_readable(queue, marks.get(queue), unreadable) for queue in _queues(query.queue)]
    found, looked = list[EventShape](), 0
    for event in heapq.merge(*sources, key=lambda event: -event.ts_ms):
        marks[event.queue], looked = event.event_id, looked + 1
        if _is_wanted(event, query):
            found.append(event_shape(event))
        if len(found) == query.limit or looked == ROW_BUDGET:
            break
    else:
        return reply(EventPage(events=found, cursor=None, unreadable=sorted(unreadable)))
    cursor = _written(marks)
    page = EventPage(events=found, cursor=cursor, unreadable=sorted(unreadable))
    return reply(page, headers=paging.link(cursor))


def _is_wanted(event: Event, query: EventsQuery) -> bool:
    wanted = ((query.type, event.type), (query.task_id, event.task_id), (query.worker_id, event.worker_id))
    return all(asked in {None, found} for asked, found in wanted)


def _readable(queue: str, before: int | None, unreadable: set[str]) -> Iterator[Event]:
    """The events of a queue, newest first, as far as its log can be read."""
    try:
        yield from web().app.store.events.newest(queue, before)
    except RedisDamaged:
        unreadable.add(web().app.store.keys.events(queue))


@blueprint.get("/audit")
@endpoint(
    Operation(
        summary="What operators did, newest first",
        roles=(Role.OPERATOR,),
        query=AuditQuery,
        answers={200: ActionPage},
        problems=("INVALID_CURSOR",),
    )
)
def audit(query: AuditQuery) -> Response:
    """Actions on queues and their tasks, as far back as the log reaches."""
    unreadable = set[str]()
    entries, cursor = latest_actions(_queues(query.queue), query.limit, query.cursor, unreadable)
    page = ActionPage(actions=list(map(action_shape, entries)), cursor=cursor, unreadable=sorted(unreadable))
    return reply(page, headers=paging.link(cursor))


def latest_actions(
    queues: Iterable[str], limit: int, cursor: str | None, unreadable: set[str]
) -> tuple[list[AuditEntry], str | None]:
    """What operators did in these queues, newest first, and where to go on. Raises InvalidCursor.

    Keys that hold something else than a log are passed over, and put into `unreadable`.
    """
    marks = _read(cursor, str, lambda mark: _ENTRY(mark) is not None)
    sources = [_actions(queue, limit + 1, marks.get(queue), unreadable) for queue in queues]
    merged = list(islice(heapq.merge(*sources, key=lambda entry: -entry.ts_ms), limit + 1))
    page = merged[:limit]
    marks |= {entry.queue: entry.entry for entry in page}
    return page, _written(marks) if len(merged) > limit else None


def _actions(queue: str, count: int, before: str | None, unreadable: set[str]) -> list[AuditEntry]:
    try:
        return web().app.store.events.audit(queue, count, before)
    except RedisDamaged:
        unreadable.add(web().app.store.keys.audit(queue))
        return []


def _queues(queue: str | None) -> Iterable[str]:
    return web().app.store.inspect.queues() if queue is None else [queue]


def _written(marks: Mapping[str, T]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(marks)).decode().rstrip("=")


def _read(cursor: str | None, kind: type[T], fits: Callable[[T], bool]) -> dict[str, T]:
    """How far each queue was read. Raises InvalidCursor."""
    if cursor is None:
        return {}
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = msgspec.json.decode(data, type=dict[str, Any])
        marks: dict[str, T] = {queue: msgspec.convert(mark, kind) for queue, mark in found.items()}
    except (ValueError, msgspec.MsgspecError):
        raise InvalidCursor(_NOT_OURS) from None
    if not all(map(fits, marks.values())):
        raise InvalidCursor(_NOT_OURS)
    return marks

"""The list of tasks: what is asked for is in the address, and rows stay where they are until they are let go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from flask import Blueprint, Response, request, url_for

from dtq_engine import QueueStats, Task, TaskStatus
from webapp.api import paging
from webapp.pages.query import EXAMPLE, LONGEST, TaskQuery, suggestions
from webapp.pages.render import page
from webapp.pages.rows import Row, places, row, seen, time_of
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("tasks", __name__)

LIMIT = 50
BUDGET = 400
"""How many tasks one page looks at; a filter that fits fewer goes on by a link."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a page shows: its rows, how many newer ones there are, and where the next page begins."""

    rows: Sequence[Row]
    newer: int
    cursor: str | None
    looked: int
    damaged: Sequence[str]

    @property
    def shown(self) -> str:
        """The places of the rows, for when they are asked for again."""
        return " ".join(each.place for each in self.rows)


@blueprint.get("/tasks")
@require(Role.VIEWER)
def index() -> Response:
    """Tasks that match the query line, newest first."""
    return list_page(TaskQuery.read(request.args.get("q", "")), "pages.tasks.index", "tasks/index.html")


def list_page(query: TaskQuery, endpoint: str, template: str) -> Response:
    """The tasks that a query asks for, as a page of their own."""
    place = url_for(endpoint)

    def link(word: str, value: str | None) -> str:
        line = query.with_word(word, value)
        return f"{place}?q={quote(line, safe='')}" if line else place

    store, cursor = web().app.store, request.args.get("cursor")
    listing = _listing(query, cursor)
    queues = store.inspect.queues()
    counted = [query.queue] if query.queue in queues else queues
    return page(
        template,
        live="tasks/_list.html",
        query=query,
        typed=request.args.get("q", "")[:LONGEST],
        example=EXAMPLE,
        listing=listing,
        cursor=cursor,
        counts=_counts(store.stats.queues([each for each in counted if each])),
        queues=queues,
        suggestions=suggestions(query, queues, (each.task.type for each in listing.rows if each.task)),
        time_of=time_of,
        endpoint=endpoint,
        link=link,
        next_url=listing.cursor and url_for(endpoint, q=query.line or None, cursor=listing.cursor),
    )


def _listing(query: TaskQuery, cursor: str | None) -> Listing:
    store = web().app.store
    found = store.search.tasks(
        queue=query.queue,
        status=query.status,
        condition=condition(query),
        since_ms=query.since_ms(store.now_ms()),
        limit=LIMIT,
        budget=BUDGET,
        cursor=paging.given(cursor),
    )
    now = [row(each) for each in found.rows]
    rows, newer = now, 0
    if before := places(request.args.get("shown", "").split(" ")):
        known = set(before)
        newer = 0 if cursor else sum((each.queue, each.task_id) not in known for each in now)
        rows = [row(each, _moved(query, each.task)) for each in store.search.rows(before)]
    return Listing(rows, newer, paging.shown(found.cursor), found.looked, [*found.damaged, *_damaged_letters(query)])


def condition(query: TaskQuery) -> Callable[[Task], bool] | None:
    """What a query asks of each task as the reader may see it, where places and times do not say it all."""
    return (lambda task: query.matches(seen(task))) if query.is_selective else None


def _damaged_letters(query: TaskQuery) -> Sequence[str]:
    """Letters that cannot be read, though their tasks are listed: they keep all of their queue from being trimmed."""
    damaged = set[str]()
    if query.fixed is TaskStatus.DEAD_LETTERED:
        web().app.store.inspect.dead_letters(queue=query.queue, limit=1, damaged=damaged)
    return sorted(damaged)


def _moved(query: TaskQuery, task: Task | None) -> bool:
    return task is None or not query.matches(seen(task))


def _counts(stats: Sequence[QueueStats]) -> dict[TaskStatus, int]:
    """How many tasks there are of each status, in the order of a task's life."""
    names = {TaskStatus.QUEUED: "waiting", TaskStatus.PENDING: "delayed"}
    return {status: sum(getattr(each, names.get(status, status.value)) for each in stats) for status in TaskStatus}

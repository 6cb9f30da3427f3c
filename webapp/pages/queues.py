"""Queues: all at a glance, and one with what can be done to it."""

from flask import Blueprint, Response, request, url_for

from dtq_engine import Span
from webapp.actions import doer
from webapp.api.queues import known
from webapp.pages import rates
from webapp.pages.notices import back
from webapp.pages.overview import queue_lines
from webapp.pages.render import page
from webapp.pages.verbs import reason
from webapp.problems import Problem
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("queues", __name__)

PAUSES = {"": "until resumed", "900": "15 min", "3600": "1 h", "28800": "8 h", "86400": "1 day"}
"""For how many seconds a queue can be paused from its page."""


@blueprint.get("/queues")
@require(Role.VIEWER)
def index() -> Response:
    """All queues, by name."""
    store = web().app.store
    names = store.inspect.queues()
    lines = queue_lines(names, store.history.read(names, Span.HOUR), store.history.now(names), store.workers.list())
    return page(
        "queues/index.html",
        live="queues/_list.html",
        lines=lines,
        pauses=store.pauses.of(names),
        rate=rates.rate,
    )


@blueprint.get("/queues/<path:queue>")
@require(Role.VIEWER)
def show(queue: str) -> Response:
    """One queue: how much waits where, who works on it, and since when it is paused."""
    store, name = web().app.store, known(queue)
    workers = store.workers.list()
    notes, now = store.history.read([name], Span.HOUR), store.history.now([name])
    (line,) = queue_lines([name], notes, now, workers)
    return page(
        "queues/show.html",
        live="queues/_show.html",
        line=line,
        stats=line.stats,
        pause=store.pauses.of([name]).get(name),
        consumers=[worker for worker in workers if name in worker.queues],
        failing=rates.failing(notes, now),
        since_ms=rates.known_since(notes, Span.HOUR.length_ms, store.now_ms()),
        limit=web().settings.max_queue_depth,
        limits=store.limits.list([name]),
        spans=PAUSES,
        rate=rates.rate,
    )


@blueprint.post("/queues/<path:queue>/pause")
@require(Role.OPERATOR)
def pause(queue: str) -> Response:
    """Let no further task start."""
    seconds = request.form.get("for", "")
    if seconds not in PAUSES:
        raise Problem(400, "INVALID_SPAN", "A queue can be paused for one of the times that its page offers.")
    for_ms = int(seconds) * 1000 if seconds else None
    web().app.store.control.pause(known(queue), for_ms=for_ms, **doer(reason()))
    return back("pause", to=_page_of(queue))


@blueprint.post("/queues/<path:queue>/resume")
@require(Role.OPERATOR)
def resume(queue: str) -> Response:
    """Let tasks start again."""
    web().app.store.control.resume(known(queue), **doer(reason()))
    return back("resume", to=_page_of(queue))


@blueprint.post("/queues/<path:queue>/purge")
@require(Role.ADMIN)
def purge(queue: str) -> Response:
    """Cancel all that waits, once its name was typed."""
    if request.form.get("name", "").strip() != known(queue):
        raise Problem(400, "NAME_DIFFERS", f"Nothing was purged: type the name of the queue, {queue}, to purge it.")
    delayed = request.form.get("delayed") == "1"
    many = web().app.store.control.purge(queue, delayed=delayed, **doer(reason()))
    return back("purge", many, to=_page_of(queue))


def _page_of(queue: str) -> str:
    return url_for("pages.queues.show", queue=queue)

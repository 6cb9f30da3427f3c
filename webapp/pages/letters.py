"""Dead letters: tasks that nobody will try again unless somebody says so."""

from collections.abc import Iterator, Sequence
from typing import Literal

from flask import Blueprint, Response, request, url_for

from dtq_engine import TaskStatus
from webapp.api.letters import Letter, act_on
from webapp.pages.notices import back
from webapp.pages.query import TaskQuery
from webapp.pages.render import page
from webapp.pages.tasks import condition, list_page
from webapp.pages.verbs import reason
from webapp.problems import Problem
from webapp.rights import authorize, require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("letters", __name__)

AT_ONCE = 1000
ALL = {"requeue": Role.OPERATOR, "discard": Role.ADMIN}
"""What can be done to all that match, and by whom."""


@blueprint.get("/dead-letters")
@require(Role.VIEWER)
def index() -> Response:
    """Dead letters that match the query line, newest first."""
    query = TaskQuery.read(request.args.get("q", "")).of(TaskStatus.DEAD_LETTERED)
    return list_page(query, "pages.letters.index", "letters/index.html")


@blueprint.post("/dead-letters/act")
@require(Role.OPERATOR)
def act() -> Response:
    """Requeue or discard all dead letters that fit the query line, as many as one request has time for."""
    verb = request.form.get("verb", "")
    if verb not in ALL:
        raise Problem(400, "UNKNOWN_VERB", "The form asks for something that is not known here: go back and try again.")
    authorize(ALL[verb])
    query = TaskQuery.read(request.form.get("q", ""))
    # What is left out, or not understood, must not become all of them.
    if query.problems or "q" not in request.form:
        why = query.problems[0] if query.problems else "the form does not say to which dead letters."
        raise Problem(400, "INVALID_QUERY", f"Nothing was done: {why}")
    if verb == "discard" and request.form.get("word", "").strip().lower() != "discard":
        raise Problem(400, "WORD_DIFFERS", "Nothing was discarded: type the word discard to confirm it.")
    doing: Literal["requeue", "discard"] = "discard" if verb == "discard" else "requeue"
    answer = act_on(_matching(query.of(TaskStatus.DEAD_LETTERED)), doing, AT_ONCE, reason())
    if not answer.refused and answer.complete:
        return back(verb, answer.done)
    refused = [(("", each.id), each.detail) for each in answer.refused]
    return page(
        "letters/part.html",
        answer=answer,
        refused=refused[:100],
        verb=verb,
        again=url_for("pages.letters.index", q=query.line or None),
    )


def _matching(query: TaskQuery) -> Iterator[Sequence[Letter]]:
    """Those that the list shows, page by page, newest first; now and then none, so that time can be looked at."""
    store, cursor = web().app.store, None
    since_ms = query.since_ms(store.now_ms())
    while True:
        found = store.search.tasks(
            queue=query.queue,
            status=query.status,
            condition=condition(query),
            since_ms=since_ms,
            limit=200,
            cursor=cursor,
        )
        yield [(row.queue, row.task_id) for row in found.rows]
        cursor = found.cursor
        if cursor is None:
            return

"""Dead letters: tasks that nobody will try again unless somebody says so."""

from typing import Literal

from flask import Blueprint, Response, request, url_for

from dtq_engine import TaskStatus
from webapp.api.letters import apply_to
from webapp.api.requests import LettersBody
from webapp.pages.notices import back
from webapp.pages.query import TaskQuery
from webapp.pages.render import page
from webapp.pages.tasks import list_page
from webapp.pages.verbs import reason
from webapp.problems import Problem
from webapp.rights import authorize, require
from webapp.roles import Role

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
    """Requeue or discard all dead letters of a queue and type, as many as one request has time for."""
    verb = request.form.get("verb", "")
    if verb not in ALL:
        raise Problem(400, "UNKNOWN_VERB", "The form asks for something that is not known here: go back and try again.")
    authorize(ALL[verb])
    queue, task_type = request.form.get("queue") or None, request.form.get("type") or None
    if verb == "discard" and request.form.get("word", "").strip().lower() != "discard":
        raise Problem(400, "WORD_DIFFERS", "Nothing was discarded: type the word discard to confirm it.")
    everything = queue is None and task_type is None
    doing: Literal["requeue", "discard"] = "discard" if verb == "discard" else "requeue"
    body = LettersBody(queue=queue, type=task_type, all=everything, limit=AT_ONCE, reason=reason())
    answer = apply_to(body, doing)
    if not answer.refused and answer.complete:
        return back(verb, answer.done)
    refused = [(("", each.id), each.detail) for each in answer.refused]
    return page(
        "letters/part.html",
        answer=answer,
        refused=refused[:100],
        verb=verb,
        again=url_for("pages.letters.index", q=request.form.get("q", "")),
    )

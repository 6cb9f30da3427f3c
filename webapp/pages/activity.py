"""Activity: what people did."""

from flask import Blueprint, Response, request, url_for

from dtq_engine import AuditEntry
from webapp.api import paging
from webapp.api.history import latest_actions
from webapp.pages.render import page
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("activity", __name__)

LIMIT = 50
LOOKS = 6
"""How many pages of the log one page of a filter looks through."""


@blueprint.get("/activity")
@require(Role.OPERATOR)
def index() -> Response:
    """Actions, newest first, of one queue or all, by whom and on what."""
    queues, unreadable = web().app.store.inspect.queues(), set[str]()
    queue, wanted = request.args.get("queue") or None, request.args.get("q", "").strip()[:200]
    cursor, found = paging.given(request.args.get("cursor")), list[AuditEntry]()
    names = queues if queue is None else {queue} & set(queues)
    for _ in range(LOOKS):
        entries, cursor = latest_actions(names, LIMIT, cursor, unreadable)
        found += [each for each in entries if wanted.lower() in f"{each.actor} {each.action} {each.target}".lower()]
        if cursor is None or len(found) >= LIMIT:
            break
    following = cursor and url_for("pages.activity.index", queue=queue, q=wanted or None, cursor=paging.shown(cursor))
    return page(
        "activity/index.html",
        live="activity/_list.html",
        entries=found,
        queues=queues,
        unreadable=sorted(unreadable),
        queue=queue,
        wanted=wanted,
        next_url=following,
    )

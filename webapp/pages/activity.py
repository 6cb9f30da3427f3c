"""Activity: what people did."""

from flask import Blueprint, Response, request, url_for

from dtq_engine import AuditEntry, RedisDamaged
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
    queues, unreadable = _queues()
    queue, wanted = request.args.get("queue") or None, request.args.get("q", "").strip()[:200]
    cursor, found = paging.given(request.args.get("cursor")), list[AuditEntry]()
    for _ in range(LOOKS):
        entries, cursor = latest_actions(queues if queue is None else {queue} & set(queues), LIMIT, cursor, set())
        found += [each for each in entries if wanted.lower() in f"{each.actor} {each.action} {each.target}".lower()]
        if cursor is None or len(found) >= LIMIT:
            break
    following = cursor and url_for("pages.activity.index", queue=queue, q=wanted or None, cursor=paging.shown(cursor))
    return page(
        "activity/index.html",
        live="activity/_list.html",
        entries=found,
        queues=queues,
        unreadable=unreadable,
        queue=queue,
        wanted=wanted,
        next_url=following,
    )


def _queues() -> tuple[list[str], list[str]]:
    """The queues whose log can be read, and those whose cannot."""
    readable, damaged = list[str](), list[str]()
    for name in web().app.store.inspect.queues():
        try:
            web().app.store.events.audit(name, 1)
            readable.append(name)
        except RedisDamaged:
            damaged.append(name)
    return readable, damaged

"""Periodic tasks: when they run, how they went, and whether they may."""

from flask import Blueprint, Response, request, url_for

from webapp.actions import doer
from webapp.pages.cron import in_words
from webapp.pages.notices import back
from webapp.pages.render import page
from webapp.pages.verbs import reason
from webapp.problems import Problem
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("periodic", __name__)


@blueprint.get("/periodic")
@require(Role.VIEWER)
def index() -> Response:
    """All of them, by name."""
    return page(
        "periodic/index.html", live="periodic/_list.html", tasks=web().app.store.periodic.list(), in_words=in_words
    )


@blueprint.post("/periodic/act")
@require(Role.OPERATOR)
def act() -> Response:
    """Pause one, let it go on, or run it now."""
    verb, name, store = request.form.get("verb", ""), request.form.get("name", ""), web().app.store
    match verb:
        case "pause":
            store.periodic.pause(name, **doer(reason()))
        case "resume":
            store.periodic.resume(name, **doer(reason()))
        case "trigger":
            receipt = store.periodic.trigger(name, **doer(reason()))
            return back("trigger", to=url_for("pages.task.show", task_id=receipt.id, queue=receipt.queue))
        case _:
            raise Problem(400, "UNKNOWN_VERB", "The form asks for something that is not known here: go back.")
    return back(f"{verb}-periodic", to=url_for("pages.periodic.index"))

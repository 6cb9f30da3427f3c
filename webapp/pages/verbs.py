"""Acting on tasks: on one from its page, on many that were ticked in a list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, request, url_for

from dtq_engine import (
    CancelOutcome,
    IdempotencyConflict,
    InvalidTask,
    InvalidTransition,
    NewerRecord,
    RedisDamaged,
    TaskNotFound,
)
from webapp.actions import doer
from webapp.origin import own_path
from webapp.pages.notices import back
from webapp.pages.render import page
from webapp.pages.rows import Place, places
from webapp.problems import Problem
from webapp.rights import authorize, require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("verbs", __name__)

REASON_MAX = 500
REFUSALS = (TaskNotFound, InvalidTransition, IdempotencyConflict, NewerRecord, RedisDamaged, InvalidTask)

Act = Callable[[str, str], str]
"""Does something to a task, by its id and queue; what was done, as notices call it."""


@dataclass(frozen=True, slots=True)
class Verb:
    """Something to do to tasks: who may, and how."""

    role: Role
    act: Act


def reason() -> str:
    """Why, as the form says."""
    return request.form.get("reason", "").strip()[:REASON_MAX]


def _cancel(task_id: str, queue: str) -> str:
    outcome = web().app.store.control.cancel(task_id, queue=queue, **doer(reason()))
    if outcome is CancelOutcome.FINISHED:
        raise InvalidTransition(f"Task {task_id} has ended: only one that waits or runs can be cancelled.")
    return "ask" if outcome is CancelOutcome.REQUESTED else "cancel"


def _reprioritise(task_id: str, queue: str) -> str:
    given = request.form.get("priority", "")
    if not (len(given) == 1 and given.isascii() and given.isdigit()):
        raise InvalidTask("priority", "A priority is a digit from 0 to 9.")
    web().app.store.control.reprioritise(task_id, int(given), queue=queue, **doer(reason()))
    return "reprioritise"


def _requeue(task_id: str, queue: str) -> str:
    keeps = request.form.get("anew") != "1"
    web().app.store.control.requeue(task_id, queue=queue, keep_steps=keeps, **doer(reason()))
    return "requeue"


def _plain(verb: str, method: str) -> Act:
    def act(task_id: str, queue: str) -> str:
        does: Callable[..., Any] = getattr(web().app.store.control, method)
        does(task_id, queue=queue, **doer(reason()))
        return verb

    return act


VERBS: Mapping[str, Verb] = {
    "cancel": Verb(Role.OPERATOR, _cancel),
    "run-now": Verb(Role.OPERATOR, _plain("run-now", "run_now")),
    "requeue": Verb(Role.OPERATOR, _requeue),
    "reprioritise": Verb(Role.OPERATOR, _reprioritise),
    "discard": Verb(Role.ADMIN, _plain("discard", "discard")),
}


@blueprint.post("/tasks/act")
@require(Role.OPERATOR)
def act() -> Response:
    """Do `verb` to each `task` of the form, and go back; what was refused is told on a page of its own."""
    name = request.form.get("verb", "")
    verb = VERBS.get(name)
    if verb is None:
        raise Problem(400, "UNKNOWN_VERB", "The form asks for something that is not known here: go back and try again.")
    authorize(verb.role)
    chosen = places(request.form.getlist("task"))
    done, refused = list[str](), list[tuple[Place, str]]()
    for queue, task_id in chosen:
        try:
            done.append(verb.act(task_id, queue))
        except REFUSALS as error:
            refused.append(((queue, task_id), str(error)))
    if refused:
        return page("refused.html", status=409, refused=refused, done=len(done), back=own_path(_came_from()))
    if not done:
        return back("none")
    gone = name == "discard" and len(chosen) == 1 and request.form.get("back", "").startswith(_page_of(chosen[0]))
    return back(done[0], len(done), to=url_for("pages.tasks.index") if gone else None)


def _came_from() -> str:
    return request.form.get("back", "")


def _page_of(place: Place) -> str:
    return url_for("pages.task.show", task_id=place[1])

"""Limits: how many tasks may run and start at once, and how many wait for that."""

from flask import Blueprint, Response

from dtq_engine.limit_shapes import LimitsShape, LimitVerbShape, limit_shape
from webapp.actions import doer
from webapp.answers import reply
from webapp.api.endpoint import Operation, endpoint
from webapp.api.queues import NOT_FOUND, known
from webapp.api.requests import LimitBody, RateBody, ReasonBody
from webapp.api.verbs import acting
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("limits", __name__)


@blueprint.get("/limits")
@endpoint(Operation(summary="All limits", roles=(Role.VIEWER,), answers={200: LimitsShape}))
def index() -> Response:
    """The limits of all queues as they stand, by queue and name; `*` is that of a whole queue."""
    return reply(LimitsShape([limit_shape(each) for each in web().app.store.limits.list()]))


@blueprint.get("/queues/<queue>/limits")
@endpoint(
    Operation(summary="The limits of a queue", roles=(Role.VIEWER,), answers={200: LimitsShape}, problems=NOT_FOUND)
)
def of_queue(queue: str) -> Response:
    """As they stand, by name."""
    return reply(LimitsShape([limit_shape(each) for each in web().app.store.limits.list([known(queue)])]))


@blueprint.post("/queues/<queue>/limits/<name>/set")
@endpoint(
    acting(
        "Let other numbers be in force than the code's",
        LimitVerbShape,
        body=LimitBody,
        problems=(*NOT_FOUND, "LIMIT_NOT_FOUND", "INVALID_LIMIT"),
        example={"max_running": 1, "reason": "they ask us to be gentle"},
    )
)
def set_limit(queue: str, name: str, body: LimitBody) -> Response:
    """Until they are cleared. What is not given stays as the code says it; `none` lifts it."""
    rate = (body.rate.starts, body.rate.seconds) if isinstance(body.rate, RateBody) else body.rate
    web().app.store.limits.set(known(queue), name, max_running=body.max_running, rate=rate, **doer(body.reason))
    return reply(LimitVerbShape(queue, name, "set"))


@blueprint.post("/queues/<queue>/limits/<name>/clear")
@endpoint(
    acting(
        "Let the code's numbers be in force again",
        LimitVerbShape,
        problems=(*NOT_FOUND, "LIMIT_NOT_FOUND"),
        example={"reason": "all is well again"},
    )
)
def clear_limit(queue: str, name: str, body: ReasonBody) -> Response:
    """Whoever waits goes on if they allow it."""
    web().app.store.limits.clear(known(queue), name, **doer(body.reason))
    return reply(LimitVerbShape(queue, name, "cleared"))

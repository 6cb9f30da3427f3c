"""Periodic tasks: when they run, whether they may, and running one out of turn."""

import msgspec
from flask import Blueprint, Response

from dtq_engine import PeriodicTask
from dtq_engine.masking import Masks
from dtq_engine.operator_shapes import PeriodicShape, PeriodicsShape, PeriodicVerbShape, periodic_shape
from webapp.actions import doer
from webapp.answers import reply
from webapp.api.endpoint import Operation, endpoint
from webapp.api.queues import NOT_FOUND, known
from webapp.api.requests import ReasonBody
from webapp.readers import sees_payloads
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("periodic", __name__)

PROBLEMS = (*NOT_FOUND, "PERIODIC_NOT_FOUND", "INVALID_TRANSITION")


@blueprint.get("/periodic")
@endpoint(Operation(summary="All periodic tasks", roles=(Role.VIEWER,), answers={200: PeriodicsShape}))
def index() -> Response:
    """Those of all queues, by name; `arguments` is null for readers who may see no payloads."""
    return reply(PeriodicsShape([_shape(each) for each in web().app.store.periodic.list()]))


@blueprint.post("/queues/<queue>/periodic/<path:name>/pause")
@endpoint(
    Operation(
        summary="Let the ticks of a periodic task pass",
        roles=(Role.OPERATOR,),
        body=ReasonBody,
        body_is_optional=True,
        answers={200: PeriodicVerbShape},
        problems=PROBLEMS,
        example={"reason": "the warehouse moves"},
    )
)
def pause(queue: str, name: str, body: ReasonBody) -> Response:
    """They pass without a task, until it is resumed."""
    web().app.store.periodic.pause(name, queue=known(queue), **doer(body.reason))
    return reply(PeriodicVerbShape(name, "paused"))


@blueprint.post("/queues/<queue>/periodic/<path:name>/resume")
@endpoint(
    Operation(
        summary="Let a periodic task run again",
        roles=(Role.OPERATOR,),
        body=ReasonBody,
        body_is_optional=True,
        answers={200: PeriodicVerbShape},
        problems=PROBLEMS,
        example={"reason": "the warehouse has moved"},
    )
)
def resume(queue: str, name: str, body: ReasonBody) -> Response:
    """From its next tick on; what passed meanwhile is not made up for."""
    web().app.store.periodic.resume(name, queue=known(queue), **doer(body.reason))
    return reply(PeriodicVerbShape(name, "resumed"))


@blueprint.post("/queues/<queue>/periodic/<path:name>/trigger")
@endpoint(
    Operation(
        summary="Run a periodic task now",
        roles=(Role.OPERATOR,),
        body=ReasonBody,
        body_is_optional=True,
        answers={200: PeriodicVerbShape},
        problems=(*PROBLEMS, "MEMORY_FULL"),
        example={"reason": "last night's failed"},
    )
)
def trigger(queue: str, name: str, body: ReasonBody) -> Response:
    """Out of turn, and even while it is paused; `task_id` is that of the task."""
    receipt = web().app.store.periodic.trigger(name, queue=known(queue), **doer(body.reason))
    return reply(PeriodicVerbShape(name, "triggered", receipt.id))


def _shape(task: PeriodicTask) -> PeriodicShape:
    shape, payload = periodic_shape(task), task.definition.payload.encode()
    if not sees_payloads():
        return msgspec.structs.replace(shape, arguments=msgspec.Raw(b"null"))
    if names := web().catalog.redacted(task.definition.type):
        return msgspec.structs.replace(shape, arguments=msgspec.Raw(Masks(names, (payload,)).json(payload)))
    return shape

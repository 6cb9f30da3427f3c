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
from webapp.api.verbs import acting
from webapp.readers import sees_payloads
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("periodic", __name__)

PROBLEMS = (*NOT_FOUND, "PERIODIC_NOT_FOUND", "INVALID_TRANSITION")


def _acting(summary: str, reason: str, *problems: str) -> Operation:
    return acting(summary, PeriodicVerbShape, example={"reason": reason}, problems=(*PROBLEMS, *problems))


@blueprint.get("/periodic")
@endpoint(Operation(summary="All periodic tasks", roles=(Role.VIEWER,), answers={200: PeriodicsShape}))
def index() -> Response:
    """Those of all queues, by name; `arguments` is null for readers who may see no payloads."""
    return reply(PeriodicsShape([_shape(each) for each in web().app.store.periodic.list()]))


@blueprint.post("/queues/<queue>/periodic/<path:name>/pause")
@endpoint(_acting("Let the ticks of a periodic task pass", "the warehouse moves"))
def pause(queue: str, name: str, body: ReasonBody) -> Response:
    """They pass without a task, until it is resumed."""
    web().app.store.periodic.pause(name, queue=known(queue), **doer(body.reason))
    return reply(PeriodicVerbShape(name, "paused"))


@blueprint.post("/queues/<queue>/periodic/<path:name>/resume")
@endpoint(_acting("Let a periodic task run again", "the warehouse has moved"))
def resume(queue: str, name: str, body: ReasonBody) -> Response:
    """From its next tick on; what passed meanwhile is not made up for."""
    web().app.store.periodic.resume(name, queue=known(queue), **doer(body.reason))
    return reply(PeriodicVerbShape(name, "resumed"))


@blueprint.post("/queues/<queue>/periodic/<path:name>/trigger")
@endpoint(_acting("Run a periodic task now", "last night's failed", "MEMORY_FULL"))
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

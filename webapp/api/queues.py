"""Queues: looking at them, pausing, resuming and purging them."""

import difflib
from collections import Counter

from flask import Blueprint, Response

from dtq_engine.operator_shapes import PurgeShape
from dtq_engine.shapes import QueueShape, QueuesShape, queue_shape
from webapp.actions import doer
from webapp.answers import reply
from webapp.api.endpoint import Operation, endpoint
from webapp.api.requests import PauseBody, PurgeBody, ReasonBody
from webapp.api.responses import QueueAnswer
from webapp.api.verbs import acting
from webapp.problems import Problem
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("queues", __name__)

NOT_FOUND = ("QUEUE_NOT_FOUND",)


@blueprint.get("/queues")
@endpoint(Operation(summary="All queues", roles=(Role.VIEWER,), answers={200: QueuesShape}))
def index() -> Response:
    """All queues as they are now, by name."""
    return reply(QueuesShape(shapes(web().app.store.inspect.queues())))


@blueprint.get("/queues/<queue>")
@endpoint(Operation(summary="One queue", roles=(Role.VIEWER,), answers={200: QueueShape}, problems=NOT_FOUND))
def show(queue: str) -> Response:
    """A queue as it is now."""
    return reply(shapes([known(queue)])[0])


@blueprint.post("/queues/<queue>/pause")
@endpoint(
    acting(
        "Let no further task of a queue start",
        QueueAnswer,
        body=PauseBody,
        problems=NOT_FOUND,
        example={"reason": "database upgrade", "for_seconds": 1800},
    )
)
def pause(queue: str, body: PauseBody) -> Response:
    """What runs goes on, and submitting is still possible."""
    for_ms = None if body.for_seconds is None else round(body.for_seconds * 1000)
    web().app.store.control.pause(known(queue), for_ms=for_ms, **doer(body.reason))
    return reply(QueueAnswer(queue=queue, paused=True))


@blueprint.post("/queues/<queue>/resume")
@endpoint(
    acting(
        "Let the tasks of a queue start again",
        QueueAnswer,
        problems=NOT_FOUND,
        example={"reason": "upgrade done"},
    )
)
def resume(queue: str, body: ReasonBody) -> Response:
    """At once."""
    web().app.store.control.resume(known(queue), **doer(body.reason))
    return reply(QueueAnswer(queue=queue, paused=False))


@blueprint.post("/queues/<queue>/purge")
@endpoint(
    acting(
        "Cancel all that waits in a queue",
        PurgeShape,
        role=Role.ADMIN,
        body=PurgeBody,
        problems=NOT_FOUND,
        example={"reason": "a wrong import", "delayed": True},
    )
)
def purge(queue: str, body: PurgeBody) -> Response:
    """Never what runs, nor what comes while it is under way."""
    many = web().app.store.control.purge(known(queue), delayed=body.delayed, **doer(body.reason))
    return reply(PurgeShape(queue=queue, cancelled=many))


def known(queue: str) -> str:
    """The name of a queue that exists. Raises a 404, which names the nearest one."""
    names = web().app.store.inspect.queues()
    if queue in names:
        return queue
    near = difflib.get_close_matches(queue, names, n=1)
    hint = f"did you mean {near[0]}?" if near else "the first task submitted to a queue makes it."
    raise Problem(404, "QUEUE_NOT_FOUND", f"There is no queue {queue[:64]}; {hint}")


def shapes(names: list[str]) -> list[QueueShape]:
    """These queues as answers."""
    store = web().app.store
    workers = Counter(queue for worker in store.workers.list() for queue in worker.queues)
    return [queue_shape(stats, workers[stats.queue]) for stats in store.stats.queues(names)]

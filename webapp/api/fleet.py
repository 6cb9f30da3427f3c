"""The fleet: workers, the task types they know, and all numbers together."""

from collections.abc import Iterator

from flask import Blueprint, Response

from dtq_engine import QueueStats
from dtq_engine.instants import at
from dtq_engine.operator_shapes import WorkersShape, worker_shape
from webapp.answers import reply
from webapp.api.endpoint import Operation, endpoint
from webapp.api.responses import StatsAnswer, TypeAnswer, TypesAnswer, TypeTotalsShape
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("fleet", __name__)

_SUMMED = ("depth", "waiting", "running", "delayed", "retrying", "blocked", "dead_lettered")


@blueprint.get("/workers")
@endpoint(Operation(summary="The workers that are alive", roles=(Role.VIEWER,), answers={200: WorkersShape}))
def workers() -> Response:
    """By id, as they last described themselves."""
    return reply(WorkersShape([worker_shape(info) for info in web().app.store.workers.list()]))


@blueprint.get("/types")
@endpoint(
    Operation(summary="The task types that workers know", roles=(Role.VIEWER, Role.SUBMIT), answers={200: TypesAnswer})
)
def types() -> Response:
    """With the JSON Schemas of their payloads and results."""
    found = [schema for published in web().catalog.types().values() for schema in published.schemas]
    answers = [
        TypeAnswer(
            type=schema.type,
            description=schema.description,
            parameters=dict(schema.parameters),
            result=dict(schema.result),
            defaults=dict(schema.defaults),
            releases=list(schema.releases),
            workers=list(schema.workers),
        )
        for schema in found
    ]
    return reply(TypesAnswer(types=answers))


@blueprint.get("/stats")
@endpoint(Operation(summary="All queues together", roles=(Role.VIEWER, Role.METRICS), answers={200: StatsAnswer}))
def stats() -> Response:
    """As they are now, and what has been counted since they exist."""
    store = web().app.store
    names = store.inspect.queues()
    queues, alive = store.stats.queues(names), store.workers.list()
    sums = {name: sum(getattr(queue, name) for queue in queues) for name in _SUMMED}
    answer = StatsAnswer(
        **sums,
        at=at(store.now_ms()),
        workers=len(alive),
        slots=sum(info.concurrency for info in alive),
        in_flight=sum(info.in_flight for info in alive),
        queues=len(queues),
        paused=sum(queue.paused for queue in queues),
        oldest_waiting_at=at(min(_oldest(queues), default=None)),
        totals=list(_totals(names)),
        rejected=store.rejections.totals(),
    )
    return reply(answer)


def _oldest(queues: list[QueueStats]) -> Iterator[int]:
    return (queue.oldest_waiting_ms for queue in queues if queue.oldest_waiting_ms is not None)


def _totals(names: list[str]) -> Iterator[TypeTotalsShape]:
    for queue in web().app.store.stats.totals(names):
        for task_type, totals in sorted(queue.types.items()):
            yield TypeTotalsShape(queue=queue.queue, type=task_type, counts=totals.counts)

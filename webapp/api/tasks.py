"""Tasks: listing, looking at, waiting for, and acting on them."""

from functools import partial
from typing import Any

from flask import Blueprint, Response

from dtq_engine import CancelOutcome, InvalidTransition
from dtq_engine.report_shapes import line_shape
from webapp.actions import doer
from webapp.answers import reply
from webapp.api import paging
from webapp.api.endpoint import Operation, endpoint
from webapp.api.requests import LogsQuery, PlaceQuery, PriorityBody, ReasonBody, RequeueBody, TaskQuery, TasksQuery
from webapp.api.responses import LogPage, ResultAnswer, TaskDetail, TaskPage, VerbAnswer
from webapp.api.verbs import MOVES, done, moving
from webapp.api.views import detail_of, result_of, row_of
from webapp.api.waits import awaited, checked
from webapp.readers import lines_as_seen, sees_payloads
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("tasks", __name__)

NOT_FOUND = ("TASK_NOT_FOUND",)


@blueprint.get("/tasks")
@endpoint(
    Operation(
        summary="List tasks, newest first",
        roles=(Role.VIEWER,),
        query=TasksQuery,
        answers={200: TaskPage},
        problems=("INVALID_CURSOR",),
    )
)
def index(query: TasksQuery) -> Response:
    """Tasks that match all filters."""
    page = web().app.store.inspect.tasks(
        queue=query.queue,
        status=query.status,
        type=query.type,
        limit=query.limit,
        cursor=paging.given(query.cursor),
        damaged=(unreadable := set[str]()),
    )
    cursor = paging.shown(page.cursor)
    body = TaskPage(tasks=[row_of(task) for task in page.items], cursor=cursor, unreadable=sorted(unreadable))
    return reply(body, headers=paging.link(cursor))


@blueprint.get("/tasks/<task_id>")
@endpoint(
    Operation(
        summary="Look at a task, or wait for its end",
        roles=(Role.VIEWER, Role.SUBMIT),
        query=TaskQuery,
        answers={200: TaskDetail},
        problems=(*NOT_FOUND, "TOO_MANY_WAITERS"),
    )
)
def show(task_id: str, query: TaskQuery) -> Response:
    """The task as it is, at the latest after `wait` seconds, and sooner if it has ended."""
    return reply(detail_of(awaited(checked(task_id), query.queue, query.wait)))


@blueprint.get("/tasks/<task_id>/result")
@endpoint(
    Operation(
        summary="The result of a task",
        roles=(Role.VIEWER, Role.SUBMIT),
        query=TaskQuery,
        answers={200: ResultAnswer, 202: ResultAnswer},
        problems=(*NOT_FOUND, "TOO_MANY_WAITERS"),
    )
)
def result(task_id: str, query: TaskQuery) -> Response:
    """200 once the task has ended, however it has; 202 until then."""
    task = awaited(checked(task_id), query.queue, query.wait)
    ended = task.status.is_final
    return reply(result_of(task), status=200 if ended else 202, headers={} if ended else {"Retry-After": "1"})


@blueprint.get("/tasks/<task_id>/logs")
@endpoint(
    Operation(
        summary="What a task's executions logged",
        roles=(Role.VIEWER, Role.SUBMIT),
        query=LogsQuery,
        answers={200: LogPage},
        problems=NOT_FOUND,
    )
)
def logs(task_id: str, query: LogsQuery) -> Response:
    """The lines after a number, oldest first; ask again with `cursor` as `after` for those that come."""
    store = web().app.store
    task = store.inspect.get(checked(task_id), queue=query.queue)
    lines = store.reports.logs(task.id, queue=task.queue, after=query.after, attempt=query.attempt, limit=query.limit)
    seen = [line_shape(line) for line in lines_as_seen(lines, task)]
    cursor = lines[-1].number if lines else query.after
    return reply(LogPage(lines=seen, cursor=cursor, hidden=not sees_payloads()))


@blueprint.post("/tasks/<task_id>/cancel")
@endpoint(
    Operation(
        summary="Cancel a task",
        roles=(Role.OPERATOR, Role.SUBMIT),
        query=PlaceQuery,
        body=ReasonBody,
        answers={200: VerbAnswer, 202: VerbAnswer},
        problems=MOVES,
        example={"reason": "ordered twice"},
    )
)
def cancel(task_id: str, query: PlaceQuery, body: ReasonBody) -> Response:
    """200 if it waited and has ended now; 202 if it runs and its worker was told."""
    outcome = web().app.store.control.cancel(checked(task_id), queue=query.queue, **doer(body.reason))
    if outcome is CancelOutcome.FINISHED:
        raise InvalidTransition(f"Task {task_id} has ended: only one that waits or runs can be cancelled.")
    return reply(VerbAnswer(id=task_id, outcome=outcome), status=202 if outcome is CancelOutcome.REQUESTED else 200)


@blueprint.post("/tasks/<task_id>/run-now")
@endpoint(moving("Run a task that waits for its time"))
def run_now(task_id: str, query: PlaceQuery, body: ReasonBody) -> Response:
    """It is available at once."""
    return done(task_id, "available", web().app.store.control.run_now, query.queue, doer(body.reason))


@blueprint.post("/tasks/<task_id>/requeue")
@endpoint(moving("Give a task that ended without success a new life", body=RequeueBody))
def requeue(task_id: str, query: PlaceQuery, body: RequeueBody) -> Response:
    """It waits again, with all its attempts; its history is kept, and what it saved unless `keep_steps` is false."""
    verb = partial(web().app.store.control.requeue, keep_steps=body.keep_steps)
    return done(task_id, "requeued", verb, query.queue, doer(body.reason))


@blueprint.post("/tasks/<task_id>/reprioritise")
@endpoint(moving("Move a waiting task to another priority", body=PriorityBody, example={"priority": 9}))
def reprioritise(task_id: str, query: PlaceQuery, body: PriorityBody) -> Response:
    """It waits among the tasks of that priority."""

    def verb(task_id: str, **how: Any) -> None:
        web().app.store.control.reprioritise(task_id, body.priority, **how)

    return done(task_id, "reprioritised", verb, query.queue, doer(body.reason))

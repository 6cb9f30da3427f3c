"""Dead letters: listing them, giving them a new life, discarding them."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from flask import Blueprint, Response

from dtq_engine import (
    DeadLetterEntry,
    DtqError,
    IdempotencyConflict,
    InvalidTransition,
    NewerRecord,
    RedisDamaged,
    TaskNotFound,
)
from dtq_engine.shapes import DeadLetterShape, dead_letter_shape
from webapp.actions import doer
from webapp.answers import reply
from webapp.api import paging
from webapp.api.endpoint import Operation, endpoint
from webapp.api.requests import LettersBody, LettersQuery, PlaceQuery, ReasonBody
from webapp.api.responses import BulkAnswer, DeadLetterPage, Refusal
from webapp.api.verbs import acting, done, moving
from webapp.errors import problem_of
from webapp.problems import Problem
from webapp.readers import sees_payloads
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("letters", __name__)

PATIENCE_S = 20.0
"""How long one call goes on: routers cut requests that take much longer."""

Letter = tuple[str, str]
"""The queue and the id of a dead task."""


@blueprint.get("/dlq")
@endpoint(
    Operation(
        summary="List dead letters, newest first",
        roles=(Role.VIEWER,),
        query=LettersQuery,
        answers={200: DeadLetterPage},
        problems=("INVALID_CURSOR",),
    )
)
def index(query: LettersQuery) -> Response:
    """Dead letters that match all filters."""
    damaged = set[str]()
    page = web().app.store.inspect.dead_letters(
        queue=query.queue, type=query.type, limit=query.limit, cursor=query.cursor, damaged=damaged
    )
    letters = [_shape(each) for each in page.items]
    answer = DeadLetterPage(dead_letters=letters, cursor=page.cursor, unreadable=sorted(damaged))
    return reply(answer, headers=paging.link(page.cursor))


@blueprint.post("/dlq/<task_id>/requeue")
@endpoint(moving("Give a dead task a new life", example={"reason": "the bug is fixed"}))
def requeue(task_id: str, query: PlaceQuery, body: ReasonBody) -> Response:
    """It waits again, with all its attempts; its history is kept."""
    return done(task_id, "requeued", web().app.store.control.requeue, query.queue, doer(body.reason))


@blueprint.post("/dlq/<task_id>/discard")
@endpoint(moving("Remove a dead letter for good", role=Role.ADMIN, example={"reason": "test data"}))
def discard(task_id: str, query: PlaceQuery, body: ReasonBody) -> Response:
    """With all that is known of its task."""
    return done(task_id, "discarded", web().app.store.control.discard, query.queue, doer(body.reason))


def _bulk(summary: str, role: Role) -> Operation:
    example = {"queue": "reports", "type": "reports.build", "reason": "the bug is fixed"}
    return acting(summary, BulkAnswer, role=role, body=LettersBody, example=example)


@blueprint.post("/dlq/requeue")
@endpoint(_bulk("Give dead tasks a new life", Role.OPERATOR))
def requeue_many(body: LettersBody) -> Response:
    """Those that match, newest first; call it again while it is not `complete`."""
    return reply(apply_to(body, "requeue"))


@blueprint.post("/dlq/purge")
@endpoint(_bulk("Remove dead letters for good", Role.ADMIN))
def purge(body: LettersBody) -> Response:
    """Those that match, newest first; call it again while it is not `complete`."""
    return reply(apply_to(body, "discard"))


def apply_to(body: LettersBody, verb: Literal["requeue", "discard"]) -> BulkAnswer:
    """Do a verb to the letters that match, as many as one request has time for."""
    if body.queue is None and body.type is None and body.all is not True:
        raise Problem(400, "INVALID_FILTER", "Say which dead letters: give queue or type, or all: true.")
    return act_on(_matching(body), verb, body.limit, body.reason)


def act_on(found: Iterable[Sequence[Letter]], verb: Literal["requeue", "discard"], limit: int, why: str) -> BulkAnswer:
    """Do a verb to these letters, at most `limit` and as many as one request has time for to find and to do."""
    control = web().app.store.control
    act = control.requeue if verb == "requeue" else control.discard
    many, refused, ends = 0, list[Refusal](), time.monotonic() + PATIENCE_S
    for part in found:
        for queue, task_id in part:
            if many >= limit or time.monotonic() > ends:
                return BulkAnswer(done=many, refused=refused, complete=False)
            try:
                act(task_id, queue=queue, **doer(why))
                many += 1
            except (TaskNotFound, InvalidTransition, IdempotencyConflict, NewerRecord, RedisDamaged) as error:
                refused.append(_refusal(task_id, error))
        if time.monotonic() > ends:
            return BulkAnswer(done=many, refused=refused, complete=False)
    return BulkAnswer(done=many, refused=refused, complete=True)


def _matching(body: LettersBody) -> Iterator[Sequence[Letter]]:
    """The letters that match, newest first. One that dies again meanwhile is newer, and so is not met twice."""
    cursor: str | None = None
    while True:
        page = web().app.store.inspect.dead_letters(queue=body.queue, type=body.type, limit=200, cursor=cursor)
        yield [(letter.queue, letter.task_id) for letter in page.items]
        cursor = page.cursor
        if cursor is None:
            return


def _refusal(task_id: str, error: DtqError) -> Refusal:
    problem = problem_of(error)
    return Refusal(id=task_id, code=problem.code, detail=problem.detail)


def _shape(entry: DeadLetterEntry) -> DeadLetterShape:
    """A letter as the reader may see it. What an error says may hold what is masked: then only its class is shown."""
    shape = dead_letter_shape(entry)
    if not sees_payloads() or web().catalog.redacted(entry.type):
        shape.error = shape.error.partition(": ")[0]
    return shape

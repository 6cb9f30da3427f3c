"""What people do to one task: the endpoints of tasks and of dead letters alike."""

from collections.abc import Callable
from typing import Any

from flask import Response

from webapp.actions import Doer
from webapp.answers import reply
from webapp.api.endpoint import Operation
from webapp.api.requests import PlaceQuery, ReasonBody, RequeueBody
from webapp.api.responses import VerbAnswer
from webapp.api.waits import checked
from webapp.roles import Role

MOVES = ("TASK_NOT_FOUND", "INVALID_TRANSITION", "IDEMPOTENCY_CONFLICT", "NEWER_RECORD")
"""Why a task may not be moved."""


def moving(
    summary: str,
    *,
    role: Role = Role.OPERATOR,
    body: Any = ReasonBody,
    example: dict[str, Any] | None = None,
) -> Operation:
    """An endpoint that does something to the task in its path."""
    return Operation(
        summary=summary,
        roles=(role,),
        query=PlaceQuery,
        body=body,
        body_is_optional=body in {ReasonBody, RequeueBody},
        answers={200: VerbAnswer},
        problems=MOVES,
        example=example or {"reason": "the partner is back"},
    )


def done(task_id: str, outcome: str, verb: Callable[..., None], queue: str | None, who: Doer) -> Response:
    """Do it, and answer with the outcome."""
    verb(checked(task_id), queue=queue, **who)
    return reply(VerbAnswer(id=task_id, outcome=outcome))

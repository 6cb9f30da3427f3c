"""What people do: the shape of all endpoints that change something, and of those that move one task."""

from collections.abc import Callable
from typing import Any

from flask import Response

from webapp.actions import Doer
from webapp.answers import reply
from webapp.api.endpoint import Operation
from webapp.api.reading import Nothing
from webapp.api.requests import PlaceQuery, ReasonBody
from webapp.api.responses import VerbAnswer
from webapp.api.waits import checked
from webapp.roles import Role

MOVES = ("TASK_NOT_FOUND", "INVALID_TRANSITION", "IDEMPOTENCY_CONFLICT", "NEWER_RECORD")
"""Why a task may not be moved."""


def acting(
    summary: str,
    answer: type[Any],
    *,
    example: dict[str, Any],
    role: Role = Role.OPERATOR,
    query: type[Any] = Nothing,
    body: type[Any] = ReasonBody,
    problems: tuple[str, ...] = (),
) -> Operation:
    """An endpoint that changes something, and whose body may say why."""
    return Operation(
        summary=summary,
        roles=(role,),
        query=query,
        body=body,
        answers={200: answer},
        problems=problems,
        example=example,
    )


def moving(
    summary: str,
    *,
    role: Role = Role.OPERATOR,
    body: type[Any] = ReasonBody,
    example: dict[str, Any] | None = None,
) -> Operation:
    """An endpoint that does something to the task in its path."""
    example = example or {"reason": "the partner is back"}
    return acting(summary, VerbAnswer, example=example, role=role, query=PlaceQuery, body=body, problems=MOVES)


def done(task_id: str, outcome: str, verb: Callable[..., None], queue: str | None, who: Doer) -> Response:
    """Do it, and answer with the outcome."""
    verb(checked(task_id), queue=queue, **who)
    return reply(VerbAnswer(id=task_id, outcome=outcome))

"""Errors become problems here and nowhere else."""

import logging
from collections.abc import Mapping

import msgspec
from flask import Flask, Response
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from dtq_engine import (
    DtqError,
    HookFailed,
    IdempotencyConflict,
    IdempotencyMismatch,
    InvalidCursor,
    InvalidLimit,
    InvalidTask,
    InvalidTransition,
    LimitNotFound,
    MemoryFull,
    NewerRecord,
    NotJson,
    PayloadTooLarge,
    PeriodicNotFound,
    QueueFull,
    RedisDamaged,
    RedisRefused,
    RedisUnavailable,
    SubmitUncertain,
    TaskNotFound,
)
from webapp.answers import request_id
from webapp.problems import Problem

AWAY_S = 2
"""When to ask again while Redis is away."""

_log = logging.getLogger("dtq.web")
_encoder = msgspec.json.Encoder()

CODES: Mapping[type[DtqError], tuple[int, str]] = {
    PayloadTooLarge: (413, "PAYLOAD_TOO_LARGE"),
    InvalidTask: (400, "INVALID_TASK"),
    NotJson: (400, "INVALID_JSON"),
    InvalidCursor: (400, "INVALID_CURSOR"),
    TaskNotFound: (404, "TASK_NOT_FOUND"),
    InvalidLimit: (400, "INVALID_LIMIT"),
    LimitNotFound: (404, "LIMIT_NOT_FOUND"),
    PeriodicNotFound: (404, "PERIODIC_NOT_FOUND"),
    InvalidTransition: (409, "INVALID_TRANSITION"),
    IdempotencyConflict: (409, "IDEMPOTENCY_CONFLICT"),
    NewerRecord: (409, "NEWER_RECORD"),
    IdempotencyMismatch: (422, "IDEMPOTENCY_MISMATCH"),
    QueueFull: (429, "QUEUE_FULL"),
    MemoryFull: (429, "MEMORY_FULL"),
    SubmitUncertain: (503, "SUBMIT_UNCERTAIN"),
    RedisUnavailable: (503, "REDIS_UNAVAILABLE"),
    RedisRefused: (503, "REDIS_REFUSED"),
    RedisDamaged: (503, "REDIS_DAMAGED"),
    HookFailed: (500, "HOOK_FAILED"),
}
"""Status and code of each error; the first class that fits counts, so that children come before parents."""


def register(flask: Flask) -> None:
    """Have all errors of an app answered as problems."""
    flask.register_error_handler(Problem, answer)
    flask.register_error_handler(DtqError, lambda error: answer(problem_of(error)))
    flask.register_error_handler(HTTPException, _from_werkzeug)
    flask.register_error_handler(Exception, _unforeseen)


def problem_of(error: DtqError) -> Problem:
    """The problem that an error of the engine is."""
    found = next((CODES[kind] for kind in CODES if isinstance(error, kind)), None)
    if found is None:
        _log.error("request %s failed", request_id(), exc_info=error, extra={"request_id": request_id()})
        return Problem(500, "INTERNAL_ERROR", "dtq failed in a way that its log explains.")
    status, code = found
    more: dict[str, object] = {}
    if isinstance(error, InvalidTask):
        more["field"] = error.field
    if isinstance(error, SubmitUncertain):
        more["task_ids"] = error.task_ids
    headers = {"Retry-After": str(AWAY_S)} if status == 503 else {}
    return Problem(status, code, str(error), more=more, headers=headers)


def answer(problem: Problem) -> Response:
    """A problem as a response."""
    body = _encoder.encode(problem.body(request_id()))
    return Response(body, problem.status, problem.headers, content_type="application/problem+json")


def _from_werkzeug(error: HTTPException) -> Response:
    if error.response is not None or (error.code or 500) < 400:
        return error.get_response()  # type: ignore[return-value]
    if isinstance(error, RequestEntityTooLarge):
        return answer(Problem(413, "BODY_TOO_LARGE", "The body has more than 16 MiB: send several smaller ones."))
    name = (error.name or "error").upper().replace(" ", "_").replace("'", "")
    headers = {name: value for name, value in error.get_headers() if name in {"Allow", "Retry-After"}}
    return answer(Problem(error.code or 500, name, error.description or error.name, headers=headers))


def _unforeseen(error: Exception) -> Response:
    _log.error("request %s failed", request_id(), exc_info=error, extra={"request_id": request_id()})
    return answer(Problem(500, "INTERNAL_ERROR", "The web process failed in a way that its log explains."))

"""Errors become problems here and nowhere else."""

import logging
import re
from collections.abc import Mapping

import msgspec
from flask import Flask, Response
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
from werkzeug.routing import WebsocketMismatch

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
from webapp.answers import Answer, request_id
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


SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not take this method: the header Allow says which it takes.",
}

SENT_AS = {
    "per": "per_seconds",
    "debounce": "debounce_seconds",
    "debounce_max": "debounce_max_seconds",
    "headers": "metadata",
    "expires_in": "expires_in_seconds",
}
"""What fields of a task are called in requests, where it is not what handlers' options are called."""

_OPTIONS = re.compile(r"\b(debounce_max|debounce|headers|expires_in|(?<=at_most and )per)\b")


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
    detail = str(error)
    if isinstance(error, InvalidTask):
        more["field"] = SENT_AS.get(error.field, error.field)
        detail = _as_sent(detail, error.field)
    if isinstance(error, SubmitUncertain):
        more["task_ids"] = error.task_ids
    headers = {"Retry-After": str(AWAY_S)} if status == 503 else {}
    return Problem(status, code, detail, more=more, headers=headers)


def _as_sent(detail: str, field: str) -> str:
    """A sentence about how a task was sent, with the names that fields have in requests; of its contents as it is."""
    if field not in {*SENT_AS, "at_most", "unique_key"}:
        return detail
    return _OPTIONS.sub(lambda found: SENT_AS[found[0]], detail)


def answer(problem: Problem) -> Response:
    """A problem as a response."""
    body = _encoder.encode(problem.body(request_id()))
    return Answer(body, problem.status, "application/problem+json", problem.headers)


def _from_werkzeug(error: HTTPException) -> Response:
    if error.response is not None or (error.code or 500) < 400:
        return error.get_response()  # type: ignore[return-value]
    if isinstance(error, RequestEntityTooLarge):
        return answer(Problem(413, "BODY_TOO_LARGE", "The body has more than 16 MiB: send several smaller ones."))
    if isinstance(error, WebsocketMismatch):
        return answer(Problem(426, "UPGRADE_REQUIRED", "This address is a WebSocket: open it as one."))
    name = (error.name or "error").upper().replace(" ", "_").replace("'", "")
    headers = {name: value for name, value in error.get_headers() if name in {"Allow", "Retry-After"}}
    detail = SENTENCES.get(error.code or 500) or error.description or error.name
    return answer(Problem(error.code or 500, name, detail, headers=headers))


def _unforeseen(error: Exception) -> Response:
    _log.error("request %s failed", request_id(), exc_info=error, extra={"request_id": request_id()})
    return answer(Problem(500, "INTERNAL_ERROR", "The web process failed in a way that its log explains."))

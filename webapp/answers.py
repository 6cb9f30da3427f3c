"""What the parts say of a request, and how values become answers."""

from collections.abc import Mapping
from typing import Any

import msgspec
from flask import Response, request

from webapp.border import ABOUT, REQUEST_ID

_encoder = msgspec.json.Encoder()


def reply(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; `body` is anything that msgspec writes."""
    return Response(_encoder.encode(body), status, headers, content_type="application/json")


def request_id() -> str:
    """The id of the current request: the caller's `X-Request-ID` if it is well-formed, else a new one."""
    found: str = request.environ[REQUEST_ID]
    return found


def about(**facts: str) -> None:
    """Have the log line of this request say this: `task_id`, `queue`, and `verb` for what changes something."""
    request.environ[ABOUT] = request.environ.get(ABOUT, {}) | facts

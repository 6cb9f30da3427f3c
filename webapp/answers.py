"""What the parts say of a request, and how values become answers."""

from collections.abc import Mapping
from typing import Any

import msgspec
from flask import Response, request
from werkzeug.datastructures import Headers

from webapp.border import ABOUT, REQUEST_ID

_encoder = msgspec.json.Encoder()


class Answer(Response):
    """A response that is whole when it is made, and whose headers are ASCII.

    Werkzeug would copy its headers, look for an address to encode among them, and count the bytes of its body: a tenth
    of what accepting a task costs the web process.
    """

    def __init__(self, body: bytes, status: int, content_type: str, headers: Mapping[str, str] | None) -> None:
        given = Headers([("Content-Type", content_type)])
        for each in (headers or {}).items():
            given.add(*each)
        super().__init__(body, status, given)

    def get_wsgi_headers(self, environ: Any) -> Headers:  # noqa: ARG002
        """They are as they are to be sent."""
        return self.headers


def reply(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; `body` is anything that msgspec writes."""
    return Answer(_encoder.encode(body), status, "application/json", headers)


def request_id() -> str:
    """The id of the current request: the caller's `X-Request-ID` if it is well-formed, else a new one."""
    found: str = request.environ[REQUEST_ID]
    return found


def about(**facts: str) -> None:
    """Have the log line of this request say this: `task_id`, `queue`, and `verb` for what changes something."""
    request.environ[ABOUT] = request.environ.get(ABOUT, {}) | facts

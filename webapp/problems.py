"""What goes wrong, as problem details (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any


class Problem(Exception):
    """Raised to answer a request with a problem: `status`, a `code` for programs, and a sentence for people.

    `more` are members beside those of RFC 9457; `headers` go onto the answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.more = dict(more or {})
        self.headers = dict(headers or {})
        super().__init__(detail)

    def body(self, request_id: str) -> dict[str, Any]:
        """The members of the answer. `type` is left out, which means about:blank: `code` says it all."""
        return {
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "request_id": request_id,
            **self.more,
        }

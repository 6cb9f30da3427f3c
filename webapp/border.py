"""Where requests come in and answers go out: the request's id, careful headers, and one log line for each.

It is below Flask, because it is a third of the cost there, and because an answer needs these whatever made it.
"""

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from webapp.bodies import Bodies, Body

REQUEST_ID = "dtq.request_id"
PRINCIPAL = "dtq.principal"
ABOUT = "dtq.about"
"""In the environment of a request: its id, who makes it, and a task that its log line is to name."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
CAREFUL = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
UNSTORED = ("Cache-Control", "no-store")
ENCRYPTED = ("Strict-Transport-Security", "max-age=31536000")

SLOW_S = 1.0
"""What takes longer is worth a line even if all went well."""

Environ = dict[str, Any]
Start = Callable[..., Any]
Wsgi = Callable[[Environ, Start], Iterable[bytes]]

_log = logging.getLogger("dtq.web")
_is_id = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch


class Border:
    """A WSGI app around another."""

    def __init__(self, app: Wsgi, bodies: Bodies) -> None:
        self._app = app
        self._bodies = bodies

    def __call__(self, environ: Environ, start_response: Start) -> Iterable[bytes]:
        """Answer a request."""
        started = time.perf_counter()
        given = environ.get("HTTP_X_REQUEST_ID")
        request_id = given if given is not None and _is_id(given) else secrets.token_hex(16)
        environ[REQUEST_ID] = request_id
        if environ.get("CONTENT_LENGTH") or environ.get("wsgi.input_terminated"):
            environ["wsgi.input"] = Body(environ["wsgi.input"], environ.get("gunicorn.socket"), self._bodies)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers += CAREFUL
            headers.append(("X-Request-ID", request_id))
            if not any(name == "Cache-Control" for name, _ in headers):
                headers.append(UNSTORED)
            if environ["wsgi.url_scheme"] == "https":
                headers.append(ENCRYPTED)
            _tell(environ, status, time.perf_counter() - started)
            return start_response(status, headers) if exc_info is None else start_response(status, headers, exc_info)

        return self._app(environ, start)


def _tell(environ: Environ, status: str, seconds: float) -> None:
    """Log who asked for what, and how it went. No query, body or secret is ever in it.

    What went well is told only at the level DEBUG, unless it was slow or changed something beside adding tasks.
    """
    dull = status[0] in "123" and seconds < SLOW_S and not environ.get(ABOUT, {}).get("verb")
    level = logging.DEBUG if dull else logging.INFO
    if _log.isEnabledFor(level):
        facts = _facts(environ, status, seconds)
        rest = ", ".join(f"{name} {facts[name]}" for name in ("request_id", "actor", "task_id") if facts.get(name))
        line = f"{facts['method']} {facts['path']} {facts['status']} {facts['ms']} ms, {rest}"
        _log.log(level, "%s", line, extra=facts)


def _facts(environ: Environ, status: str, seconds: float) -> dict[str, object]:
    principal = environ.get(PRINCIPAL)
    return {
        "request_id": environ[REQUEST_ID],
        "method": environ["REQUEST_METHOD"],
        # Quoted, so that no line can be forged, whatever formatter a host application has.
        "path": quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")),
        "status": int(status[:3]),
        "ms": round(seconds * 1000, 1),
        "actor": principal.name if principal else None,
        **environ.get(ABOUT, {}),
    }

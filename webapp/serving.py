"""The class of gunicorn's worker processes: its threads, with bounds to what clients can hold up.

It adds a few lines around methods of gunicorn's own. Who sends what is no HTTP gets a problem in JSON, as others do. A
request must have come with all its headers within some seconds. A client that does not close its connection holds up
nobody who opens one. And when the process is to end, connections without a request end at once.
"""

import logging
import secrets
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec
from gunicorn.http import errors  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from webapp.border import CAREFUL, UNSTORED
from webapp.problems import Problem

HEAD_S = 8.0
"""How long the line and the headers of a request may hold a thread. (gunicorn waits 5 s of it for the first byte.)"""

LINGER_S = 0.3
"""How long an idle connection outlives the order to end: a request may be under way on it."""

FAREWELL_S = 1.0
"""How long a client has to close its side after the last answer: earlier it might lose what it has yet to read."""

FAREWELL_BYTES = 64 * 1024 * 1024
"""How much more it may send meanwhile: most clients read why a body was refused only once all of it is sent."""

_log = logging.getLogger("dtq.web")

_FAILED = Problem(500, "INTERNAL_ERROR", "The web process failed in a way that its log explains.")
_REFUSALS: tuple[tuple[type[Exception], Problem], ...] = (
    (errors.LimitRequestLine, Problem(414, "URI_TOO_LONG", "The address is too long: it may have 8190 bytes.")),
    (
        errors.LimitRequestHeaders,
        Problem(431, "HEADERS_TOO_LARGE", "The headers are too many or too long: 100 of up to 8190 bytes may come."),
    ),
    (errors.UnsupportedTransferCoding, Problem(501, "UNSUPPORTED_ENCODING", "Send the body as it is, or in chunks.")),
    (errors.ExpectationFailed, Problem(417, "EXPECTATION_FAILED", "Only 100-continue can be expected here.")),
    (errors.ForbiddenProxyRequest, Problem(403, "FORBIDDEN", "This address may not speak for others.")),
    (errors.ParseException, Problem(400, "BAD_REQUEST", "This is no HTTP/1.1 request that can be read here.")),
)


class WebWorker(ThreadWorker):  # type: ignore[misc]
    """A process that serves with threads; gunicorn calls all of this."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Connections on whose requests threads wait, and since when. One operation on a dict needs no lock.
        self._heads: dict[Any, float] = {}
        self._is_over = False

    # Requests

    def handle(self, conn: Any) -> Any:
        """Serve one request; on a thread of the pool. Whether the connection stays."""
        self._heads[conn] = time.monotonic()
        try:
            stays = super().handle(conn)
        finally:
            self._heads.pop(conn, None)
        if stays is False:
            _part(conn.sock)
        return stays

    def handle_request(self, req: Any, conn: Any) -> Any:
        """The same, once its headers are there."""
        self._heads.pop(conn, None)
        return super().handle_request(req, conn)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:  # noqa: ARG002
        """Answer what gunicorn refuses before the app sees it."""
        problem = next((answer for kind, answer in _REFUSALS if isinstance(exc, kind)), _FAILED)
        if type(exc).__name__.startswith("InvalidResponse"):  # what the app tried to send is no fault of the client
            problem = _FAILED
        if problem is _FAILED:
            _log.error("a request failed below the app", exc_info=exc)
        else:
            _log.info("refused what is no request for the app: %s", type(exc).__name__)
        with suppress(OSError):
            client.settimeout(FAREWELL_S)
            client.sendall(_answer(problem))

    # The end

    def handle_exit(self, sig: Any, frame: Any) -> None:
        """Hear the order to end."""
        super().handle_exit(sig, frame)
        # A signal handler must not start a thread, as it may have interrupted just that.
        self.method_queue.defer(self._linger)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Take back a connection from a thread."""
        super().finish_request(conn, fs)
        if self._is_over:
            _hang_up(conn.sock)

    def notify(self) -> None:
        """Tell that the main thread is alive, as it does each second; and look for who takes too long."""
        super().notify()
        now = time.monotonic()
        for conn in [conn for conn, since in list(self._heads.items()) if now - since >= HEAD_S]:
            _hang_up(conn.sock)

    def _linger(self) -> None:
        timer = threading.Timer(LINGER_S, self._part_from_all)
        timer.daemon = True
        timer.start()

    def _part_from_all(self) -> None:
        """Hang up where no request is under way: gunicorn sees the end of each of these connections and closes it."""
        self._is_over = True
        for conn in (*list(self._heads), *list(self.keepalived_conns), *list(self.pending_conns)):
            _hang_up(conn.sock)


def _answer(problem: Problem) -> bytes:
    request_id = secrets.token_hex(16)
    members = problem.body(request_id)
    body = msgspec.json.encode(members)
    headers = (
        ("Content-Type", "application/problem+json"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        ("X-Request-ID", request_id),
        UNSTORED,
        *CAREFUL,
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {problem.status} {members['title']}\r\n{head}\r\n".encode() + body


def _part(sock: socket.socket) -> None:
    """Say that no more comes, and wait for the client to close: on this thread, as gunicorn does it on its only one."""
    ends, drained, buffer = time.monotonic() + FAREWELL_S, 0, bytearray(65_536)
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        while drained < FAREWELL_BYTES and (left := ends - time.monotonic()) > 0:
            sock.settimeout(left)
            many = sock.recv_into(buffer)
            if not many:
                break
            drained += many
        else:
            # It sends on, and would wait for its system to give up: a reset ends that at once.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _hang_up(sock)


def _hang_up(sock: socket.socket) -> None:
    """End a connection without closing its descriptor, which is gunicorn's to do."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)

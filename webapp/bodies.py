"""Bodies of requests as they come over the wire: how long they may take, and what is said of one that breaks off."""

import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from webapp.problems import Problem

BODY_S = 10.0
"""How long a body may take from its first byte to its last: until then it holds a thread."""

TICK_S = 0.5


class Bodies:
    """Ends bodies that take too long. One thread looks after all of them, from the first one on."""

    def __init__(self, seconds: float = BODY_S) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._reading: dict[socket.socket, float] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def reading(self, connection: socket.socket, deadline: float) -> Generator[None]:
        """Nothing more is read from the connection after the deadline; raises a 408 then."""
        with self._lock:
            self._reading[connection] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="dtq-bodies", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                in_time = self._reading.pop(connection, None) is not None
            if not in_time:
                raise Problem(408, "BODY_TOO_SLOW", f"The body took more than {self.seconds:g} s: send it faster.")

    def _watch(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                for connection in [each for each, deadline in self._reading.items() if deadline < now]:
                    del self._reading[connection]
                    _hear_no_more(connection)
            time.sleep(TICK_S)


class Body:
    """`wsgi.input` for whoever reads it. What goes wrong on the way is the client's doing, and is a Problem."""

    def __init__(self, source: Any, connection: socket.socket | None, bodies: Bodies) -> None:
        self._source = source
        self._connection = connection
        self._bodies = bodies
        self._deadline = 0.0

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; fewer only at the end."""
        return self._whole(self._source.read, size)

    def readline(self, size: int = -1) -> bytes:
        """A line of at most `size` bytes."""
        return self._whole(self._source.readline, size)

    def readlines(self, _hint: int = -1) -> list[bytes]:
        """All lines."""
        return self.read().splitlines(keepends=True)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _whole(self, read: Any, size: int) -> bytes:
        try:
            if self._connection is None:
                return bytes(read(size))
            self._deadline = self._deadline or time.monotonic() + self._bodies.seconds
            with self._bodies.reading(self._connection, self._deadline):
                return bytes(read(size))
        except Problem:
            raise
        # Each server has its own errors for chunks that are none and for connections that end.
        except Exception as error:
            raise Problem(
                400, "BODY_BROKEN", "The body broke off, or its chunks are malformed: send it anew."
            ) from error


def _hear_no_more(connection: socket.socket) -> None:
    # It may be closed already.
    with suppress(OSError):
        # The answer must still get out, also over TLS, whose own shutdown would end the encryption.
        socket.socket.shutdown(connection, socket.SHUT_RD)

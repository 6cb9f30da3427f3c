"""A reader of an event socket that reads only when told to."""

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Message,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)


class Refused(Exception):
    """Raised when the server answers the handshake with something else than a socket."""

    def __init__(self, status: int, headers: Mapping[str, str], body: str) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        super().__init__(f"{status}: {body}")


class Closed(Exception):
    """Raised when the server has closed the socket."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        super().__init__(f"{code}: {reason}")


class Reader:
    """One socket. Messages come as `receive` asks for them; nothing is read before."""

    def __init__(self, port: int, target: str, headers: Mapping[str, str], buffer: int | None = None) -> None:
        self.raw = socket.socket()
        if buffer is not None:
            self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.raw.settimeout(10)
        self.raw.connect(("127.0.0.1", port))
        self._ws = WSConnection(ConnectionType.CLIENT)
        self._waiting: list[Event] = []
        self._part = ""
        extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self.raw.sendall(self._ws.send(Request(host=f"127.0.0.1:{port}", target=target, extra_headers=extra)))
        self._shake_hands()

    def _shake_hands(self) -> None:
        event = self._next(time.monotonic() + 10)
        if isinstance(event, AcceptConnection):
            return
        assert isinstance(event, RejectConnection), event
        headers, body = {name.decode().lower(): value.decode() for name, value in event.headers}, b""
        while isinstance(data := self._next(time.monotonic() + 10), RejectData):
            body += data.data
            if data.body_finished:
                break
        self.raw.close()
        raise Refused(event.status_code, headers, body.decode())

    def receive(self, timeout: float = 10) -> dict[str, Any]:
        """The next message. Raises Closed when the server has closed, TimeoutError when nothing comes."""
        ends = time.monotonic() + timeout
        while True:
            match self._next(ends):
                case TextMessage() as event:
                    self._part += event.data
                    if event.message_finished:
                        text, self._part = self._part, ""
                        assert len(text.encode()) < 1024
                        return dict(json.loads(text))
                case Ping() as event:
                    self.raw.sendall(self._ws.send(event.response()))
                case CloseConnection() as event:
                    with suppress(OSError):
                        self.raw.sendall(self._ws.send(event.response()))
                    self.raw.close()
                    raise Closed(event.code, event.reason or "")
                case _:
                    raise Closed(1006, "the connection broke")

    def events(self, many: int, timeout: float = 15) -> list[dict[str, Any]]:
        """The next events; anything else that comes fails the test."""
        return [self.receive(timeout) for _ in range(many)]

    def until(self, kind: str, timeout: float = 15) -> list[dict[str, Any]]:
        """All messages up to the first of this type."""
        ends, found = time.monotonic() + timeout, [self.receive(timeout)]
        while found[-1]["type"] != kind:
            found.append(self.receive(ends - time.monotonic()))
        return found

    def send(self, text: str) -> None:
        """Say something."""
        self.raw.sendall(self._ws.send(Message(text)))

    def close(self) -> None:
        """Say goodbye and go."""
        self.raw.sendall(self._ws.send(CloseConnection(1000)))
        self.raw.close()

    def _next(self, ends: float) -> Event | None:
        while not self._waiting:
            self.raw.settimeout(max(0.001, ends - time.monotonic()))
            try:
                data = self.raw.recv(65536)
            except ConnectionError:
                data = b""
            self._ws.receive_data(data or None)
            self._waiting += list(self._ws.events())
            if not data and not self._waiting:
                return None
        return self._waiting.pop(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.raw.close()

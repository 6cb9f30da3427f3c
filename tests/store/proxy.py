"""A TCP proxy between a client and its server that loses what a network loses."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes on, until told to lose replies or to cut connections; `url` is what a client connects to."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._lose = 0
        self._cut = 0
        self.requests = 0
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_replies(self, count: int = 1_000_000) -> None:
        """Swallow the next replies: the server acts, the client waits in vain."""
        self._lose = count

    def cut_replies(self, count: int = 1_000_000) -> None:
        """Close the connection instead of passing on each of the next replies."""
        self._cut = count

    def mend(self) -> None:
        """Pass everything on again."""
        self._lose = self._cut = 0

    def close(self) -> None:
        """Let go of all sockets."""
        for each in (self._listener, *self._sockets):
            _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += (client, server)
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        try:
            while part := source.recv(65536):
                self.requests += to_server
                if to_server or self._passes():
                    sink.sendall(part)
                elif self._cut:
                    self._cut -= 1
                    break
        except OSError:
            pass
        finally:
            _shut(source)
            _shut(sink)

    def _passes(self) -> bool:
        """Whether a reply is passed on; a lost one is counted."""
        if self._lose:
            self._lose -= 1
            return False
        return not self._cut


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy to a server, closed at the end."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()

"""TLS in front of a server that speaks none, with a certificate that it signed itself."""

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A new certificate for this machine, and its key."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*new, "-keyout", key, "-out", certificate, *subject], check=True, capture_output=True)
    return certificate, key


class Terminator:
    """Takes TLS connections at `port` and passes on what comes out of them."""

    def __init__(self, target: int, certificate: Path, key: Path) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Let go of all sockets."""
        for each in (self._listener, *self._sockets):
            _shut(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            outer = self._context.wrap_socket(client, server_side=True)
        except OSError:
            _shut(client)
            return
        inner = socket.create_connection(("127.0.0.1", self._target))
        self._sockets += (outer, inner)
        threading.Thread(target=_pump, args=(inner, outer), daemon=True).start()
        _pump(outer, inner)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
    _shut(source)
    _shut(sink)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()

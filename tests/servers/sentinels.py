"""A server with a replica, and a sentinel that watches them."""

import subprocess
from pathlib import Path
from typing import Any

import redis

from dtq_engine.embedded import EmbeddedValkey, free_port
from tests.support.waiting import wait_until

CONFIG = """
port {port}
bind 127.0.0.1
dir {directory}
sentinel monitor prime 127.0.0.1 {watched} 1
sentinel down-after-milliseconds prime 500
sentinel failover-timeout prime 3000
"""


class Watched:
    """The service `prime`: two servers, the first of which is the primary, and one sentinel."""

    def __init__(self, directory: Path, binary: Path) -> None:
        options = {"repl-diskless-sync-delay": "0"}
        self.first = EmbeddedValkey(directory / "first", appendonly=False, options=options)
        self.second = EmbeddedValkey(directory / "second", appendonly=False, options=options)
        self._directory, self._binary, self._port = directory, binary, free_port()
        self._sentinel: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self._port}/prime/0"

    def start(self) -> None:
        """Start all, and wait until the replica has all that the primary has and the sentinel knows it."""
        self.first.start()
        self.second.start()
        ask(self.second.port, "REPLICAOF", "127.0.0.1", self.first.port)
        wait_until(lambda: "master_link_status:up" in ask(self.second.port, "INFO", "replication"), 20, 0.05)
        config = self._directory / "sentinel.conf"
        config.write_text(CONFIG.format(port=self._port, directory=self._directory, watched=self.first.port))
        with (self._directory / "sentinel.log").open("wb") as log:
            self._sentinel = subprocess.Popen([self._binary, config, "--sentinel"], stdout=log, stderr=log)
        wait_until(self._is_watched, 20, 0.1)

    def stop(self) -> None:
        """Stop all."""
        if self._sentinel is not None:
            self._sentinel.kill()
            self._sentinel.wait()
        self.second.stop()
        self.first.stop()

    def _is_watched(self) -> bool:
        try:
            return "slaves=1" in ask(self._port, "INFO", "sentinel")
        except redis.ConnectionError:
            return False


def ask(port: int, *command: str | int) -> Any:
    """The raw reply of one server."""
    with redis.Redis(port=port, protocol=2, decode_responses=True) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)

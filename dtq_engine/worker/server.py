"""What the Redis server says of itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dtq_engine.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The parts of INFO that dtq looks at; `eviction` is the maxmemory policy, empty when it is hidden."""

    name: str
    version: tuple[int, ...]
    run_id: str
    uptime_s: float
    eviction: str = ""
    persists: bool = True
    is_read_only: bool = False

    @property
    def title(self) -> str:
        """Name and version, for people."""
        return f"{self.name} {'.'.join(map(str, self.version))}"


def look(connection: Connection) -> ServerFacts:
    """Ask the server; of a cluster's nodes the least favourable answers count. Raises RedisUnavailable."""
    facts = [read(_info(node)) for node in connection.nodes()]
    evicting = [each for each in facts if each.eviction.startswith("allkeys")]
    return replace(
        (evicting or facts)[0],
        run_id=" ".join(each.run_id for each in facts),
        uptime_s=min(each.uptime_s for each in facts),
        persists=all(each.persists for each in facts),
        is_read_only=any(each.is_read_only for each in facts),
    )


def read(info: Mapping[str, str]) -> ServerFacts:
    """The facts in the fields of INFO."""
    is_valkey = info.get("server_name") == "valkey"
    version = info.get("valkey_version" if is_valkey else "redis_version", "")
    return ServerFacts(
        name="Valkey" if is_valkey else "Redis",
        version=tuple(int(part) for part in re.findall(r"\d+", version)[:3]),
        run_id=info.get("run_id", ""),
        uptime_s=float(info.get("uptime_in_seconds", "0")),
        eviction=info.get("maxmemory_policy", ""),
        persists=info.get("aof_enabled", "1") != "0",
        is_read_only=info.get("role") == "slave" and info.get("slave_read_only", "1") != "0",
    )


def _info(connection: Connection) -> dict[str, str]:
    text: bytes = connection.call("INFO")
    lines = text.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))

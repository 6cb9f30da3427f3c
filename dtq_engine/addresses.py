"""Addresses of Redis deployments, and the links that they lead to."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry as NoRetry
from redis.sentinel import Sentinel

from dtq_engine.cluster import ClusterLink
from dtq_engine.config import Settings
from dtq_engine.links import Link, PoolLink

_driver: Any = hiredis  # its types are wrong

CONNECT_TIMEOUT_S = 1.5
REPLY_TIMEOUT_S = 1.9


def linked(settings: Settings) -> tuple[Link, int]:
    """The link to what `settings.redis_url` names, and the number of its database; no socket is opened yet."""
    address = _address(settings)
    url = urlsplit(address)
    if url.scheme.endswith("+cluster"):
        return _cluster(address), 0
    if url.scheme.endswith("+sentinel"):
        return over_pool(_sentinel_client(address))
    options = _options() | {"command_packer": _Packer()}
    if url.scheme == "unix":
        del options["socket_keepalive"]  # redis-py refuses it there
    client: Any = redis.Redis
    return over_pool(client.from_url(address, **options))


def names_user(settings: Settings) -> bool:
    """Whether the address names a user of Redis, and not the one that everybody is by default."""
    url = urlsplit(settings.redis_url)
    name = url.username or dict(parse_qsl(url.query)).get("username")
    return name not in {None, "default"}


class _Packer:
    """Commands as bytes, as redis-py makes them without looking at each argument: what we send is text and numbers."""

    def pack(self, *command: str | bytes | float) -> list[bytes]:
        """One command; of redis-py's own ones the first word may be two, such as `SCRIPT LOAD`."""
        first = command[0]
        if isinstance(first, str) and " " in first:
            command = (*first.split(), *command[1:])
        return [_driver.pack_command(command)]


def over_pool(client: Any) -> tuple[Link, int]:
    """The link over a client of redis-py's, and the number of its database."""
    return PoolLink(client), int(client.connection_pool.connection_kwargs.get("db") or 0)


def _address(settings: Settings) -> str:
    """The address, which also says whether to trust any certificate, for servers that sign their own."""
    parts = urlsplit(settings.redis_url)
    if settings.redis_tls_verify or not parts.scheme.startswith("rediss"):
        return settings.redis_url
    return parts._replace(query="&".join(filter(None, (parts.query, "ssl_cert_reqs=none")))).geturl()


def _options() -> dict[str, Any]:
    return {
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": REPLY_TIMEOUT_S,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "retry": NoRetry(NoBackoff(), 0),
        "health_check_interval": 0,
    }


def _cluster(url: str) -> ClusterLink:
    """`redis+cluster://user:password@host:port,host:port?option=value`; one host that answers is enough."""
    parts = urlsplit(url.replace("+cluster", "", 1))
    credentials, at, hosts = parts.netloc.rpartition("@")
    first, *others = hosts.split(",")
    address = parts._replace(netloc=credentials + at + first).geturl()

    def make() -> RedisCluster:
        node: Any = ClusterNode
        nodes = [node(*place) for place in _places(others, 6379)]
        return RedisCluster.from_url(address, startup_nodes=nodes, require_full_coverage=False, **_options())

    return ClusterLink(make)


def _places(hosts: Sequence[str], port: int) -> list[tuple[str, int]]:
    """`host:port` or `host`, taken apart."""
    return [(host, int(given or port)) for host, _, given in (item.partition(":") for item in hosts)]


def _sentinel_client(url: str) -> Any:
    """`redis+sentinel://user:password@host:port,host:port/service/db?option=value`."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    service, _, database = parts.path.strip("/").partition("/")
    options = _options() | dict(parse_qsl(parts.query)) | {"db": int(database or 0)}
    if password:
        options |= {"username": unquote(user) or None, "password": unquote(password)}
    if parts.scheme.startswith("rediss"):
        options["ssl"] = True
    # Sentinels have users of their own, and mostly none; TLS is for all or for none.
    asked = {"username": "sentinel_username", "password": "sentinel_password"}
    of_sentinels = {name: options.pop(given, None) for name, given in asked.items()}
    of_sentinels |= {name: options[name] for name in _options() if name != "retry"}
    of_sentinels |= {name: value for name, value in options.items() if name.startswith("ssl")}
    manager: Any = Sentinel(_places(hosts.split(","), 26379), sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
    return manager.master_for(service or "mymaster", **options)

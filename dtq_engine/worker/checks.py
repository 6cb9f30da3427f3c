"""What a worker makes sure of before it takes its first task."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from dtq_engine.config import Settings
from dtq_engine.errors import ConfigurationError, RedisUnavailable
from dtq_engine.worker.server import ServerFacts

log = logging.getLogger("dtq.worker")

T = TypeVar("T")

OLDEST = {"Redis": (7, 0), "Valkey": (7, 2)}


def once_reachable(call: Callable[[], T], given_up: Callable[[], bool]) -> T | None:
    """What `call` returns once Redis answers; an unreachable one is tried again, and said once in the log.

    None as soon as `given_up` says that nobody waits any more.
    """
    said = False
    while not given_up():
        try:
            return call()
        except RedisUnavailable as error:
            if not said:
                log.warning("waiting for Redis: %s", error)
            said = True
            time.sleep(random.uniform(0.2, 0.5))
    return None


def check_server(server: ServerFacts, settings: Settings) -> None:
    """Raise ConfigurationError if dtq cannot keep its promise on this server; warn of what endangers it."""
    if found := list(problems(server, settings)):
        raise ConfigurationError(found)
    for warning in warnings(server):
        log.warning("%s", warning)


def problems(server: ServerFacts, settings: Settings) -> Iterator[str]:
    """Why dtq cannot keep its promise on this server."""
    oldest = OLDEST[server.name]
    if server.version < oldest:
        yield (
            f"{server.title} is too old: dtq needs Redis 7.0 or Valkey 7.2, or later; "
            "upgrade the server or point DTQ_REDIS_URL to another one."
        )
    if server.eviction.startswith("allkeys-") and not settings.allow_eviction:
        yield (
            f"This Redis may evict any key when its memory is full (maxmemory-policy {server.eviction}), and so lose "
            "tasks: set it to noeviction, or set DTQ_ALLOW_EVICTION=1 to accept the loss."
        )


def warnings(server: ServerFacts) -> Iterator[str]:
    """What of this server endangers the promise."""
    if server.eviction.startswith("allkeys-"):
        yield f"this Redis may evict tasks when its memory is full (maxmemory-policy {server.eviction})"
    elif server.eviction not in {"", "noeviction"}:
        yield (
            f"this Redis may evict finished tasks early when its memory is full (maxmemory-policy {server.eviction}): "
            "set it to noeviction"
        )
    if not server.persists:
        yield "this Redis keeps no append-only file, so that a crash of it loses tasks: set appendonly to yes"

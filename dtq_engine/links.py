"""One exchange with the server, at the border to redis-py: a command goes out, and what became of it is known."""

from collections.abc import Sequence
from typing import Any, Protocol

import redis
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    ResponseError,
)

Command = Sequence[str | bytes | int | float]
REFUSED = (AuthenticationError, AuthorizationError, NoPermissionError)
"""Answers that are final although redis-py counts some of them among the errors of connections."""


class NotSent(Exception):
    """Raised when a command did not reach Redis, or Redis said that it did not run it."""


class ReplyLost(Exception):
    """Raised when a command was sent, whole or in part, and no reply came back."""


class Link(Protocol):
    """One exchange with the server: a command out, a reply in."""

    def exchange(self, command: Command, timeout_s: float) -> Any:
        """Send and wait `timeout_s` for the reply. Raises NotSent, ReplyLost, or the error that Redis answered."""
        ...


class PoolLink:
    """Exchanges over a pool of connections, below redis-py's client: a sixth of its CPU time per call."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def exchange(self, command: Command, timeout_s: float) -> Any:
        """As `Link.exchange`."""
        try:
            connection = self._pool.get_connection()
        except REFUSED:
            raise
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise NotSent(str(error)) from error
        try:
            connection.send_command(*command)
            return connection.read_response(timeout=timeout_s)
        except (ResponseError, *REFUSED):
            raise
        except BusyLoadingError as error:
            raise NotSent(str(error)) from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            connection.disconnect()
            raise ReplyLost(str(error)) from error
        except BaseException:
            # An interrupted exchange would leave its reply to the next user of the connection.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)


class ClusterLink:
    """Exchanges through redis-py's cluster client, which knows which node holds a key."""

    def __init__(self, client: RedisCluster) -> None:
        self._client = client

    def exchange(self, command: Command, timeout_s: float) -> Any:
        """As `Link.exchange`."""
        del timeout_s  # the client's own socket timeout holds: a cluster is never waited at for long
        try:
            return self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (ResponseError, *REFUSED):
            raise
        except (redis.ConnectionError, redis.TimeoutError, redis.RedisError, OSError) as error:
            raise ReplyLost(str(error)) from error

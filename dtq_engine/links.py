"""One exchange with the server, at the border to redis-py: a command goes out, and what became of it is known."""

import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    RedisClusterException,
    ResponseError,
)

from dtq_engine import crash

Command = Sequence[str | bytes | int | float]
REFUSED = (AuthenticationError, AuthorizationError, NoPermissionError)
"""Answers that are final although redis-py counts some of them among the errors of connections."""

FRESH_S = 0.1
"""For how long after its use a connection surely has nothing left to say."""

ESTABLISHED = b"\x01"
"""What Linux says of a connection that neither side has closed (TCP_ESTABLISHED in its tcp_states.h)."""

BROKEN = (redis.RedisError, RedisClusterException, OSError)
"""All that redis-py raises when it cannot go on."""


class NotSent(Exception):
    """Raised when a command did not reach Redis, or Redis said that it did not run it."""


class ReplyLost(Exception):
    """Raised when a command was sent, whole or in part, and no reply came back."""


class Link(Protocol):
    """The exchanges with a deployment of Redis. Thread-safe; opens no socket before the first exchange."""

    @property
    def client(self) -> Any:
        """redis-py's client. Raises NotSent where it cannot be made."""
        ...

    def exchange(self, command: Command, timeout_s: float) -> Any:
        """Send and wait `timeout_s` for the reply. Raises NotSent, ReplyLost, or the error that Redis answered."""
        ...

    def exchange_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send reads in one go; one that failed is its exception in the list. Raises NotSent or ReplyLost."""
        ...

    def pubsub(self) -> Any:
        """A subscriber of redis-py's, on a node that hears what is published on any. Raises NotSent."""
        ...

    def nodes(self) -> "Sequence[Link]":
        """A link to each node that holds keys of its own. Raises NotSent."""
        ...

    def close(self) -> None:
        """Close all sockets, those in use as well; the next exchange opens new ones."""
        ...


class PoolLink:
    """Exchanges over a pool of connections, below redis-py's client: a sixth of its CPU time per call.

    Connections of a plain pool are kept here between exchanges, because handing them back and forth costs as much
    as using them. To the pool they count as in use, so that closing it closes them.
    """

    def __init__(self, client: Any, *, keeps: bool = True) -> None:
        """`keeps`: whether it lives for long, so that it may keep connections."""
        self.client = client
        self._pool = client.connection_pool
        # A pool of sentinels looks at its connections when the primary changes.
        self._keeps = keeps and type(self._pool) is redis.ConnectionPool
        self._idle: deque[tuple[Any, float]] = deque()

    def exchange(self, command: Command, timeout_s: float, *, asking: bool = False) -> Any:
        """As `Link.exchange`; `asking` is how a node is asked for a slot that is just moving to it."""
        connection = self._take()
        try:
            if asking:
                connection.send_command("ASKING")
                connection.read_response()
            connection.send_command(*command)
            crash.sent(command)
            if connection.socket_timeout == timeout_s:
                return connection.read_response()  # setting it anew would cost a third more
            return connection.read_response(timeout=timeout_s)
        except (ResponseError, *REFUSED):
            raise
        except BusyLoadingError as error:
            raise NotSent(str(error)) from error
        except (redis.RedisError, OSError) as error:
            # Not only lost connections: what answers may be no Redis at all.
            connection.disconnect()
            raise ReplyLost(str(error)) from error
        except BaseException:
            # An interrupted exchange would leave its reply to the next user of the connection.
            connection.disconnect()
            raise
        finally:
            self._give_back(connection)

    def _take(self) -> Any:
        """A connection that is open and has nothing left to say. Raises NotSent."""
        while self._idle:
            with suppress(IndexError):  # another thread may have been quicker
                connection, used_at = self._idle.pop()
                # To look at one that is closed would open it, which can take its time.
                is_fresh = time.monotonic() - used_at < FRESH_S and _is_established(connection)
                if is_fresh or (connection.is_connected and _is_quiet(connection)):
                    return connection
                # It was closed meanwhile, or the pool was: the pool opens another one.
                connection.disconnect()
                self._pool.release(connection)
        return self._open()

    def _open(self) -> Any:
        try:
            return self._pool.get_connection()
        except REFUSED:
            raise
        except (redis.RedisError, OSError) as error:
            raise NotSent(str(error)) from error

    def _give_back(self, connection: Any) -> None:
        if self._keeps:
            self._idle.append((connection, time.monotonic()))
        else:
            self._pool.release(connection)

    def exchange_all(self, commands: Sequence[Command]) -> list[Any]:
        """As `Link.exchange_all`."""
        with suppress(IndexError):  # or the pool would open another one beside those that are kept here
            self._pool.release(self._idle.pop()[0])
        pipe = self.client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        try:
            return list(pipe.execute(raise_on_error=False))
        except BROKEN as error:
            raise ReplyLost(str(error)) from error

    def pubsub(self) -> Any:
        """As `Link.pubsub`."""
        return self.client.pubsub()

    def nodes(self) -> Sequence[Link]:
        """Itself."""
        return [self]

    def close(self) -> None:
        """As `Link.close`."""
        self._pool.disconnect()


def _is_established(connection: Any) -> bool:
    """Whether a connection is open, if this can be seen at once: to ask it for more lets all other threads go first."""
    option: int | None = getattr(socket, "TCP_INFO", None)
    try:
        return option is not None and connection._sock.getsockopt(socket.IPPROTO_TCP, option, 1) == ESTABLISHED  # noqa: SLF001
    except (OSError, AttributeError):
        return False  # no TCP, or closed by now


def _is_quiet(connection: Any) -> bool:
    """Whether an open connection can be used at once."""
    try:
        return not connection.can_read()
    except (redis.RedisError, OSError):
        return False

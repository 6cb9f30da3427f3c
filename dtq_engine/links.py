"""One exchange with the server, at the border to redis-py: a command goes out, and what became of it is known."""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MovedError,
    NoPermissionError,
    RedisClusterException,
    ResponseError,
)

from dtq_engine import crash

Command = Sequence[str | bytes | int | float]
REFUSED = (AuthenticationError, AuthorizationError, NoPermissionError)
"""Answers that are final although redis-py counts some of them among the errors of connections."""

BROKEN = (redis.RedisError, RedisClusterException, OSError)
"""All that redis-py raises when it cannot go on."""

FOLLOW_S = 1.9

# Where a command has its (first) key, when that is not the word after its name.
_KEY_AT = {"EVAL": 3, "EVALSHA": 3, "LMPOP": 2, "XINFO": 2}
_KEYLESS = frozenset({"COMMAND", "CONFIG", "ECHO", "INFO", "PING", "PUBLISH", "SCAN", "SCRIPT", "TIME"})


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
    """Exchanges over a pool of connections, below redis-py's client: a sixth of its CPU time per call."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._pool = client.connection_pool

    def exchange(self, command: Command, timeout_s: float, *, asking: bool = False) -> Any:
        """As `Link.exchange`; `asking` is how a node is asked for a slot that is just moving to it."""
        try:
            connection = self._pool.get_connection()
        except REFUSED:
            raise
        except (redis.RedisError, OSError) as error:
            raise NotSent(str(error)) from error
        try:
            if asking:
                connection.send_command("ASKING")
                connection.read_response()
            connection.send_command(*command)
            crash.sent(command)
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
            self._pool.release(connection)

    def exchange_all(self, commands: Sequence[Command]) -> list[Any]:
        """As `Link.exchange_all`."""
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


class ClusterLink:
    """Exchanges with the node that holds a command's key. redis-py knows the cluster's map; it sends nothing else.

    Its own way of sending waits for no reply longer than for any other, and asks the server where a command
    has its keys.
    """

    def __init__(self, make: Callable[[], RedisCluster]) -> None:
        """With what makes redis-py's client, which reads the map at once."""
        self._make = make
        self._client: RedisCluster | None = None
        self._learning = threading.Lock()
        self._lessons = 0

    @property
    def client(self) -> RedisCluster:
        """As `Link.client`."""
        return self._client or self._learn(self._lessons)

    def exchange(self, command: Command, timeout_s: float) -> Any:
        """As `Link.exchange`."""
        lessons, client = self._lessons, self.client
        node = _holder(client, key_of(command))
        try:
            return _pool_link(client, node).exchange(command, timeout_s)
        except MovedError as error:
            _note_move(client, error)
            raise NotSent(f"the slot has moved: {error}") from error
        except AskError as error:
            target = _named(client, error)
            return _pool_link(client, target).exchange(command, timeout_s, asking=True)
        except (NotSent, ReplyLost):
            self._look_again(lessons, node)
            raise

    def exchange_all(self, commands: Sequence[Command]) -> list[Any]:
        """As `Link.exchange_all`, with one pipeline for each node."""
        lessons, client = self._lessons, self.client
        by_node: dict[str, tuple[ClusterNode, list[int]]] = {}
        for position, command in enumerate(commands):
            node = _holder(client, key_of(command))
            by_node.setdefault(node.name, (node, []))[1].append(position)
        answers: dict[int, Any] = {}
        for node, positions in by_node.values():
            try:
                replies = _pool_link(client, node).exchange_all([commands[position] for position in positions])
            except (NotSent, ReplyLost):
                self._look_again(lessons, node)
                raise
            answers.update(zip(positions, replies, strict=True))
        return [self._followed(client, commands[position], answers[position]) for position in range(len(commands))]

    def pubsub(self) -> Any:
        """As `Link.pubsub`."""
        client = self.client
        return _pool_link(client, random.choice(_primaries(client))).pubsub()

    def nodes(self) -> Sequence[Link]:
        """As `Link.nodes`."""
        client = self.client
        return [_pool_link(client, node) for node in _primaries(client)]

    def close(self) -> None:
        """As `Link.close`."""
        client, self._client = self._client, None
        if client is not None:
            for node in _nodes(client):
                client.get_redis_connection(node).connection_pool.disconnect()

    def _followed(self, client: RedisCluster, command: Command, answer: Any) -> Any:
        """An answer, or that of the node which it points to."""
        if not isinstance(answer, AskError):
            return answer
        try:
            target = _note_move(client, answer) if isinstance(answer, MovedError) else _named(client, answer)
            return _pool_link(client, target).exchange(command, FOLLOW_S, asking=True)
        except ResponseError as error:
            return error

    def _look_again(self, lessons: int, failed: ClusterNode) -> None:
        """A node that failed may have been replaced: the next exchange goes where the map says by then."""
        with suppress(NotSent, *REFUSED):
            self._learn(lessons, failed.name)

    def _learn(self, lessons: int, failed: str | None = None) -> RedisCluster:
        """Read the map, unless another thread has done so (or tried to) since `lessons`."""
        with self._learning:
            if self._lessons == lessons:
                self._lessons += 1
                try:
                    if self._client is None:
                        self._client = self._make()
                    else:
                        self._client.nodes_manager.initialize(last_failed_node_name=failed)
                except BROKEN as error:
                    if isinstance(error.__cause__, REFUSED):
                        raise error.__cause__ from error
                    raise NotSent(str(error)) from error
            if self._client is None:
                raise NotSent("no node of the cluster answers")
            return self._client


def key_of(command: Command) -> str | bytes | None:
    """The key that says which node a command of dtq goes to; None if any node will do."""
    name = str(command[0]).upper()
    at = _KEY_AT.get(name, 1)
    if name in _KEYLESS or len(command) <= at:
        return None
    key = command[at]
    return key if isinstance(key, bytes) else str(key)


def _holder(client: RedisCluster, key: str | bytes | None) -> ClusterNode:
    """The node that holds a key. What has no key always goes to the same one, which tells if it was restarted."""
    if key is None:
        return _primaries(client)[0]
    try:
        node = cast("ClusterNode | None", client.get_node_from_key(key))  # type: ignore[no-untyped-call]
    except RedisClusterException as error:
        raise NotSent(str(error)) from error
    if node is None:
        raise NotSent("no node of the cluster holds this key's slot")
    return node


def _primaries(client: RedisCluster) -> list[ClusterNode]:
    nodes: list[ClusterNode] = client.get_primaries()  # type: ignore[no-untyped-call]
    if not nodes:
        raise NotSent("no node of the cluster is known to hold keys")
    return sorted(nodes, key=lambda node: str(node.name))


def _nodes(client: RedisCluster) -> list[ClusterNode]:
    nodes: list[ClusterNode] = client.get_nodes()  # type: ignore[no-untyped-call]
    return nodes


def _pool_link(client: RedisCluster, node: ClusterNode) -> PoolLink:
    return PoolLink(client.get_redis_connection(node))


def _note_move(client: RedisCluster, error: MovedError) -> ClusterNode:
    """Correct the map where it was wrong; the node that holds the slot now."""
    client.nodes_manager.move_slot(error)
    return _named(client, error)


def _named(client: RedisCluster, error: AskError) -> ClusterNode:
    """The node that an answer points to."""
    for node in _nodes(client):
        if str(error).endswith(f" {node.name}"):
            return node
    raise NotSent(f"a node that is not on the cluster's map was named: {error}")

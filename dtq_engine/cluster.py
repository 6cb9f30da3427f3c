"""Exchanges with a cluster: redis-py knows its map, and what is sent goes to the node that holds the key."""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import AskError, MovedError, RedisClusterException, ResponseError

from dtq_engine.links import BROKEN, REFUSED, Command, Link, NotSent, PoolLink, ReplyLost

FOLLOW_S = 1.9

# Where a command has its (first) key, when that is not the word after its name.
_KEY_AT = {"EVAL": 3, "EVALSHA": 3, "FCALL": 3, "LMPOP": 2, "XINFO": 2}
_KEYLESS = frozenset({"COMMAND", "CONFIG", "ECHO", "INFO", "PING", "PUBLISH", "SCAN", "SCRIPT", "TIME"})


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
    return PoolLink(client.get_redis_connection(node), keeps=False)


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

"""A cluster of several nodes, and what an operator does to it."""

import os
import signal
from pathlib import Path
from typing import Any

import redis

from dtq_engine.embedded import EmbeddedValkey
from tests.support.servers import ClusterOfOne, plain
from tests.support.waiting import wait_until

SLOTS = 16384


class Node(ClusterOfOne):
    """One node among several: it begins without slots."""

    def start(self) -> None:
        EmbeddedValkey.start(self)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, *command: str | int) -> Any:
        with redis.Redis.from_url(plain(self.url), protocol=2, decode_responses=True) as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class Cluster:
    """Three primaries, and a replica of the first."""

    def __init__(self, directory: Path) -> None:
        options = {
            "cluster-node-timeout": "1000",
            "cluster-replica-validity-factor": "0",
            "repl-diskless-sync-delay": "0",
        }
        self.nodes = [
            Node(directory / f"node{number}", appendonly=False, options=options, binary=None) for number in range(4)
        ]
        self.primaries, self.replica = self.nodes[:3], self.nodes[3]

    @property
    def url(self) -> str:
        """The address with all primaries."""
        return f"redis+cluster://{','.join(node.place for node in self.primaries)}"

    def start(self) -> None:
        """Start all nodes and wait until each sees that all is well."""
        for number, node in enumerate(self.nodes):
            node.start()
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < 3:
                node.ask("CLUSTER", "ADDSLOTSRANGE", SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1)
        for node in self.nodes[1:]:
            first = self.nodes[0]
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.port, _bus_port(first))
        wait_until(lambda: all(_knows_all(node) for node in self.nodes), 20, 0.05)
        self.replica.ask("CLUSTER", "REPLICATE", self.nodes[0].ask("CLUSTER", "MYID"))
        wait_until(self.is_whole, 20, 0.05)
        wait_until(lambda: self.replica.ask("INFO", "replication").get("master_link_status") == "up", 20, 0.05)

    def stop(self) -> None:
        """Stop all nodes."""
        for node in self.nodes:
            node.stop()

    def is_whole(self) -> bool:
        """Whether every node that runs finds the cluster in order, the replica included."""
        return all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes)

    def holder(self, key: str) -> Node:
        """The node that holds a key."""
        slot = int(self.nodes[1].ask("CLUSTER", "KEYSLOT", key))
        return self.primaries[min(2, slot * 3 // SLOTS)]

    def move(self, slot: int, target: Node) -> None:
        """Have an empty slot belong to another node."""
        name = target.ask("CLUSTER", "MYID")
        for node in (target, *self.primaries):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", name)


def _bus_port(node: Node) -> int:
    return int(node.ask("CONFIG", "GET", "cluster-port")[1])


def _knows_all(node: Node) -> bool:
    return "cluster_known_nodes:4" in node.ask("CLUSTER", "INFO")

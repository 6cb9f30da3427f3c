"""A Redis Cluster of three primaries on this machine, whose cores they share with the worker."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import redis

from benchmarks import machine, stage
from benchmarks.figures import Figure
from benchmarks.run import Plan
from benchmarks.tasks import app, noop_async
from dtq_engine.embedded import HOST, EmbeddedValkey, free_port

SLOTS = 16384
QUEUES = ("q0", "q1", "q2")
"""Queues whose slots lie on the three primaries in turn."""

SAMPLE = 20_000


class Spread(NamedTuple):
    """Tasks per second; µs of CPU per task of the worker, of all servers, and of the busiest of them."""

    rate: float
    worker_us: float
    servers_us: float
    busiest_us: float


def cluster(plan: Plan) -> tuple[Figure, ...]:
    """Three queues, one on each primary, drained by one worker; beside them the same three on one server."""
    count = min(SAMPLE, plan.tasks) // len(QUEUES)
    with stage.server() as server:
        alone = measured(plan, server.url, [server.pid], count)
    with primaries() as nodes:
        places = ",".join(f"{HOST}:{node.port}" for node in nodes)
        spread = measured(plan, f"redis+cluster://{places}", [node.pid for node in nodes], count)
    one_rate, one_worker, one_server, _ = zip(*alone, strict=True)
    rate, worker, all_us, busiest = zip(*spread, strict=True)
    return (
        Figure("drain, one server", "tasks/s", one_rate),
        Figure("drain, three primaries", "tasks/s", rate, one_rate),
        Figure("worker, one server", "µs of CPU per task", one_worker),
        Figure("worker, three primaries", "µs of CPU per task", worker, one_worker),
        Figure("the one server", "µs of CPU per task", one_server),
        Figure("three primaries together", "µs of CPU per task", all_us, one_server),
        Figure("the busiest primary", "µs of CPU per task of all queues", busiest, one_server),
    )


def measured(plan: Plan, url: str, servers: Sequence[int], count: int) -> list[Spread]:
    """Some drains by a worker that is warm, with so many tasks in each queue."""
    stage.attach(url)
    with stage.worker(url, queues=QUEUES) as process:
        once(process.pid, servers, count // 10)
        runs = [once(process.pid, servers, count) for _ in range(plan.runs)]
    app.close()
    return runs


def once(worker: int, servers: Sequence[int], count: int) -> Spread:
    """Let so many wait in each queue, then let all begin."""
    for queue in QUEUES:
        app.store.control.pause(queue)
        stage.fill(noop_async.name, count, queue=queue)
    goal = done() + count * len(QUEUES)
    before = [machine.cpu_s(pid) for pid in (worker, *servers)]
    began = perf_counter()
    for queue in QUEUES:
        app.store.control.resume(queue)
    stage.until(lambda: done() >= goal)
    seconds = perf_counter() - began
    used = [
        (machine.cpu_s(pid) - then) / (count * len(QUEUES)) * 1e6
        for pid, then in zip((worker, *servers), before, strict=True)
    ]
    return Spread(count * len(QUEUES) / seconds, used[0], sum(used[1:]), max(used[1:]))


def done() -> int:
    """How many tasks have succeeded in all queues."""
    return sum(stage.succeeded(noop_async.name, queue) for queue in QUEUES)


@contextmanager
def primaries() -> Iterator[list[EmbeddedValkey]]:
    """Three nodes that share the slots and know each other."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        nodes = [stack.enter_context(node(Path(folder) / queue)) for queue in QUEUES]
        for number, each in enumerate(nodes):
            first, after = SLOTS * number // len(nodes), SLOTS * (number + 1) // len(nodes)
            ask(each, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            ask(each, "CLUSTER", "ADDSLOTSRANGE", first, after - 1)
            ask(each, "CLUSTER", "MEET", HOST, nodes[0].port, ask(nodes[0], "CONFIG", "GET", "cluster-port")[1])
        stage.until(lambda: all(is_whole(each, len(nodes)) for each in nodes), most_s=30)
        yield nodes


def node(folder: Path) -> EmbeddedValkey:
    """One node; the port for the others would be beyond 65535 for many a free port, so it is chosen too."""
    return EmbeddedValkey(
        folder, appendonly=False, options={"cluster-enabled": "yes", "cluster-port": str(free_port())}
    )


def is_whole(each: EmbeddedValkey, count: int) -> bool:
    """Whether a node knows all and finds the cluster in order."""
    said = str(ask(each, "CLUSTER", "INFO"))
    return "cluster_state:ok" in said and f"cluster_known_nodes:{count}" in said


def ask(each: EmbeddedValkey, *command: str | int) -> Any:
    """What one node answers, as it is."""
    with redis.Redis.from_url(each.url, protocol=2, decode_responses=True) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)

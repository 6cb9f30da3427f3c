"""A server that is full: no new tasks, and everything else goes on."""

from collections.abc import Callable

import pytest

from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import MemoryFull
from dtq_engine.model import DeadLetter, Reschedule, Succeed
from dtq_engine.registry import Handler
from dtq_engine.store import Store
from tests.store.hand import Hand, error, ids, info

RUNNING = "t1"


@pytest.fixture
def full(make_server: Callable[..., EmbeddedValkey], store_at: Callable[..., Store]) -> Hand:
    """A hand at a server that is full: three tasks run, one waits, one is delayed, one is a dead letter."""
    server = make_server(maxmemory="64mb", maxmemory_policy="noeviction")
    hand = Hand(store_at(server.url, admit_memory_percent=100))
    hand.end(hand.start("dead"), DeadLetter(error(), "x"))
    hand.submit("r1", "r2", "r3")
    hand.claim(token=RUNNING)
    hand.submit("waiting")
    hand.submit("delayed", delay_ms=60_000)
    hand.store.workers.beat(info("w1"), 30)
    hand.store.connection.client.config_set("maxmemory", "1mb")
    return hand


def test_a_full_server_refuses_new_tasks_and_writes_nothing(full):
    with pytest.raises(MemoryFull, match="maxmemory"):
        full.submit("new", payload=b'"' + b"x" * 100 + b'"', idempotency_key="k")
    assert full.store.inspect.find(["new"]) == [None]
    keys = full.store.keys
    assert full.store.connection.client.exists(keys.payload("default", "new"), keys.idempotency("default", "k")) == 0


def test_on_a_full_server_everything_but_a_submit_goes_on(full):
    store, running = full.store, full.claim(token=RUNNING)
    assert store.leases.renew(running).lost == set()
    assert full.end(running[0], Succeed(b"x" * 1000)) == "OK"
    assert full.end(running[1], Reschedule(error(), 1000)) == "OK"
    assert full.end(running[2], DeadLetter(error(), "x")) == "OK"
    assert store.control.cancel("delayed") == "cancelled"
    assert ids(full.claim()) == ["waiting"]
    store.control.requeue("dead")
    store.schedule.promote("default")
    assert full.reclaim() == []
    store.control.pause("default")
    store.control.resume("default")
    assert store.schedule.trim("default").gone == 0


def test_on_a_full_server_workers_stay_alive_and_lead(full):
    workers = full.store.workers
    workers.beat(info("w1"), 30)
    assert workers.acquire_lock("one")
    assert workers.acquire_lock("one")
    workers.release_lock("one")
    assert workers.announce(["default"], ["mail"]) == full.digest
    assert [worker.id for worker in workers.list()] == ["w1"]
    workers.leave("w1")


def test_on_a_full_server_a_worker_can_start(full):
    full.store.workers.register_queue("default")
    newcomer = Hand(full.store, "w2", ["another"])
    full.store.leases.wake("default")
    assert newcomer.claim() == []
    full.store.workers.register_queue("new")
    assert "new" in full.store.inspect.queues()


@pytest.mark.not_on_a_cluster("each node has its own limit, and a full one says so itself")
def test_a_nearly_full_server_refuses_new_tasks_before_it_is_full(make_server, store_at):
    server = make_server(maxmemory="8mb")
    used = int(store_at(server.url).connection.info("memory")["used_memory"])
    assert used < 8 * 1024 * 1024
    percent = max(1, used * 100 // (8 * 1024 * 1024) - 1)
    with pytest.raises(MemoryFull, match=f"over {percent} %"):
        Hand(store_at(server.url, admit_memory_percent=percent), announced=False).submit("a")
    assert Hand(store_at(server.url, admit_memory_percent=99), announced=False).submit("a")[0].accepted


def test_a_server_without_a_limit_is_never_full(own_server, store_at):
    assert Hand(store_at(own_server.url, admit_memory_percent=1), announced=False).submit("a")[0].accepted


def test_on_a_full_server_workers_publish_what_their_types_look_like(full):
    def greet(name: str) -> str:
        return name

    schema = Handler("greet", greet).published()
    full.store.schemas.publish([schema])
    full.store.schemas.keep([schema])
    full.store.workers.beat(info("w1", schemas={"greet": schema.digest}), 30)
    assert [found.type for found in full.store.schemas.list()] == ["greet"]

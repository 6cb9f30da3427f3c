"""A backup as docs/deploy.md makes it, and what becomes of the tasks in it."""

import shutil
from collections.abc import Callable

import pytest
import redis

from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.model import DeadLetter, Succeed
from dtq_engine.store import Store
from tests.store.hand import Hand, error
from tests.support.waiting import wait_until


@pytest.mark.not_on_a_cluster("each node has a copy of its own")
def test_a_restored_backup_has_all_tasks_as_they_were(
    make_server: Callable[..., EmbeddedValkey], store_at: Callable[..., Store]
):
    server = make_server()
    hand = Hand(store_at(server.url))
    hand.end(hand.start("done", payload=b'{"n":1}'), Succeed(b"42"))
    hand.end(hand.start("dead"), DeadLetter(error(), "permanent"))
    running = hand.start("running")
    hand.submit("waiting", idempotency_key="k")
    hand.submit("delayed", delay_ms=60_000)
    copy(server)
    hand.submit("later")
    server.stop()

    restored = make_server(appendonly="no", save="")
    restored.stop()
    shutil.copy(server.directory / "dump.rdb", restored.directory / "dump.rdb")
    restored.start()
    with redis.Redis.from_url(restored.url) as admin:
        admin.config_set("appendonly", "yes")
    store = store_at(restored.url)
    assert store.sweep.run() == {}
    found = store.inspect.find(["done", "dead", "running", "waiting", "delayed", "later"])
    assert [task and task.status.value for task in found] == [
        *("succeeded", "dead_lettered", "running", "queued", "pending", None),
    ]
    again = Hand(store)
    assert again.submit("twice", idempotency_key="k")[0].id == "waiting"
    assert [claim.task_id for claim in again.claim()] == ["waiting"]
    assert again.end(running) == "OK"


def copy(server: EmbeddedValkey) -> None:
    """What `redis-cli --rdb` writes, which is what the server itself saves."""
    with redis.Redis.from_url(server.url) as admin:
        admin.bgsave()
        wait_until((server.directory / "dump.rdb").exists, 10)
        wait_until(lambda: admin.info("persistence")["rdb_bgsave_in_progress"] == 0, 10)

"""What the leader mends and lets go by itself."""

from typing import Any

import pytest

from dtq_engine import Dtq, Settings
from dtq_engine.worker import Worker


@pytest.fixture
def leader(app: Dtq, quick: Settings) -> Any:
    worker = Worker(app, quick)
    worker.parts.scheduler.step()
    yield worker.parts
    worker.parts.scheduler.release()
    worker.parts.connection.close()


def test_the_leader_repairs_a_queue_whose_stream_was_deleted(app: Dtq, leader: Any, client: Any) -> None:
    app.named("note").options(id="t1").submit()
    client.delete(app.store.keys.stream("default", 5))
    leader.scheduler._look_around()
    while not client.exists(app.store.keys.stream("default", 5)):
        leader.housekeeper.step()
    assert app.store.inspect.queue("default").waiting == 1
    app.handle("t1").cancel()


def test_the_leader_forgets_consumers_of_workers_that_are_gone(app: Dtq, leader: Any, client: Any) -> None:
    app.store.workers.register_queue("default")
    stream = app.store.keys.stream("default", 5)
    client.xgroup_create(stream, "workers", "0", mkstream=True)
    client.xgroup_createconsumer(stream, "workers", "gone")
    app.store.workers.retire("default", idle_ms=0)
    assert client.xinfo_consumers(stream, "workers") == []


def test_a_worker_that_does_not_lead_mends_nothing(app: Dtq, quick: Settings, client: Any) -> None:
    app.named("note").options(id="t1").submit()
    client.delete(app.store.keys.stream("default", 5))
    worker = Worker(app, quick)
    worker.parts.scheduler.stop()
    worker.parts.housekeeper._rest_s = 0
    worker.parts.housekeeper.step()
    assert not client.exists(app.store.keys.stream("default", 5))
    app.handle("t1").cancel()
    worker.parts.connection.close()

"""Workers are told apart by their names."""

from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq, Store
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until


def test_a_worker_warns_when_another_has_its_name(app: Dtq, start: Any, caplog: pytest.LogCaptureFixture) -> None:
    @app.task("note")
    def note() -> None: ...

    first: Worker = start(worker_id="twin")
    elsewhere = replace(first.describe(), host="elsewhere", pid=1)
    app.store.workers.beat(elsewhere, 30)
    start(worker_id="twin")
    assert "another worker is called twin (host elsewhere, process 1)" in caplog.text


def test_a_worker_that_comes_back_after_a_kill_does_not_warn_of_itself(
    app: Dtq, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task("note")
    def note() -> None: ...

    start(worker_id="single")
    assert "another worker" not in caplog.text


@pytest.mark.keeps_keys
def test_names_that_are_none_stop_neither_a_start_nor_a_loop_nor_a_reader(
    app: Dtq, start: Any, client: Any, store: Store, log: Any
) -> None:
    @app.task("note")
    def note() -> None: ...

    client.sadd(store.keys.workers(), b"\xff", "no worker {}")
    client.sadd(store.keys.queues(), b"\xff", "No Queue", "")
    strange = f"{store.keys.prefix}:task:{{\xff}}:a".encode("latin-1")
    client.hset(strange, "s", "Q")
    worker = start()
    delayed = note.options(delay=0.2).submit()
    wait_until(lambda: delayed.status().is_final)
    assert store.inspect.queues() == ["default"]
    assert [info.id for info in store.workers.list()] == [worker.id]
    worker.parts.reaper.step()
    worker.parts.housekeeper.tidy()
    store.sweep.run()
    assert store.health.damage() == {}
    assert list(client.smembers(store.keys.workers())) == [worker.id.encode()]
    assert "loop failed" not in log.text
    client.delete(strange)

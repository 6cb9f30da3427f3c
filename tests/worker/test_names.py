"""Workers are told apart by their names."""

from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq
from dtq_engine.worker import Worker


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

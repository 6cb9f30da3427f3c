"""The guide's example of hooks: a context variable's way from the submitter to the handler, and what is logged."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import TaskFailed
from dtq_engine.worker import Worker
from tests.recipes import guide


@pytest.mark.drains
def test_the_hooks_of_the_guide_do_what_they_say(
    quick: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hooks_tasks.py").write_text(guide.files()["hooks_tasks.py"])
    monkeypatch.syspath_prepend(tmp_path)
    tasks = importlib.import_module("hooks_tasks")
    tasks.app.configure(quick)
    worker = Worker(tasks.app, quick)
    worker.start()
    assert f"worker {worker.id} serves default" in caplog.text
    tasks.request_id.set("r-7")
    assert tasks.ship.submit(5).result(timeout=10) == "order 5 for request r-7"
    handle = tasks.ship.submit(-5)
    with pytest.raises(TaskFailed):
        handle.result(timeout=10)
    worker.stop()
    assert worker.join(10) == 0
    assert [record.getMessage() for record in caplog.records if record.name == "shop"][1:] == [
        "orders.ship is lost: there is no order -5"
    ]
    tasks.app.close()
    del sys.modules["hooks_tasks"]

"""Sentry: the final failure of a task is reported once, with its exception and tags, before the worker has ended."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Task
from tests.recipes.conftest import Cook

MORE = """
import json
import sentry_sdk.transport

class ToFile(sentry_sdk.transport.Transport):
    def __init__(self, options=None):
        super().__init__(options)
        self.kept = []

    def capture_envelope(self, envelope):
        self.kept += [item.payload.json for item in envelope.items if item.type == "event"]

    def flush(self, timeout, callback=None):
        Path("sent.json").write_text(json.dumps(self.kept))

real_init = sentry_sdk.init
sentry_sdk.init = lambda **options: real_init(dsn="http://key@localhost/1", transport=ToFile, **options)

@app.task("says.something")
def says() -> None:
    sentry_sdk.capture_message("halfway")

@app.task("times.out")
async def times_out() -> None:
    await asyncio.sleep(60)
"""


@pytest.mark.drains
def test_final_failures_are_reported_with_their_tags(
    app: Dtq, cook: Cook, ended: Callable[..., Task], tmp_path: Path
) -> None:
    worker = cook("sentry_tasks", MORE)
    failed = app.named("orders.ship").options(max_attempts=2).submit(order=7)
    assert ended(failed).attempt == 2
    spoke = app.named("says.something").submit()
    spoke.result(timeout=10)
    late = app.named("times.out").options(timeout=0.2, max_attempts=1).submit()
    ended(late)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    events: list[dict[str, Any]] = json.loads((tmp_path / "sent.json").read_text())
    by_task = {event["tags"]["task_id"]: event for event in events if "tags" in event}
    assert len(events) == len(by_task) == 3
    ship = by_task[failed.id]
    assert ship["exception"]["values"][-1]["value"] == "there is no order 7"
    assert ship["exception"]["values"][-1]["stacktrace"]["frames"][-1]["vars"] == {"order": "7"}
    assert ship["tags"] == {"task_type": "orders.ship", "task_id": failed.id, "reason": "max_attempts"}
    assert ship["contexts"]["task"] == {"queue": "default", "attempt": 2}
    assert by_task[spoke.id]["message"] == "halfway"
    assert by_task[late.id]["message"] == "The task ran longer than its timeout of 0.2 s."

"""What every chapter starts with: an app without tasks, and a worker to run them once they are registered."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dtq_engine import Dtq, Settings
from dtq_engine.worker import Worker


@pytest.fixture
def app(settings: Settings) -> Iterator[Dtq]:
    """In a program this is `app = Dtq()`, which takes its settings from the environment."""
    made = Dtq(replace(settings, visibility_timeout_s=4, heartbeat_interval_s=1, worker_queues=("default", "reports")))
    yield made
    made.close()


@pytest.fixture
def start_worker(app: Dtq) -> Iterator[Callable[[], Worker]]:
    """In a deployment this is the command `dtq worker --app shop.tasks:app`, a process of its own."""
    started: list[Worker] = []

    def start() -> Worker:
        worker = Worker(app, app.settings)
        worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.stop()
    for worker in started:
        worker.join(10)

"""What the worker tests share: settings with short times, workers in this process, and workers in their own."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dtq_engine import Dtq, Handle, Settings, Task
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until
from tests.worker.processes import WorkerProcess


@pytest.fixture
def quick(settings: Settings) -> Settings:
    """Leases of 2 s, two heartbeats a second, retries at once."""
    return replace(
        settings,
        visibility_timeout_s=2,
        heartbeat_interval_s=0.5,
        drain_timeout_s=2,
        retry_base_delay_s=0,
        retry_max_delay_s=0,
    )


@pytest.fixture
def app(quick: Settings) -> Dtq:
    """An app without tasks, to register handlers with."""
    return Dtq(quick)


@pytest.fixture
def start(app: Dtq, quick: Settings) -> Iterator[Callable[..., Worker]]:
    """Start a worker in this process: `start(worker_concurrency=2)`."""
    started: list[Worker] = []

    def make(**changes: object) -> Worker:
        worker = Worker(app, replace(quick, **changes))  # type: ignore[arg-type]
        started.append(worker)
        worker.start()
        return worker

    yield make
    for worker in started:
        worker.stop()
    for worker in started:
        worker.join(10)


@pytest.fixture
def spawn(quick: Settings, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Start a worker process on handlers given as source: `spawn(SOURCE, drain_timeout_s=1)`."""
    spawned: list[WorkerProcess] = []

    def make(source: str, *, ready: bool = True, **changes: object) -> WorkerProcess:
        process = WorkerProcess(tmp_path, source, replace(quick, **changes))  # type: ignore[arg-type]
        spawned.append(process)
        if ready:
            process.wait_until_ready()
        return process

    yield make
    for process in spawned:
        process.end()


@pytest.fixture
def ended(app: Dtq) -> Callable[..., Task]:
    """Wait until a task has ended; the task."""

    def wait(handle: Handle[object], timeout: float = 10) -> Task:
        def final() -> Task | None:
            task = app.store.inspect.get(handle.id, queue=handle.queue)
            return task if task.status.is_final else None

        task = wait_until(final, timeout)
        assert task is not None
        return task

    return wait


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What handlers of a test wait for; open after the test, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What workers in this process log."""
    caplog.set_level(logging.INFO, logger="dtq.worker")
    return caplog

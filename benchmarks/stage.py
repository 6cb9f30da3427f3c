"""What a benchmark stands on: servers, worker processes, and tasks to fill them with."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import machine
from benchmarks.tasks import app, clock
from dtq_engine import NewTask, Settings
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.ids import new_id

QUEUES = (*(f"q{number}" for number in range(1, 10)), "default")
PAYLOAD = b'{"a":1,"b":"hello"}'
BULK = 10_000
MOST_S = 600.0
MOST_WAITING = 100_000_000
"""A limit for the depth of queues that is never met: what looking at it costs is in all figures."""
PLAIN = "import sys; sys.modules['opentelemetry'] = None; from dtq_engine.worker.process import main; main()"
"""`worker_main.py` after `pip install dtq`: redis-py imports OpenTelemetry where it is, as it is here for tests."""


@contextmanager
def server(**directives: str) -> Iterator[EmbeddedValkey]:
    """An empty Valkey of its own; without `appendonly` it keeps nothing on disk."""
    appendonly = directives.pop("appendonly", "no") == "yes"
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedValkey(Path(folder), appendonly=appendonly, options=directives) as started,
    ):
        yield started


def attach(url: str, **settings: Any) -> None:
    """Let the app of the benchmarks speak to this server from now on."""
    app.configure(Settings(redis_url=url, max_queue_depth=MOST_WAITING, **settings))


@contextmanager
def worker(
    url: str,
    concurrency: int = 300,
    queues: Sequence[str] = QUEUES,
    settings: Mapping[str, float] = MappingProxyType({}),
) -> Iterator["subprocess.Popen[bytes]"]:
    """A real worker process, ready when the block begins; `settings` are further ones, in small letters."""
    given: dict[str, str | float] = {
        "redis_url": url,
        "tasks": "benchmarks.tasks:app",
        "worker_queues": ",".join(queues),
        "worker_concurrency": concurrency,
        "log_level": "ERROR",
    }
    environ = {f"DTQ_{name.upper()}": str(value) for name, value in (given | dict(settings)).items()}
    process = subprocess.Popen([sys.executable, "-c", PLAIN], cwd=machine.ROOT, env=os.environ | environ)
    try:
        clock.options(queue=queues[-1]).submit().result(timeout=30)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def fill(kind: str, count: int, payload: bytes = PAYLOAD, **fields: Any) -> None:
    """Submit so many tasks of a type in bulk, never all of them in the memory of this process."""
    while count > 0:
        app.submit_many(NewTask(id=new_id(), type=kind, payload=payload, **fields) for _ in range(min(BULK, count)))
        count -= BULK


def payload_of(size: int) -> bytes:
    """A payload of so many bytes that the handlers here can take."""
    return json.dumps({"a": 1, "b": "x" * (size - len(PAYLOAD) + len("hello"))}, separators=(",", ":")).encode()


def succeeded(kind: str, queue: str = "default") -> int:
    """How many tasks of a type have succeeded so far."""
    return app.store.inspect.counters(queue).get(kind, {}).get("succeeded", 0)


def until(condition: Callable[[], bool], look_s: float = 0.02, most_s: float = MOST_S) -> None:
    """Wait until it holds. Raises TimeoutError."""
    ends = time.monotonic() + most_s
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(f"what was waited for did not come within {most_s:.0f} s")
        time.sleep(look_s)


def server_cpu_s() -> float:
    """The CPU time that the server's main thread and its helpers have used."""
    numbers = app.connection.info("cpu")
    return float(numbers["used_cpu_user"]) + float(numbers["used_cpu_sys"])


def server_memory_kib() -> float:
    """The memory that the server has allocated, in KiB."""
    return int(app.connection.info("memory")["used_memory"]) / 1024


def commands() -> Mapping[str, int]:
    """How often the server has run each command, from inside of scripts as well."""
    stats = app.connection.info("commandstats")
    return {
        name.removeprefix("cmdstat_"): int(value.partition("calls=")[2].partition(",")[0])
        for name, value in stats.items()
    }


def exchanges() -> int:
    """How often the server has read from a connection: once for a command, or for several that came together."""
    return int(app.connection.info("stats")["total_reads_processed"])


def forget() -> None:
    """Empty the server, so that each run begins alike."""
    app.connection.client.execute_command("FLUSHALL", "SYNC")  # the memory, too, is free when it returns

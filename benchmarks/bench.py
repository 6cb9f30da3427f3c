"""Submit, drain and idle start on an embedded Valkey without persistence: `make bench`, about a minute.

Everything is on that is on in production: records, history, events, counters, indexes, results. Machines are shared
and noisy, so each figure is the median of the runs with the extremes beside it, and a bare loop of two Lua scripts
that only move ids shows in the same run what this machine could do at best.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.limit import bare_loop
from benchmarks.tasks import app, clock, noop_async, noop_sync
from dtq_engine import NewTask, Settings
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.ids import new_id

ROOT = Path(__file__).parent.parent
PAYLOAD = b'{"a":1,"b":"hello"}'
QUEUES = (*(f"q{number}" for number in range(1, 10)), "default")


def main() -> None:
    """Run the benchmarks and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each benchmark (default 3)")
    parser.add_argument("--tasks", type=int, default=20_000, help="tasks per run (default 20000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedValkey(Path(folder), appendonly=False) as server:
        app.configure(Settings(redis_url=server.url, max_queue_depth=0, keep_succeeded=options.tasks))
        print(f"{'':34}{'median':>10}{'least':>10}{'most':>10}")
        _run_all(server, options.runs, options.tasks)


def _run_all(server: EmbeddedValkey, runs: int, tasks: int) -> None:
    report("submit, bulk of 500 (tasks/s)", runs, lambda: submit_bulk(tasks))
    report("submit, one by one (tasks/s)", runs, lambda: submit_single(tasks // 10))
    report("bare loop, batches of 50 (tasks/s)", runs, lambda: bare_loop(app.connection, tasks))
    for name, kind in (("async", noop_async.name), ("threads", noop_sync.name)):
        costs: list[tuple[float, float]] = []
        with worker(server.url, concurrency=200) as process:
            report(f"drain, {name} (tasks/s)", runs, partial(drain, kind, tasks, process.pid, costs))
            print_costs(costs)
    with worker(server.url, concurrency=10):
        starts = [milliseconds for _ in range(runs) for milliseconds in idle_starts(100)]
        name = "idle start, last of ten queues (ms)"
        print(f"{name:34}{statistics.median(starts):10.2f}{min(starts):10.2f}{max(starts):10.2f}")
        print(f"{'  p99':34}{statistics.quantiles(starts, n=100)[98]:10.2f}")


def report(name: str, runs: int, measure: Callable[[], float]) -> None:
    """Print the median and the extremes of some runs."""
    figures = [measure() for _ in range(runs)]
    print(f"{name:34}{statistics.median(figures):10,.0f}{min(figures):10,.0f}{max(figures):10,.0f}", flush=True)


def print_costs(costs: list[tuple[float, float]]) -> None:
    """Print the median CPU time per task of the worker and of the server."""
    for name, figures in zip(("worker", "server"), zip(*costs, strict=True), strict=True):
        print(f"{f'  CPU of the {name} (µs per task)':34}{statistics.median(figures):10.1f}", flush=True)


def submit_bulk(tasks: int) -> float:
    """Tasks accepted per second, 500 a call."""
    began = time.perf_counter()
    app.submit_many(new_tasks(noop_async.name, tasks))
    rate = tasks / (time.perf_counter() - began)
    _forget_tasks()
    return rate


def submit_single(tasks: int) -> float:
    """Tasks accepted per second, one a call."""
    began = time.perf_counter()
    for _ in range(tasks):
        noop_async.submit(1, b="hello")
    rate = tasks / (time.perf_counter() - began)
    _forget_tasks()
    return rate


def drain(kind: str, tasks: int, worker_pid: int, costs: list[tuple[float, float]]) -> float:
    """Tasks executed per second by one idle worker that finds all of them waiting."""
    store = app.store
    store.control.pause("default")
    app.submit_many(new_tasks(kind, tasks))
    done_before = _succeeded(kind)
    worker_cpu, server_cpu = process_cpu_s(worker_pid), _server_cpu_s()
    began = time.perf_counter()
    store.control.resume("default")
    while _succeeded(kind) < done_before + tasks:
        time.sleep(0.02)
    elapsed = time.perf_counter() - began
    cost = (process_cpu_s(worker_pid) - worker_cpu, _server_cpu_s() - server_cpu)
    costs.append((cost[0] / tasks * 1e6, cost[1] / tasks * 1e6))
    return tasks / elapsed


def idle_starts(number: int) -> Iterator[float]:
    """Milliseconds from before the submit to the handler's first line, with a worker that waits on ten queues."""
    for _ in range(number):
        began = time.time_ns()
        handle = clock.submit()
        yield (handle.result(timeout=10) - began) / 1e6


def new_tasks(kind: str, number: int) -> list[NewTask]:
    """Tasks to submit in bulk."""
    return [NewTask(id=new_id(), type=kind, payload=PAYLOAD) for _ in range(number)]


def _succeeded(kind: str) -> int:
    return app.store.inspect.counters("default").get(kind, {}).get("succeeded", 0)


def _forget_tasks() -> None:
    """Empty the benchmark's own server, so that each run begins alike."""
    app.connection.client.flushall()


def _server_cpu_s() -> float:
    numbers = app.connection.info("cpu")
    return float(numbers["used_cpu_user"]) + float(numbers["used_cpu_sys"])


def process_cpu_s(pid: int) -> float:
    """User and system CPU seconds that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def worker(url: str, concurrency: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A real worker process that serves ten queues, ready when the block begins."""
    environment = os.environ | {
        "DTQ_REDIS_URL": url,
        "DTQ_TASKS": "benchmarks.tasks:app",
        "DTQ_WORKER_QUEUES": ",".join(QUEUES),
        "DTQ_WORKER_CONCURRENCY": str(concurrency),
        "DTQ_LOG_LEVEL": "WARNING",
    }
    process = subprocess.Popen([sys.executable, "worker_main.py"], cwd=ROOT, env=environment)
    try:
        clock.submit().result(timeout=20)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


if __name__ == "__main__":
    main()

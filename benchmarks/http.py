"""Single submits through gunicorn beside a bare Flask hello-world, in one run: `make bench-http`, about a minute.

Both are served by one process with the same settings of gunicorn, to clients that keep their connections. They take
turns, so that a noisy machine is noisy for both. The clients' own work is in both figures.
"""

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from dtq_engine.embedded import EmbeddedValkey, free_port

ROOT = Path(__file__).parent.parent
KEY = "k" * 20
BODY = json.dumps({"type": "mail", "payload": {"account": 7}})
HELLO = """
from flask import Flask

app = Flask("hello")


@app.post("/")
def hello():
    return {"hello": "world"}
"""


def main() -> None:
    """Measure both, and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--requests", type=int, default=2000, help="requests per run (default 2000)")
    parser.add_argument("--clients", type=int, default=8, help="clients at a time (default 8)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedValkey(Path(folder) / "valkey", appendonly=False) as server:
        (Path(folder) / "hello.py").write_text(HELLO)
        environ = {"DTQ_REDIS_URL": server.url, "DTQ_API_KEYS": f"bench:submit:{KEY}", "DTQ_MAX_QUEUE_DEPTH": "0"}
        with web(folder, environ, "hello:app") as hello, web(folder, environ, "webapp:create_app()") as dtq:
            figures: dict[str, list[float]] = {"hello-world": [], "submit": []}
            for _ in range(options.runs):
                figures["hello-world"].append(rate(hello, "/", 200, options.requests, options.clients))
                figures["submit"].append(rate(dtq, "/api/v1/tasks", 202, options.requests, options.clients))
    print(f"{'requests/s':14}{'median':>10}{'least':>10}{'most':>10}")
    for name, found in figures.items():
        print(f"{name:14}{statistics.median(found):10,.0f}{min(found):10,.0f}{max(found):10,.0f}")
    ratios = [ours / theirs for theirs, ours in zip(*figures.values(), strict=True)]
    print(f"submit is {statistics.median(ratios):.0%} of hello-world ({min(ratios):.0%} to {max(ratios):.0%})")


@contextmanager
def web(folder: str, environ: dict[str, str], app: str) -> Generator[int, None, None]:
    """A gunicorn with one process; its port."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), "--no-control-socket", app]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environ, "PORT": str(port), "PYTHONPATH": f"{ROOT}:{folder}", "DTQ_LOG_LEVEL": "WARNING"},
    )
    try:
        until(lambda: answers(port))
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def rate(port: int, path: str, status: int, requests: int, clients: int) -> float:
    """Requests per second of some clients, each with one connection."""
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        sent = [threads.submit(send, port, path, status, requests // clients) for _ in range(clients)]
        for each in sent:
            each.result()
    return requests // clients * clients / (time.perf_counter() - began)


def send(port: int, path: str, status: int, many: int) -> None:
    """As many requests one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    for _ in range(many):
        connection.request("POST", path, BODY, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status, answer.status
    connection.close()


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status > 0
    except OSError:
        return False
    finally:
        connection.close()


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it holds. Raises TimeoutError."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError("gunicorn does not answer")
        time.sleep(0.05)


if __name__ == "__main__":
    main()

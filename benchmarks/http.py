"""Submits through gunicorn beside a bare Flask hello-world, in one run: `make bench-http`, about a minute.

Both are served by the same settings of gunicorn, two processes with threads, to clients that keep their connections.
They take turns, so that a noisy machine is noisy for both. The clients' own work is in all figures.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine, run, stage
from benchmarks.figures import Figure
from benchmarks.run import Plan
from dtq_engine.embedded import free_port

KEY = "k" * 20
TASK = {"type": "mail", "payload": {"account": 7}}
SINGLE = json.dumps(TASK)
BATCH = 500
MANY = json.dumps({"tasks": [TASK] * BATCH})
CLIENTS = 8
HELLO = """
from flask import Flask

app = Flask("hello")


@app.post("/")
def hello():
    return {"hello": "world"}
"""


def measure(plan: Plan) -> tuple[Figure, ...]:
    """Requests per second of both; and tasks per second where a request brings many."""
    hellos, singles, batches = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, stage.server() as server:
        (Path(folder) / "hello.py").write_text(HELLO)
        environ = {
            "DTQ_REDIS_URL": server.url,
            "DTQ_API_KEYS": f"bench:submit:{KEY}",
            "DTQ_MAX_QUEUE_DEPTH": str(stage.MOST_WAITING),
        }
        with web(folder, environ, "hello:app") as hello, web(folder, environ, "webapp:create_app()") as dtq:
            for _ in range(plan.runs):
                hellos.append(rate(hello, "/", SINGLE, plan.tasks))
                singles.append(rate(dtq, "/api/v1/tasks", SINGLE, plan.tasks))
                batches.append(rate(dtq, "/api/v1/tasks/batch", MANY, max(2 * CLIENTS, plan.tasks // 40)) * BATCH)
    return (
        Figure("hello-world", "requests/s", tuple(hellos)),
        Figure("single", "tasks/s", tuple(singles), tuple(hellos)),
        Figure(f"batch of {BATCH}", "tasks/s", tuple(batches)),
    )


@contextmanager
def web(folder: str, environ: dict[str, str], app: str) -> Generator[int, None, None]:
    """A gunicorn with two processes; its port."""
    port = free_port()
    configuration = str(machine.ROOT / "gunicorn.conf.py")
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "-c", configuration, "--no-control-socket", app],
        cwd=machine.ROOT,
        env={
            **os.environ,
            **environ,
            "PORT": str(port),
            "DTQ_WEB_PROCESSES": "2",
            "PYTHONPATH": f"{machine.ROOT}:{folder}",
            "DTQ_LOG_LEVEL": "WARNING",
        },
    )
    try:
        stage.until(lambda: answers(port), 0.05, most_s=30)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def rate(port: int, path: str, body: str, requests: int) -> float:
    """Requests per second of some clients, each with one connection."""
    each = requests // CLIENTS
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        for sent in [threads.submit(send, port, path, body, each) for _ in range(CLIENTS)]:
            sent.result()
    return each * CLIENTS / (time.perf_counter() - began)


def send(port: int, path: str, body: str, many: int) -> None:
    """As many requests one after the other. Raises RuntimeError for one that is not accepted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    for _ in range(many):
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status not in {200, 202}:
            raise RuntimeError(f"{path} answered {answer.status}: {said[:200]!r}")
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


if __name__ == "__main__":
    run.main("http", __doc__, {"http": measure}, tasks=2000)

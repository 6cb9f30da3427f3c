"""The web process as it is deployed: gunicorn with threads, started by the line of the Procfile."""

import gzip
import http.client
import json
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from dtq_engine import Settings
from tests.support.servers import plain
from tests.support.waiting import wait_until
from tests.web.conftest import KEYS
from tests.web.web_process import ROOT, WebProcess
from tests.worker.processes import WorkerProcess

HANDLERS = """
from dtq_engine import Dtq
app = Dtq()

@app.task("mail")
def mail(): ...
"""


@pytest.fixture
def process(tmp_path: Path, web_settings: Settings):
    """One gunicorn, whose calls show the admin's key."""
    with WebProcess(tmp_path, web_settings, key=KEYS["admin"]) as process:
        yield process


def call(process, method, path, body=None, **headers):
    """Status, headers and parsed body of a call over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=20)
    try:
        connection.request(method, path, body, process.headers | headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def submit(process, **headers):
    """Post a task."""
    return call(process, "POST", "/api/v1/tasks", b'{"type": "mail"}', **{"Content-Type": "application/json"} | headers)


def test_the_procfile_starts_it_like_this():
    line = "web: gunicorn -c gunicorn.conf.py --no-control-socket 'webapp:create_app()'"
    assert line in (ROOT / "Procfile").read_text().splitlines()


def test_a_task_is_posted_and_found_at_its_place(process):
    status, headers, body = submit(process)
    assert status == 202
    assert call(process, "GET", headers["Location"])[2]["id"] == body["id"]


def test_fifty_threads_with_one_key_make_one_task(process):
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: submit(process, **{"Idempotency-Key": "k1"}), range(50)))
    assert Counter(status for status, _, _ in answers) == {200: 49, 202: 1}
    assert len({body["id"] for _, _, body in answers}) == 1


def chunked(process, *chunks):
    """The status of a task that is sent in chunks."""
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=20)
    headers = process.headers | {"Content-Type": "application/json"}
    try:
        connection.request("POST", "/api/v1/tasks", iter(chunks), headers, encode_chunked=True)
        return connection.getresponse().status
    except OSError:
        return 413  # it hung up before all had been sent
    finally:
        connection.close()


def test_a_body_may_come_in_chunks_but_is_no_longer_for_that(process):
    assert chunked(process, b'{"type":', b' "mail"}') == 202
    assert chunked(process, *(b"x" * 1_048_576 for _ in range(18))) == 413


def test_a_compressed_body_is_refused_unread(process):
    body = gzip.compress(b'{"type": "mail", "payload": {"a": "' + b"x" * 50_000_000 + b'"}}')
    status, _, problem = call(
        process, "POST", "/api/v1/tasks", body, **{"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )
    assert (status, problem["code"]) == (415, "UNSUPPORTED_ENCODING")


@pytest.mark.alone
def test_while_redis_hangs_every_request_is_answered_soon(tmp_path, web_settings, own_server):
    with WebProcess(tmp_path, replace(web_settings, redis_url=own_server.url), key=KEYS["admin"]) as process:
        assert submit(process)[0] == 202
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(20) as threads:
                began = time.monotonic()
                reads = threads.map(lambda _: call(process, "GET", "/api/v1/queues")[0], range(10))
                submits = threads.map(lambda _: submit(process)[0], range(10))
                assert {*reads, *submits} == {503}
            assert time.monotonic() - began < 4
            assert call(process, "GET", "/health")[0] == 200
        finally:
            os.kill(own_server.pid, signal.SIGCONT)
        wait_until(lambda: submit(process)[0] == 202, 10)


def test_whoever_waits_is_answered_when_the_process_is_told_to_end(process, client, store):
    task_id = submit(process)[2]["id"]
    answers = []

    def wait():
        answers.append(call(process, "GET", f"/api/v1/tasks/{task_id}?wait=60"))

    waiter = threading.Thread(target=wait)
    waiter.start()
    channel = store.keys.done_channel("*")
    wait_until(lambda: client.pubsub_channels(channel))
    assert process.terminate() < 5
    waiter.join(10)
    assert (answers[0][0], answers[0][2]["status"]) == (200, "queued")


MOUNTED = """
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from webapp import create_app

app = DispatcherMiddleware(Flask("host"), {"/dtq": create_app()})
"""


def test_whoever_waits_in_a_mounted_app_is_answered_too(tmp_path, web_settings, client, store):
    (tmp_path / "mounted.py").write_text(MOUNTED)
    with WebProcess(tmp_path, web_settings, key=KEYS["admin"], app="mounted:app", under="/dtq") as process:
        _, _, task = call(
            process, "POST", "/dtq/api/v1/tasks", b'{"type": "mail"}', **{"Content-Type": "application/json"}
        )
        with ThreadPoolExecutor(1) as threads:
            waiter = threads.submit(call, process, "GET", f"/dtq/api/v1/tasks/{task['id']}?wait=60")
            wait_until(lambda: client.pubsub_channels(store.keys.done_channel("*")))
            assert process.terminate() < 5
            assert waiter.result(10)[2]["status"] == "queued"


@pytest.mark.alone
def test_a_web_process_and_a_worker_get_along_with_nine_connections(tmp_path, web_settings, own_server):
    settings = replace(web_settings, redis_url=own_server.url)
    client = redis.Redis.from_url(plain(own_server.url), protocol=2)
    worker = WorkerProcess(tmp_path, HANDLERS, settings)
    most = 0
    with WebProcess(tmp_path, settings, key=KEYS["admin"]) as process, client:
        worker.wait_until_ready()
        sockets = [process.socket() for _ in range(20)]
        ids = [submit(process)[2]["id"] for _ in range(10)]
        with ThreadPoolExecutor(50) as threads:
            for _ in range(4):
                waiting = [threads.submit(call, process, "GET", f"/api/v1/tasks/{each}?wait=5") for each in ids]
                others = [threads.submit(submit, process) for _ in range(40)]
                while not all(each.done() for each in waiting + others):
                    most = max(most, len(client.client_list()) - 1)
                assert {each.result()[0] for each in waiting} == {200}
                assert {each.result()[0] for each in others} == {202}
        assert len(sockets) == 20
    worker.end()
    assert most <= 9

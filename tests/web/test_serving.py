"""Below the app: what is no request, clients that dawdle, and the end of the process."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from tests.web.conftest import KEYS
from tests.web.reader import Closed, Reader
from tests.web.web_process import WebProcess
from tests.worker.processes import cpu_s
from webapp.border import CAREFUL
from webapp.serving import FAREWELL_S, HEAD_S


@pytest.fixture
def process(tmp_path, web_settings) -> Iterator[WebProcess]:
    with WebProcess(tmp_path, web_settings, key=KEYS["admin"]) as process:
        yield process


def connect(process: WebProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", process.port), timeout=20)


def answered(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def said(process: WebProcess, request: bytes) -> tuple[int, dict[str, str], dict[str, object]]:
    """Status, headers and problem of the answer to these bytes."""
    with connect(process) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        head, _, body = answered(connection).partition(b"\r\n\r\n")
    line, *rest = head.decode().split("\r\n")
    headers = dict(each.split(": ", 1) for each in rest)
    return int(line.split()[1]), headers, json.loads(body)


def test_who_sends_all_of_a_body_that_is_too_large_before_reading_learns_why_it_was_refused(process):
    for _ in range(5):
        with closing(HTTPConnection("127.0.0.1", process.port, timeout=20)) as connection:
            headers = {"Content-Type": "application/json", **process.headers}
            connection.request("POST", "/api/v1/tasks", b"x" * (17 << 20), headers)
            assert json.load(connection.getresponse())["code"] == "BODY_TOO_LARGE"


def test_who_sends_without_end_is_cut_off(process):
    head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {process.key}\r\n"
    with connect(process) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {10**12}\r\n\r\n".encode())
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(bytes(2**30))


def close_code(reader: Reader) -> int:
    """The code that the server closes a socket with."""
    with pytest.raises(Closed) as caught:
        reader.until("never")
    return caught.value.code


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET / HTTP/1.1\r\nA: <img onerror=x>\r\n folded\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 414, "URI_TOO_LONG"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431, "HEADERS_TOO_LARGE"),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 9000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: rot13\r\n\r\n", 501, "UNSUPPORTED_ENCODING"),
        (b"POST / HTTP/1.1\r\nExpect: miracles\r\n\r\n", 417, "EXPECTATION_FAILED"),
    ],
)
def test_what_is_no_request_is_refused_with_a_problem(process, request_, status, code):
    found, headers, problem = said(process, request_)
    assert (found, problem["status"], problem["code"]) == (status, status, code)
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-ID"] == problem["request_id"]
    assert headers["Cache-Control"] == "no-store"
    assert dict(CAREFUL).items() <= headers.items()


def test_a_request_that_comes_half_is_given_up_and_frees_its_thread(process, web_settings):
    with ExitStack() as stack:
        began = time.monotonic()
        for _ in range(web_settings.web_threads):
            stack.enter_context(connect(process)).sendall(b"GET /health HTTP/1.1\r\nA: ")
        late = stack.enter_context(connect(process))
        late.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert late.recv(12) == b"HTTP/1.1 200"
        assert HEAD_S - 1 < time.monotonic() - began < HEAD_S + 3


def test_clients_that_do_not_close_hold_up_nobody(process):
    with ExitStack() as stack:
        began = time.monotonic()
        for _ in range(10):
            idle = stack.enter_context(connect(process))
            idle.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
        for _ in range(10):
            assert process.get("/health")[0] == 200
        assert time.monotonic() - began < FAREWELL_S


def test_a_client_may_read_the_last_answer_later(process):
    with connect(process) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
        time.sleep(FAREWELL_S + 0.5)  # the server has given up to wait for the end of the connection
        assert answered(connection).startswith(b"HTTP/1.1 200")


def test_the_process_ends_as_soon_as_an_idle_one_whatever_is_open(tmp_path, web_settings, process):
    with WebProcess(tmp_path, web_settings) as idle, ExitStack() as stack:
        kept = [stack.enter_context(connect(process)) for _ in range(10)]
        for each in kept:
            each.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            assert each.recv(12) == b"HTTP/1.1 200"
        for text in (b"", b"GET /hea", b"GET / HTTP/1.1\r\nHost:"):
            stack.enter_context(connect(process)).sendall(text)
        sockets = [process.socket() for _ in range(20)]
        # gunicorn alone would wait for its whole grace of 10 s, as long as one has sent nothing or half a request.
        assert process.terminate() < idle.terminate() + 3
        assert process.process.returncode == 0
        assert {close_code(reader) for reader in sockets} == {1012}


def test_the_end_costs_next_to_nothing(process):
    used = cpu_s(process.process.pid) + sum(map(cpu_s, process.worker_pids))
    process.process.send_signal(signal.SIGTERM)
    _, _, usage = os.wait4(process.process.pid, 0)
    # Clearing up all that is in memory takes both processes 0.6 s together, and twice as long on a busy machine.
    assert usage.ru_utime + usage.ru_stime - used < 0.3


def test_a_request_under_way_on_an_idle_connection_is_answered_at_the_end(process):
    with connect(process) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        head = connection.recv(65_536)
        assert head.startswith(b"HTTP/1.1 200")
        while not head.endswith(b"}"):
            head += connection.recv(65_536)
        process.process.send_signal(signal.SIGTERM)
        connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        last = answered(connection)
        assert last.startswith(b"HTTP/1.1 200")

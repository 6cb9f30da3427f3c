"""Bodies that come slowly, malformed or not to their end."""

import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.support.waiting import wait_until
from tests.web.conftest import KEYS
from tests.web.web_process import WebProcess
from webapp.bodies import Bodies, Body
from webapp.problems import Problem

BROKEN = [b"zz\r\n{}\r\n0\r\n\r\n", b"5\r\n{}\r\n0\r\n\r\n", b"2\r\n{}XX0\r\n\r\n", b"-1\r\n{}\r\n"]
PATHS = {"/api/v1/tasks": "application/json", "/login": "application/json"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def process(tmp_path, web_settings):
    with WebProcess(tmp_path, web_settings) as process:
        yield process


def begun(process, path, *headers):
    """A connection over which a POST has begun."""
    connection = socket.create_connection(("127.0.0.1", process.port), timeout=20)
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {KEYS['admin']}", *headers]
    connection.sendall("\r\n".join([*lines, "Sec-Fetch-Site: same-origin", "", ""]).encode())
    return connection


def answered(connection):
    """Status and code of the answer."""
    answer = b""
    while part := connection.recv(65536):
        answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        if body.endswith(b"}"):
            return int(head.split()[1]), json.loads(body)["code"]
    return answer


@pytest.mark.parametrize(("path", "kind"), [*PATHS.items(), ("/login", FORM), ("/tasks/act", FORM)])
def test_malformed_chunks_are_the_clients_fault_whatever_reads_them(tmp_path, web_settings, path, kind):
    with WebProcess(tmp_path, with_people(web_settings)) as process:
        for body in BROKEN:
            with begun(process, path, f"Content-Type: {kind}", "Transfer-Encoding: chunked") as connection:
                connection.sendall(body)
                connection.shutdown(socket.SHUT_WR)
                assert answered(connection) == (400, "BODY_BROKEN")
        assert "Traceback" not in process.log


def with_people(settings):
    """The settings with somebody who may sign in, so that forms are read."""
    return replace(settings, users=("ada:admin:-",), secret_key="k" * 40)


def test_whoever_hangs_up_in_mid_body_leaves_no_traceback(process):
    for headers in (["Content-Length: 1000"], ["Transfer-Encoding: chunked"]):
        with begun(process, "/api/v1/tasks", "Content-Type: application/json", *headers) as connection:
            connection.sendall(b'3e8\r\n{"type":')
            # With what was not read still in it, closing is a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    wait_until(lambda: process.log.count("POST /api/v1/tasks 400") == 2, 10)
    assert "Traceback" not in process.log
    assert "ERROR" not in process.log


@pytest.mark.alone
def test_a_body_that_drips_has_a_deadline_and_the_answer_still_gets_out():
    ours, theirs = socket.socketpair()
    done = threading.Event()

    def drip():
        with suppress(OSError):
            while not done.wait(0.05):
                theirs.sendall(b"x")

    dripping = threading.Thread(target=drip)
    with ours, theirs, ours.makefile("rb") as source:
        dripping.start()
        began = time.monotonic()
        try:
            with pytest.raises(Problem) as refused:
                Body(source, ours, Bodies(0.2)).read(1000)
        finally:
            done.set()
            dripping.join(5)
        assert (refused.value.status, refused.value.code) == (408, "BODY_TOO_SLOW")
        assert time.monotonic() - began < 3
        ours.sendall(b"answer")
        assert theirs.recv(10) == b"answer"


def test_a_connection_whose_body_came_in_time_is_left_alone():
    ours, theirs = socket.socketpair()
    bodies = Bodies(0.2)
    with ours, theirs, ours.makefile("rb") as source:
        theirs.sendall(b"abc")
        assert Body(source, ours, bodies).read(3) == b"abc"
        ended, other = socket.socketpair()
        with ended, other, ended.makefile("rb") as silent, pytest.raises(Problem):
            Body(silent, ended, bodies).read(1)  # the watch has come by since
        theirs.sendall(b"def")
        assert source.read(3) == b"def"

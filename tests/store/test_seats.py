"""How many sockets one process opens, and what becomes of calls that wait for one."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import redis
from redis.connection import AbstractConnection

from dtq_engine.connection import Connection, connect
from dtq_engine.errors import RedisUnavailable
from tests.support.servers import plain
from tests.support.waiting import wait_until

CALLS: list[Callable[[Connection], object]] = [
    lambda connection: connection.call("PING"),
    lambda connection: connection.pipeline([("PING",), ("TIME",)]),
]


def test_no_more_sockets_are_opened_than_the_settings_allow(own_server, settings):
    connection = connect(replace(settings, redis_url=own_server.url, redis_connections=3))
    with redis.Redis.from_url(plain(own_server.url), protocol=2) as client, ThreadPoolExecutor(20) as threads:
        slow = "local n = 0; for i = 1, 1e5 do n = n + i end"
        calls = [threads.submit(connection.call, "EVAL", slow, 0) for _ in range(50)]
        calls += [threads.submit(connection.pipeline, [("PING",)] * 10) for _ in range(200)]
        most = 0
        while not all(call.done() for call in calls):
            most = max(most, len(client.client_list()) - 1)
        assert [call.exception() for call in calls] == [None] * len(calls)
    connection.close()
    assert 1 <= most <= 3


def test_who_waits_while_others_are_answered_is_not_told_that_redis_is_away(settings, monkeypatch):
    monkeypatch.setattr("dtq_engine.connection.SEAT_S", 0.5)
    connection = connect(replace(settings, redis_connections=1))
    some_time = "local n = 0; for i = 1, 2e6 do n = n + i end return 7"
    with ThreadPoolExecutor(40) as threads:
        began = time.monotonic()
        calls = [threads.submit(connection.once, "EVAL", some_time, 0) for _ in range(40)]
        assert {call.result() for call in calls} == {7}
    assert time.monotonic() - began > 0.5
    connection.close()


@pytest.mark.not_on_a_cluster("a node that is away is looked for among the others first")
@pytest.mark.parametrize("call", CALLS)
def test_in_a_crowd_too_everybody_is_told_within_two_seconds_that_redis_is_away(own_server, settings, call):
    connection = connect(replace(settings, redis_url=own_server.url, redis_connections=2))
    took, over = list[float](), threading.Event()

    def ask():
        while not over.is_set():
            began = time.monotonic()
            try:
                call(connection)
            except RedisUnavailable:
                took.append(time.monotonic() - began)

    with ThreadPoolExecutor(10) as threads:
        asking = [threads.submit(ask) for _ in range(10)]
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            # They wait for a seat, for an answer or for a new connection, but not for one after the other.
            wait_until(lambda: len(took) > 20, 15)
        finally:
            over.set()
            wait_until(lambda: all(each.done() for each in asking), 10)
            os.kill(own_server.pid, signal.SIGCONT)
    connection.close()
    assert max(took) < 2.8


@pytest.mark.parametrize("fresh_s", [0, 60])
def test_a_connection_that_was_closed_while_nobody_used_it_is_not_used(settings, client, monkeypatch, fresh_s):
    monkeypatch.setattr("dtq_engine.links.FRESH_S", fresh_s)
    connection = connect(settings)
    mine = connection.call("CLIENT", "ID")
    client.client_kill_filter(_id=mine)
    assert connection.once("CLIENT", "ID") != mine
    connection.close()


@pytest.mark.not_on_a_cluster("redis-py keeps the connections to its nodes")
@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux says of a connection what it is")
def test_a_connection_that_was_just_used_is_not_looked_at(settings, monkeypatch):
    monkeypatch.setattr("dtq_engine.links.FRESH_S", 60)
    connection = connect(settings)
    mine = connection.call("CLIENT", "ID")
    monkeypatch.setattr(AbstractConnection, "can_read", lambda *_: pytest.fail("it was looked at"))
    assert connection.call("CLIENT", "ID") == mine
    connection.close()

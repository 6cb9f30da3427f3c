"""Connections before any socket is opened: what an address stands for."""

from dataclasses import replace

import pytest
import redis

from dtq_engine.config import Settings
from dtq_engine.connection import Connection, connect
from dtq_engine.errors import RedisUnavailable
from dtq_engine.ids import new_id
from dtq_engine.model import NewTask
from dtq_engine.store import Store


def connected(url: str) -> Connection:
    return connect(replace(Settings(), redis_url=url))


def options(url: str) -> dict[str, object]:
    given: dict[str, object] = connected(url).client.connection_pool.connection_kwargs
    return given


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:7/3", {"host": "h", "port": 7, "db": 3}),
        ("redis://alice:p%40ss@h/0", {"host": "h", "username": "alice", "password": "p@ss"}),
        ("unix:///tmp/redis.sock?db=2", {"path": "/tmp/redis.sock", "db": 2}),
    ],
)
def test_an_address_is_taken_apart(url, expected):
    given = options(url)
    assert {name: given.get(name) for name in expected} == expected


def test_tls_is_what_rediss_means():
    assert issubclass(connected("rediss://h/0").client.connection_pool.connection_class, redis.SSLConnection)


@pytest.mark.parametrize(("url", "database"), [("redis://h/0", 0), ("redis://h/5", 5), ("redis://h", 0)])
def test_the_database_is_known_for_the_channels(url, database):
    assert connected(url).database == database
    assert Store(connected(url), Settings()).keys.channels() == f"dtq:{database}"


def test_replies_stay_bytes_and_redis_py_resends_nothing():
    given = options("redis://h/0")
    assert (given["protocol"], given["decode_responses"]) == (2, False)
    retry = given["retry"]
    assert isinstance(retry, redis.retry.Retry)
    assert retry.get_retries() == 0


@pytest.mark.parametrize(
    ("url", "service", "hosts"),
    [
        ("redis+sentinel://s1:1,s2:2/prime/4", "prime", [("s1", 1), ("s2", 2)]),
        ("redis+sentinel://s1/", "mymaster", [("s1", 26379)]),
        ("rediss+sentinel://bob:secret@s1:1/prime", "prime", [("s1", 1)]),
    ],
)
def test_a_sentinel_address_names_its_sentinels_and_the_service(url, service, hosts):
    pool = connected(url).client.connection_pool
    asked = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
    assert pool.service_name == service
    assert [(each["host"], each["port"]) for each in asked] == hosts


def test_a_sentinel_address_carries_database_and_password():
    given = options("redis+sentinel://bob:s%3Acret@s1:1/prime/4")
    assert (given["db"], given["username"], given["password"]) == (4, "bob", "s:cret")


def test_making_a_store_opens_no_socket(monkeypatch):
    monkeypatch.setattr("socket.socket", None)
    Store(connected("redis://nowhere.invalid/0"), Settings())


def test_a_host_that_does_not_exist_is_unavailable():
    store = Store(connected("redis://nowhere.invalid/0"), Settings())
    with pytest.raises(RedisUnavailable, match="check that it runs and DTQ_REDIS_URL"):
        store.intake.submit([NewTask(id=new_id(), type="mail")])


def test_no_commands_in_a_pipeline_are_no_call():
    assert connected("redis://nowhere.invalid/0").pipeline([]) == []


def test_no_keys_to_pop_are_no_call():
    assert connected("redis://nowhere.invalid/0").pop([]) is None

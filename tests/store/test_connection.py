"""The connection: errors in our own words, blocking waits, messages, and many threads at once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.connection import AbstractConnection

from dtq_engine.connection import NotOffered
from dtq_engine.errors import RedisDamaged, RedisRefused, RedisUnavailable
from dtq_engine.store import Store
from tests.support.waiting import wait_until

pytestmark = pytest.mark.both_servers


def test_a_wrong_type_is_damage(conn, client, store):
    client.rpush(store.keys.queues(), "x")
    with pytest.raises(RedisDamaged):
        conn.call("SADD", store.keys.queues(), "q")


def test_an_unknown_script_is_told_apart(conn):
    with pytest.raises(NotOffered):
        conn.call("EVALSHA", "0" * 40, 0)


def test_an_answer_that_nobody_expects_is_refused_in_our_own_words(conn):
    with pytest.raises(RedisRefused):
        conn.call("NO-SUCH-COMMAND")


def test_a_pipeline_answers_each_command_and_one_failure_does_not_hide_the_others(conn, client, store):
    client.set(store.keys.pulse("default"), "1")
    replies = conn.pipeline([("GET", store.keys.pulse("default")), ("LLEN", store.keys.pulse("default")), ("PING",)])
    assert replies[0] == b"1"
    assert isinstance(replies[1], Exception)
    assert replies[2] in {True, b"PONG"}


def test_ping_says_nothing_when_all_is_well(conn):
    assert conn.ping() is None


def test_a_closed_connection_can_be_used_again(conn):
    conn.ping()
    conn.close()
    conn.ping()


# Waiting


def test_the_first_list_with_a_token_is_popped(conn, client, store):
    keys = [store.keys.wake(queue) for queue in ("q1", "q2", "q3")]
    assert conn.pop(keys) is None
    for key in keys[1:]:
        client.lpush(key, "1", "1")
    assert [conn.pop(keys) for _ in range(3)] == [keys[1], keys[1], keys[2]]


def test_a_blocking_pop_takes_what_is_there_at_once(conn, client, store):
    keys = [store.keys.wake(queue) for queue in ("q1", "q2")]
    client.lpush(keys[1], "1")
    assert conn.blpop(keys, 5) == keys[1]


@pytest.mark.alone
def test_a_blocking_pop_ends_after_its_time(conn, store):
    started = time.monotonic()
    assert conn.blpop([store.keys.wake("default")], 0.05) is None
    assert time.monotonic() - started < 2


def test_a_blocking_pop_ends_when_a_token_comes(conn, client, store):
    key = store.keys.wake("default")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(conn.blpop, [key], 10.0)
        client.lpush(key, "1")
        assert waiting.result(5) == key


def test_a_blocking_pop_does_not_hold_up_other_calls(conn, store):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(conn.blpop, [store.keys.wake("default")], 0.3)
        conn.ping()
        assert not waiting.done()
        assert waiting.result(5) is None


# Messages


def test_messages_come_in_order_from_every_channel(conn, client, store):
    channels = [store.keys.control_channel("w"), store.keys.done_channel("p")]
    with conn.listen(channels) as messages:
        for n in range(4):
            client.publish(channels[n % 2], f"{n}")
        assert [messages.get(2) for _ in range(4)] == [(channels[n % 2], f"{n}".encode()) for n in range(4)]
        assert messages.get(0.01) is None


def test_another_channel_can_be_added(conn, client, store):
    with conn.listen([store.keys.done_channel("p")]) as messages:
        messages.add(store.keys.done_channel("q"))
        wait_until(lambda: client.publish(store.keys.done_channel("q"), "x"))
        assert wait_until(lambda: messages.get(0.1)) == (store.keys.done_channel("q"), b"x")


def test_queues_of_another_prefix_hear_nothing(conn, client, store, settings):
    with conn.listen([store.keys.done_channel("p")]) as messages:
        client.publish(f"x{store.keys.done_channel('p')}", "x")
        assert messages.get(0.05) is None


# Threads and servers


def test_many_threads_share_a_connection(store: Store):
    def work(number: int) -> bool:
        store.workers.register_queue(f"q{number}")
        return f"q{number}" in store.inspect.queues()

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(work, range(100)))


def test_an_exchange_that_is_interrupted_leaves_no_reply_behind(conn, monkeypatch):
    """The next caller must never read the answer to somebody else's question."""
    read = AbstractConnection.read_response

    def interrupted(self, *args, **kwargs):
        monkeypatch.setattr(AbstractConnection, "read_response", read)
        raise KeyboardInterrupt

    conn.ping()
    monkeypatch.setattr(AbstractConnection, "read_response", interrupted)
    with pytest.raises(KeyboardInterrupt):
        conn.call("ECHO", "mine")
    assert conn.call("ECHO", "yours") == b"yours"


def test_information_is_by_name_and_empty_where_it_is_not_offered(conn, server_kind):
    if server_kind == "real":
        assert int(conn.info("memory")["used_memory"]) > 0
    else:
        assert conn.info("memory") == {}


def test_threads_that_end_leave_the_connection_in_order(conn):
    for _ in range(3):
        thread = threading.Thread(target=conn.ping)
        thread.start()
        thread.join()
    conn.ping()


def test_a_connection_to_nowhere_opens_nothing_until_it_is_used(store_at):
    store = store_at("redis://127.0.0.1:1/0")
    with pytest.raises(RedisUnavailable):
        store.connection.ping()

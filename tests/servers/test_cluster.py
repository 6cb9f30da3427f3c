"""A cluster of three primaries: queues are spread over nodes that change places and fail."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
from redis.crc import key_slot

from dtq_engine import Dtq, Settings, TaskStatus
from dtq_engine.cluster import key_of
from dtq_engine.embedded import EmbeddedValkey, free_port
from dtq_engine.errors import RedisUnavailable
from dtq_engine.model import Settled
from dtq_engine.store import Store
from dtq_engine.worker import Worker
from dtq_engine.worker.server import look
from tests.servers.nodes import Cluster
from tests.store.hand import Hand
from tests.support.waiting import wait_until

QUEUES = tuple(f"q{number}" for number in range(10))

StoreAt = Callable[..., Store]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def store(cluster: Cluster, store_at: StoreAt) -> Store:
    return store_at(cluster.url)


def test_tasks_of_queues_on_every_node_are_submitted_found_listed_and_finished(cluster, store):
    assert len({cluster.holder(store.keys.queue(queue)) for queue in QUEUES}) == 3
    for queue in QUEUES:
        assert Hand(store, queue=queue).submit(f"of-{queue}")[0].accepted
    assert store.inspect.queues() == sorted(QUEUES)
    found = store.inspect.find([f"of-{queue}" for queue in QUEUES])
    assert [task and task.queue for task in found] == list(QUEUES)
    assert len(store.inspect.tasks(status=TaskStatus.QUEUED).items) == len(QUEUES)
    assert sum(store.inspect.queue(queue).waiting for queue in QUEUES) == len(QUEUES)
    for queue in QUEUES:
        hand = Hand(store, queue=queue)
        assert hand.end(hand.claim_one(f"of-{queue}")) is Settled.OK
    assert sum(store.inspect.queue(queue).succeeded for queue in QUEUES) == len(QUEUES)


def test_one_submit_and_one_finalize_may_span_nodes(store):
    hands = [Hand(store, queue=queue) for queue in QUEUES]
    claims = [hand.start(f"of-{hand.queue}") for hand in hands]
    assert set(hands[0].end_all(claims)) == {Settled.OK}


def test_a_node_that_lacks_the_functions_is_sent_them(cluster, store):
    """As one is that was put in the place of another."""
    hands = [Hand(store, queue=queue) for queue in QUEUES]
    for number, hand in enumerate(hands):
        hand.submit(f"before-{hand.queue}")
        cluster.primaries[number % 3].ask("FUNCTION", "FLUSH", "SYNC")
        for claim in hand.claim():
            assert hand.end(claim) is Settled.OK
    assert store.connection.abstains_until == 0


def test_a_sweep_walks_over_every_node(cluster, store):
    for queue in QUEUES:
        Hand(store, queue=queue).submit(f"of-{queue}")
    store.connection.call("DEL", store.keys.queues())
    assert store.sweep.run() == {"queue": len(QUEUES)}
    assert store.inspect.queues() == sorted(QUEUES)


# Waiting


@pytest.mark.alone
def test_a_token_in_any_slot_ends_a_wait_within_a_moment(store, store_at, cluster):
    keys = [store.keys.wake(queue) for queue in QUEUES]
    other = store_at(cluster.url)
    threading.Timer(0.3, other.connection.call, ("LPUSH", keys[7], "1")).start()
    started = time.monotonic()
    assert store.connection.blpop(keys, 5) == keys[7]
    assert 0.2 < time.monotonic() - started < 4  # of five
    assert store.connection.pop(keys) is None


@pytest.mark.alone
@pytest.mark.parametrize("number", [1, 10])
def test_a_wait_may_be_longer_than_a_reply_takes(store, number):
    started = time.monotonic()
    assert store.connection.blpop([store.keys.wake(queue) for queue in QUEUES[:number]], 2.2) is None
    assert 2.1 < time.monotonic() - started < 4.5


@pytest.mark.parametrize("number", [1, 10])
def test_closing_the_connection_ends_a_wait(store, number):
    ended: list[RedisUnavailable] = []

    def wait() -> None:
        with pytest.raises(RedisUnavailable) as caught:
            store.connection.blpop([store.keys.wake(queue) for queue in QUEUES[:number]], 60)
        ended.append(caught.value)

    def is_over_when_closed() -> bool:
        store.connection.close()  # again and again, as the wait may not have begun yet
        return ended != []

    threading.Thread(target=wait, daemon=True).start()
    wait_until(is_over_when_closed, 10, interval=0.1)
    store.connection.ping()


@pytest.mark.alone
def test_an_idle_worker_of_ten_queues_starts_a_task_of_any_of_them_within_a_moment(cluster):
    app = Dtq(replace(Settings(), redis_url=cluster.url, prefix="idle", worker_queues=QUEUES, drain_timeout_s=1))
    started = threading.Event()

    @app.task("go")
    def go() -> None:
        started.set()

    worker = Worker(app, app.settings)
    worker.start()
    try:
        for queue in ("q0", "q5", "q9"):
            time.sleep(0.2)
            started.clear()
            before = time.monotonic()
            handle = go.options(queue=queue).submit()
            assert started.wait(5)
            assert time.monotonic() - before < 3, "by a wake-up, and not by a look every few seconds"
            assert handle.result(timeout=5) is None
    finally:
        worker.stop()
        worker.join(10)
        app.close()


def test_what_a_script_publishes_on_one_node_is_heard_on_every_other(cluster, store, store_at):
    for _ in range(6):
        with store_at(cluster.url).connection.listen([store.keys.done_channel("p")]) as messages:
            hand = Hand(store, queue="q1")
            claim = hand.start("a")
            store.leases.watch("a", "q1", "p")
            hand.end(claim)
            assert wait_until(partial(messages.get, 0.5))[1] == b"a succeeded"
        store.connection.call("DEL", store.keys.task("q1", "a"))


def test_a_look_at_the_server_sees_every_node(cluster: Cluster, store: Store):
    facts = look(store.connection)
    assert len(facts.run_id.split()) == 3
    assert facts.run_id == look(store.connection).run_id
    assert not facts.persists
    cluster.primaries[2].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        assert look(store.connection).eviction == "allkeys-lru"
    finally:
        cluster.primaries[2].ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


# The map of slots


@pytest.mark.parametrize(
    "command",
    [
        ("GET", "k"),
        ("EVALSHA", "0" * 40, 1, "k", "a"),
        ("FCALL", "f", 1, "k", "a"),
        ("EVAL", "return 1", 1, "k"),
        ("LMPOP", 1, "k", "LEFT"),
        ("BLPOP", "k", "0.1"),
        ("XINFO", "GROUPS", "k"),
        ("XPENDING", "k", "workers"),
        ("XREVRANGE", "k", "+", "-", "COUNT", 1),
        ("ZRANGE", "k", 0, 1, "REV"),
        ("ZSCAN", "k", 0),
        ("SADD", "k", "m"),
        ("LRANGE", "k", 0, -1),
    ],
)
def test_a_command_goes_to_where_the_server_says_its_key_is(cluster, command):
    assert cluster.nodes[1].ask("COMMAND GETKEYS", *command) == [key_of(command)] == ["k"]


@pytest.mark.parametrize(
    "command", [("PING",), ("TIME",), ("INFO", "memory"), ("SCAN", 0, "MATCH", "x"), ("EVALSHA", "0" * 40, 0)]
)
def test_a_command_without_a_key_goes_to_any_node(command):
    assert key_of(command) is None


def test_a_slot_that_has_moved_is_followed_by_calls_and_by_pipelines(cluster, store, store_at):
    stale = [store_at(cluster.url) for _ in range(2)]
    for each in stale:
        each.connection.ping()
    key = store.keys.task("moves", "a")
    home = cluster.holder(key)
    target = cluster.primaries[(cluster.primaries.index(home) + 1) % 3]
    cluster.move(key_slot(key.encode()), target)
    try:
        assert Hand(stale[0], queue="moves").submit("a")[0].accepted
        task = stale[1].inspect.get("a", queue="moves")
        assert task.status is TaskStatus.QUEUED
        assert target.ask("EXISTS", key) == 1
        # What a first answer taught holds for the next ones.
        assert stale[0].inspect.get("a", queue="moves") == task
    finally:
        target.ask("DEL", *target.ask("CLUSTER", "GETKEYSINSLOT", key_slot(key.encode()), 100))
        cluster.move(key_slot(key.encode()), home)


def test_a_key_that_is_just_moving_is_asked_for_at_its_new_place(cluster, store):
    key = store.keys.pulse("moving")
    home, slot = cluster.holder(key), key_slot(key.encode())
    target = cluster.primaries[(cluster.primaries.index(home) + 1) % 3]
    store.connection.ping()
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", home.ask("CLUSTER", "MYID"))
    home.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))
    try:
        assert store.connection.call("SADD", key, "m") == 1
        assert store.connection.pipeline([("SCARD", key), ("PING",)])[0] == 1
        assert home.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 0
        store.connection.call("DEL", key)
    finally:
        for node in (home, target):
            node.ask("CLUSTER", "SETSLOT", slot, "STABLE")


# Nodes that are away


def test_a_connection_opens_no_socket_before_it_is_used(store_at, monkeypatch):
    monkeypatch.setattr("socket.socket", None)
    store_at("redis+cluster://nowhere.invalid:1")


@pytest.mark.alone
def test_a_cluster_that_is_away_is_unavailable_within_two_seconds(store_at):
    started = time.monotonic()
    with pytest.raises(RedisUnavailable, match="check that it runs") as caught:
        Hand(store_at(f"redis+cluster://127.0.0.1:{free_port()}"), announced=False).submit("a")
    assert time.monotonic() - started < 2.5
    assert not caught.value.may_have_run


def test_one_host_of_the_address_that_answers_is_enough(cluster, store_at):
    store_at(f"redis+cluster://127.0.0.1:{free_port()},{cluster.nodes[2].place}").connection.ping()


def test_a_user_that_the_cluster_refuses_is_told_so(cluster, store_at):
    with pytest.raises(RedisUnavailable, match="check the name, password and rights"):
        store_at(f"redis+cluster://eve:wrong@{cluster.nodes[1].place}").connection.ping()


def test_a_server_that_is_no_cluster_is_told_apart(tmp_path, store_at):
    with EmbeddedValkey(tmp_path) as server, pytest.raises(RedisUnavailable, match="Cluster mode is not enabled"):
        store_at(server.url.replace("redis:", "redis+cluster:")).connection.ping()


def test_a_replica_takes_over_and_the_queue_goes_on(cluster, store):
    first = cluster.nodes[0]
    queue = next(queue for queue in QUEUES if cluster.holder(store.keys.queue(queue)) is first)
    hand = Hand(store, queue=queue)
    hand.submit("before")
    wait_until(lambda: cluster.replica.ask("DBSIZE") == first.ask("DBSIZE"))
    first.kill()
    claim = wait_until(lambda: _claimed(hand), 20, 0.1)
    assert claim.task_id == "before"
    assert hand.end(claim) is Settled.OK
    assert hand.submit("after")[0].accepted
    assert hand.end(hand.claim_one()) is Settled.OK


def _claimed(hand: Hand):
    try:
        return next(iter(hand.claim(1)), None)
    except RedisUnavailable:
        return None

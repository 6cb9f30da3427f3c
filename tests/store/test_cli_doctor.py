"""`dtq doctor`: each thing that can be wrong is found, told in a sentence, and nothing else is."""

import re
import time

import pytest
import redis

from dtq_engine import findings
from dtq_engine.config import Settings
from dtq_engine.errors import RedisUnavailable
from dtq_engine.findings import DAMAGE
from dtq_engine.limits import Declared, Limit, Numbers
from dtq_engine.model import Block, Cancel, DeadLetter, Reschedule, TaskStatus
from tests.store.hand import Hand, error, info

pytestmark = pytest.mark.usefixtures("keeping_server")


@pytest.fixture
def keeping_server(monkeypatch):
    """The tests' server has no append-only file, which is not what is looked for here."""
    monkeypatch.setattr("dtq_engine.worker.checks.warnings", lambda _server: iter(()))


@pytest.fixture
def served(store) -> None:
    """A worker of the queue default, and a leader."""
    now_ms = store.now_ms()
    store.workers.beat(info("w-1", queues=("default",), started_ms=now_ms, seen_ms=now_ms), 30)
    store.workers.acquire_lock("leader")


@pytest.fixture
def world(hand: Hand, served) -> Hand:
    """A queue with a task in every state, and all in order."""
    hand.end(hand.start("done", idempotency_key="k"))
    hand.end(hand.start("dead"), DeadLetter(error(), "permanent"))
    hand.end(hand.start("off"), Cancel(error()))
    hand.end(hand.start("retrying"), Reschedule(error(), 60_000))
    hand.start("running", priority=9)
    hand.submit("pending", delay_ms=60_000)
    hand.submit("queued")
    return hand


def messages(ran) -> list[str]:
    return [each["message"] for each in ran.json["findings"]]


def test_nothing_is_found_where_nothing_is_wrong(dtq, world):
    ran = dtq("doctor")
    assert (ran.code, ran.out, ran.err) == (
        0,
        "Nothing is wrong with settings, server, clock, memory, keys, tasks, workers, queues.\n",
        "",
    )
    assert dtq("doctor", "--json").json["findings"] == []
    assert dtq("doctor", "--repair").code == 0


def test_a_deployment_without_a_queue_is_in_order(dtq):
    assert dtq("doctor").code == 0


# Settings and server


def test_wrong_settings_are_all_told_and_exit_code_2(dtq, monkeypatch):
    monkeypatch.setenv("DTQ_WORKER_CONCURRENCY", "0")
    monkeypatch.setenv("DTQ_WORKR_ID", "x")
    ran = dtq("doctor", "--json")
    assert (ran.code, [each["check"] for each in ran.json["findings"]]) == (2, ["settings", "settings"])
    assert any("did you mean DTQ_WORKER_ID?" in each for each in messages(ran))
    assert dtq("doctor", "--deploy").code == 2


def test_an_app_that_cannot_be_loaded_is_a_wrong_setting(dtq, monkeypatch):
    monkeypatch.setenv("DTQ_TASKS", "no.such:app")
    ran = dtq("doctor", "--deploy")
    assert ran.code == 2
    assert ran.out.startswith("error     no.such:app cannot be loaded")


def test_no_redis_is_exit_code_2_but_does_not_fail_a_deployment(dtq, monkeypatch):
    monkeypatch.setenv("DTQ_REDIS_URL", "redis://127.0.0.1:1/0")
    ran = dtq("doctor", "--json")
    assert (ran.code, ran.json["findings"][0]["check"]) == (2, "redis")
    deploy = dtq("doctor", "--deploy")
    assert deploy.code == 0
    assert deploy.out.startswith("error     Redis does not answer")


def test_a_deployment_does_not_fail_for_what_is_wrong_with_tasks(dtq, hand):
    hand.submit("m-1")
    assert dtq("doctor").code == 1
    ran = dtq("doctor", "--deploy", "--json")
    assert (ran.code, ran.json) == (0, {"checks": ["settings", "server", "clock", "memory"], "findings": []})


def test_repairing_is_not_for_a_deployment(dtq):
    assert dtq("doctor", "--repair", "--deploy").code == 2


def test_in_production_a_web_process_that_serves_nobody_is_told(dtq, monkeypatch):
    monkeypatch.setenv("DTQ_ENV", "production")
    assert any("DTQ_API_KEYS" in each for each in messages(dtq("doctor", "--deploy", "--json")))
    monkeypatch.setenv("DTQ_API_KEYS", "ci:submit:0123456789012345678901234567890123456789")
    assert dtq("doctor", "--deploy", "--json").json["findings"] == []


def test_a_server_that_evicts_is_an_error_and_one_without_a_file_a_warning(dtq, make_server, monkeypatch):
    monkeypatch.undo()
    server = make_server(**{"maxmemory-policy": "allkeys-lru", "appendonly": "no"})
    monkeypatch.setenv("DTQ_REDIS_URL", server.url)
    found = dtq("doctor", "--json").json["findings"]
    assert {(each["level"], each["check"]) for each in found} == {("error", "server"), ("warning", "server")}
    told = " ".join(each["message"] for each in found)
    assert "maxmemory-policy allkeys-lru" in told
    assert "set appendonly to yes" in told


def test_a_clock_that_is_wrong_is_told(dtq, monkeypatch):
    real = time.time
    monkeypatch.setattr("dtq_engine.findings.time.time", lambda: real() + 7)
    assert messages(dtq("doctor", "--json")) == [
        "Redis' clock is 7.0 s behind this machine's, and decides when tasks are due: set both by NTP."
    ]


@pytest.mark.not_on_a_cluster("the server's limit is set by hand")
def test_memory_that_is_nearly_full_is_told(dtq, make_server, monkeypatch):
    server = make_server(maxmemory="1gb")
    monkeypatch.setenv("DTQ_REDIS_URL", server.url)
    assert dtq("doctor").code == 0
    monkeypatch.setattr("dtq_engine.connection.Connection.info", lambda *_: {"maxmemory": "100", "used_memory": "80"})
    assert messages(dtq("doctor", "--json"))[0].startswith(
        "Redis uses 80 % of its maxmemory, and refuses new tasks at 85"
    )


# Damage


def stray(client, keys) -> None:
    """An entry without a task, which the group has handed out and nobody holds."""
    entry = client.xadd(keys.stream("default", 0), {"i": "nobody"})
    client.xgroup_create(keys.stream("default", 0), "workers", entry)


DAMAGED = {
    "delivery": lambda client, keys: client.delete(keys.stream("default", 5)),
    "lease": lambda client, keys: client.xgroup_destroy(keys.stream("default", 9), "workers"),
    "schedule": lambda client, keys: client.delete(keys.schedule("default")),
    "index": lambda client, keys: client.delete(keys.index("default", TaskStatus.SUCCEEDED)),
    "dead_letter": lambda client, keys: client.delete(keys.dead_letters("default")),
    "time_to_live": lambda client, keys: client.persist(keys.task("default", "off")),
    "member_without_record": lambda client, keys: client.zadd(keys.retry_schedule("default"), {"gone": 9e15}),
    "stray_delivery": stray,
    "group": lambda client, keys: client.xgroup_setid(keys.stream("default", 9), "workers", "99999999999999-0"),
    "letter_without_task": lambda client, keys: client.xadd(keys.dead_letters("default"), {"i": "gone"}),
    "queue": lambda client, keys: client.srem(keys.queues(), "default"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_found_without_a_change_and_mended_when_asked_to(dtq, world, store, client, what):
    keys = store.keys
    DAMAGED[what](client, keys)
    before = everything(client, keys.prefix)
    ran = dtq("doctor", "--json")
    assert (ran.code, messages(ran)) == (1, [f"1 × {DAMAGE[what]}: {findings.MENDED}"])
    assert everything(client, keys.prefix) == before
    mended = dtq("doctor", "--repair")
    assert (mended.code, mended.out) == (0, f"repaired  1 × {DAMAGE[what]}: mended.\n")
    assert dtq("doctor").code == 0


def everything(client, prefix: str) -> dict[bytes, bytes]:
    """All keys with their contents, but for a count that goes by itself within a second."""
    names = (key for key in client.scan_iter(match=f"{prefix}:*") if not key.startswith(f"{prefix}:depth:".encode()))
    return {key: client.dump(key) for key in names}


def test_a_task_that_moves_on_while_it_is_looked_at_is_not_damaged(world, store, monkeypatch):
    """Between the reading of the records and the look at the streams, everything that can moves."""
    pipeline = store.connection.pipeline
    calls: list[object] = []

    def moving(commands):
        first = commands and commands[0][0] == "XINFO" and not calls
        if first:
            calls.append(commands)
            world.end_all(world.claim())
            store.control.run_now("pending")
            store.control.cancel("retrying")
        return pipeline(commands)

    monkeypatch.setattr(store.connection, "pipeline", moving)
    assert store.health.damage() == {}
    assert len(calls) == 1
    world.end_all(world.claim())


@pytest.mark.keeps_keys
def test_a_key_of_another_type_is_named(dtq, world, store, client):
    key = store.keys.schedule("default")
    client.set(f"{key}x", "1")
    client.delete(key)
    client.set(key, "not a zset")
    ran = dtq("doctor", "--json")
    assert ran.code == 1
    assert messages(ran)[0].startswith(f"The key {key} is a string, not a zset, so that queue default is held up")


# Workers and queues


def test_a_worker_that_fell_silent_is_told(dtq, store, served):
    now_ms = store.now_ms()
    store.workers.beat(info("w-2", queues=("default",), started_ms=now_ms, seen_ms=now_ms - 20_000), 30)
    (told,) = messages(dtq("doctor", "--json"))
    assert re.match(r"Worker w-2 on höst was last heard of 2\d\.\d s ago: see whether it still runs", told)


def test_workers_of_whom_none_leads_are_told(dtq, store, served, monkeypatch):
    monkeypatch.setattr("dtq_engine.findings.LEADER_S", 0.3)
    store.workers.release_lock("leader")
    assert messages(dtq("doctor", "--json"))[0].startswith("No worker leads")


def test_a_queue_without_a_worker_is_told(dtq, hand):
    hand.submit("m-1", "m-2")
    ran = dtq("doctor")
    assert (ran.code, ran.out) == (
        1,
        "error     Queue default has 2 tasks and no worker: start one that serves it, dtq worker --queues default.\n",
    )


def test_a_paused_queue_is_told_if_tasks_wait(dtq, hand, store, served):
    hand.submit("m-1")
    store.control.pause("default", reason="upgrade\x1b[31m")
    ran = dtq("doctor")
    assert (
        "Queue default is paused (upgrade\\x1b[31m) with 1 task waiting: if it may go on, dtq resume default."
        in ran.out
    )
    hand.store.control.purge("default")
    assert dtq("doctor").code == 0


def test_due_tasks_that_nobody_promotes_are_told(dtq, hand, store, served, client):
    hand.submit("m-1", delay_ms=60_000)
    client.zadd(store.keys.schedule("default"), {"m-1": store.now_ms() - 15_000})
    assert messages(dtq("doctor", "--json"))[0].startswith("Tasks of queue default have been due for 15.")


def test_blocked_tasks_are_told(dtq, hand, served):
    hand.end(hand.start("m-1"), Block("unknown type"))
    assert messages(dtq("doctor", "--json"))[0].startswith("Queue default has 1 task that no worker there can run")


def test_those_who_wait_for_a_limit_or_for_others_are_not_counted_among_what_nobody_can_run(
    dtq, hand, served, store, monkeypatch
):
    store.limits.declare("default", Declared((Limit("stripe", Numbers(1)),)))
    hand.submit("m-1", "m-2", "m-3", limits=("stripe",))
    running = hand.claim()
    assert messages(dtq("doctor", "--json")) == []
    hand.end(hand.start("m-4"), Block("unknown type"))
    assert messages(dtq("doctor", "--json"))[0].startswith("Queue default has 1 task that no worker there can run")
    monkeypatch.setattr(findings, "BLOCKED_LOOKS", 2)
    assert "has at least 1 task that no worker" in messages(dtq("doctor", "--json"))[0]
    hand.end_all(running)


def test_a_queue_that_is_nearly_full_is_told(dtq, hand, served, monkeypatch):
    hand.submit("m-1", "m-2")
    hand.end(hand.claim_one(), DeadLetter(error(), "permanent"))
    monkeypatch.setenv("DTQ_MAX_QUEUE_DEPTH", "1")
    monkeypatch.setenv("DTQ_DLQ_MAXLEN", "1")
    full, dead = messages(dtq("doctor", "--json"))
    assert full.startswith("Queue default has 1 task and refuses more at 1")
    assert dead.startswith("Queue default has 1 dead letter, and at 1 the oldest go")


# Whole keys and servers


@pytest.mark.keeps_keys
@pytest.mark.parametrize("name", ["clock", "leader", "pulse", "wake", "depth", "workers", "queues"])
def test_what_is_written_anew_at_any_time_is_named_and_taken_away_by_a_repair(dtq, store, client, hand, name):
    hand.submit("a")
    make = getattr(store.keys, name)
    key = make() if name in {"leader", "workers", "queues"} else make("default")
    client.delete(key)
    client.hset(key, "oops", "x")
    assert any(f"The key {key} is a hash" in message for message in messages(dtq("doctor", "--json"))), name
    assert any("mended" in message for message in messages(dtq("doctor", "--json", "--repair"))), name
    assert client.type(key) != b"hash"
    assert not any(key in message for message in messages(dtq("doctor", "--json")))
    assert [each.id for each in store.inspect.tasks().items] == ["a"]


@pytest.mark.keeps_keys
def test_a_pause_of_a_wrong_type_is_shown_and_named_and_ends_by_resume(dtq, store, client, hand, served):
    hand.submit("a")
    key = store.keys.paused("default")
    client.rpush(key, "oops")
    said = f"The key {key} is a list, not a string, so that queue default is paused until dtq resume default."
    assert said in messages(dtq("doctor", "--json"))
    assert store.inspect.queue("default").paused
    assert "paused" in dtq("queues").out
    assert hand.claim() == []
    assert dtq("resume", "default").code == 0
    assert [claim.task_id for claim in hand.claim()] == ["a"]
    assert said not in messages(dtq("doctor", "--json"))


@pytest.mark.keeps_keys
@pytest.mark.parametrize("score", ["inf", "-inf", "1e300"])
def test_a_member_of_a_schedule_that_is_due_at_no_time_is_found_and_repaired(dtq, world, client, store, score):
    client.zadd(store.keys.schedule("default"), {"pending": float(score), "nobody": float(score)})
    found = messages(dtq("doctor", "--json"))
    assert found == [f"1 × {DAMAGE[what]}: {findings.MENDED}" for what in ("member_without_record", "schedule")]
    dtq("doctor", "--repair")
    assert dtq("doctor").code == 0


@pytest.mark.not_on_a_cluster("REPLICAOF is refused there")
def test_a_read_only_replica_is_told(store_at, make_server, client):
    own = make_server()
    primary = client.connection_pool.connection_kwargs
    with redis.Redis.from_url(own.url, protocol=2) as replica:
        replica.replicaof(primary["host"], primary["port"])
        try:
            store = store_at(own.url)
            found = next(findings.server(store, Settings(redis_url=own.url)))
            assert found.message.startswith("Redis is a read-only replica: give DTQ_REDIS_URL the address")
            with pytest.raises(RedisUnavailable, match="read-only replica"):
                store.connection.call("SET", "x", 1)
        finally:
            replica.replicaof("NO", "ONE")


@pytest.mark.not_on_a_cluster("there is one database only, and the client knows")
def test_a_database_that_there_is_not_is_told(store_at, redis_url):
    with pytest.raises(RedisUnavailable, match="Redis has no database of the number"):
        store_at(redis_url.rsplit("/", 1)[0] + "/99999").connection.call("PING")


LAST_ID = "18446744073709551615-18446744073709551615"


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("has_entry", [False, True])
def test_a_band_that_takes_no_more_is_named_and_mended(dtq, hand, store, client, served, clock, is_deleted, has_entry):
    hand.submit("a", "b", "c")
    running = hand.claim(1)
    stream = store.keys.stream("default", 5)
    if has_entry:
        client.xadd(stream, {"i": "last"}, id=LAST_ID)
    else:
        client.execute_command("XSETID", stream, LAST_ID)
    if is_deleted:
        client.xdel(stream, running[0].entry)
    hand.submit("d")
    found = messages(dtq("doctor", "--json"))
    assert f"1 × {DAMAGE['band']}: {findings.MENDED}" in found
    assert any("whose band takes no more of them" in message for message in found)
    assert not any("handlers" in message for message in found)
    assert store.leases.renew(running).lost == set()
    dtq("doctor", "--repair")
    assert hand.end(running[0]) == "OK"
    clock.advance(61)
    store.schedule.promote("default")
    claims = hand.claim()
    assert {claim.task_id for claim in claims} == {"b", "c", "d"}
    hand.end_all(claims)
    assert store.health.damage() == {}

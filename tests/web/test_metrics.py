"""`/metrics`: exact for the whole fleet, whatever the names, the damage and the number of processes."""

import gzip
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from dtq_engine import Settings
from dtq_engine.connection import connect
from dtq_engine.embedded import EmbeddedValkey, free_port
from dtq_engine.metrics import BOUNDS
from dtq_engine.model import Block, DeadLetter, NewTask, Reschedule, Succeed
from dtq_engine.store import Store
from tests.store.hand import Hand, error, info
from tests.support.servers import plain
from tests.web.conftest import client_of

Sample = Callable[..., float]


@pytest.fixture
def hand(store: Store) -> Hand:
    """A worker that moves only when told to."""
    return Hand(store, types=("mail", "other"))


@pytest.fixture
def scrape(as_role: Callable[[str | None], FlaskClient]) -> Callable[[], Sample]:
    """Scrape, and look samples up: `scrape()("dtq_queue_depth", queue="default")`."""
    client = as_role("metrics")
    return lambda: sampler(client)


def sampler(client: FlaskClient) -> Sample:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return sampler_of(answer.text)


def sampler_of(text: str) -> Sample:
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }
    return lambda name, **labels: found[(name, frozenset(labels.items()))]


def live(hand: Hand) -> None:
    """One task for each way to end, and one for each place to wait."""
    hand.submit("good", "retried", "dead", "blocked", "held", "cancelled", "waits")
    claims = {claim.task_id: claim for claim in hand.claim(5)}
    hand.end(claims["good"], Succeed(b"1"))
    hand.end(claims["retried"], Reschedule(error(), 60_000))
    hand.end(claims["dead"], DeadLetter(error(), "permanent"))
    hand.end(claims["blocked"], Block("why"))
    hand.store.control.cancel("cancelled")
    hand.submit("delayed", delay_ms=60_000)


# What is counted


def test_counters_equal_what_became_of_the_tasks(hand: Hand, scrape: Callable[[], Sample]) -> None:
    live(hand)
    value, labels = scrape(), {"queue": "default", "task_type": "mail"}
    assert value("dtq_tasks_submitted_total", **labels) == 8
    assert value("dtq_tasks_started_total", **labels) == 5
    assert value("dtq_tasks_succeeded_total", **labels) == 1
    assert value("dtq_tasks_retried_total", **labels) == 1
    assert value("dtq_tasks_dead_lettered_total", **labels) == 1
    assert value("dtq_tasks_failed_total", **labels) == 0
    ended = {each: value("dtq_tasks_completed_total", status=each, **labels) for each in ("succeeded", "cancelled")}
    assert ended == {"succeeded": 1, "cancelled": 1}
    assert value("dtq_task_attempts_total", result="succeeded", **labels) == 1
    assert value("dtq_task_attempts_total", result="failed", **labels) == 2


def test_gauges_say_where_the_tasks_are(hand: Hand, scrape: Callable[[], Sample]) -> None:
    live(hand)
    value, queue = scrape(), {"queue": "default"}
    assert value("dtq_queue_depth", **queue) == 5
    assert value("dtq_queue_waiting", **queue) == 1
    assert value("dtq_queue_pending", **queue) == 1
    assert value("dtq_queue_delayed", **queue) == 1
    assert value("dtq_queue_blocked", **queue) == 1
    assert value("dtq_retry_scheduled", **queue) == 1
    assert value("dtq_dlq_depth", **queue) == 1
    assert value("dtq_scrape_errors") == 0


def test_a_paused_queue_says_so(hand: Hand, store: Store, scrape: Callable[[], Sample]) -> None:
    store.workers.register_queue("idle")
    hand.submit("a")
    store.control.pause("default", actor="me", reason="upgrade")
    value = scrape()
    assert (value("dtq_queue_paused", queue="default"), value("dtq_queue_paused", queue="idle")) == (1, 0)


def test_the_age_of_the_longest_wait_is_that_of_the_oldest_task_nobody_started(
    hand: Hand, scrape: Callable[[], Sample], client: redis.Redis, store: Store
) -> None:
    hand.start("held")
    assert scrape()("dtq_queue_oldest_seconds", queue="default") == 0
    seconds, _ = client.time()
    # Redis dates entries itself; one from a minute ago can only be made by naming its id, in a band without newer ones.
    client.xadd(store.keys.stream("default", 7), {"i": "waits"}, id=f"{(seconds - 60) * 1000}-0")
    assert 59 <= scrape()("dtq_queue_oldest_seconds", queue="default") < 90
    client.delete(store.keys.stream("default", 7))


def test_durations_come_in_cumulative_buckets_with_their_sum(
    hand: Hand, clock: Any, scrape: Callable[[], Sample]
) -> None:
    for task_id, seconds in (("a", 0), ("b", 1.5), ("c", 3600)):
        claim = hand.start(task_id)
        clock.advance(seconds)
        hand.end(claim)
    value, labels = scrape(), {"queue": "default", "task_type": "mail"}
    name = "dtq_task_execution_seconds"
    buckets = [value(f"{name}_bucket", le=bound, **labels) for bound in (*BOUNDS, "+Inf")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == value(f"{name}_count", **labels) == 3
    assert value(f"{name}_bucket", le="1.024", **labels) == 1
    assert value(f"{name}_bucket", le="4.096", **labels) == 2
    assert value(f"{name}_bucket", le="2097.152", **labels) == 2
    assert value(f"{name}_bucket", le="4194.304", **labels) == 3
    assert 3601.5 <= value(f"{name}_sum", **labels) < 3605


def test_a_duration_beyond_the_last_bucket_is_in_the_count(
    hand: Hand, scrape: Callable[[], Sample], client: redis.Redis, store: Store
) -> None:
    hand.submit("a")
    client.hset(store.keys.counters("default"), "mail wait 35", 2)
    value, labels = scrape(), {"queue": "default", "task_type": "mail"}
    assert value("dtq_task_wait_seconds_bucket", le=BOUNDS[-1], **labels) == 0
    assert value("dtq_task_wait_seconds_bucket", le="+Inf", **labels) == 2


def test_bounds_are_whole_powers_of_two_of_a_millisecond() -> None:
    assert [math.log2(float(bound) * 1000) for bound in BOUNDS] == list(range(27))


def test_workers_are_counted_with_what_they_hold_and_have_ended(store: Store, scrape: Callable[[], Sample]) -> None:
    store.workers.beat(info("w1", in_flight=3, finished=12), 60)
    store.workers.beat(info("w2", in_flight=0, finished=0), 60)
    value = scrape()
    assert value("dtq_workers_active") == 2
    assert [value("dtq_worker_inflight", worker_id=each) for each in ("w1", "w2")] == [3, 0]
    assert [value("dtq_worker_tasks_total", worker_id=each) for each in ("w1", "w2")] == [12, 0]


# Names


def test_odd_names_are_escaped_and_never_break_a_scrape(
    hand: Hand, store: Store, client: redis.Redis, as_role: Callable[[str], FlaskClient]
) -> None:
    hand.submit("a")
    names = ['quo"te', "back\\slash", "new\nline", "ünï", "{le=", "tab\t", "a:b.c-d"]
    counters = store.keys.counters("default")
    for name in names:
        client.hset(counters, f"{name} submitted", 1)
    client.hset(counters, b"\xff\xfe submitted", 1)
    client.hset(counters, b"\xc3\x28 submitted", 1)
    text = as_role("metrics").get("/metrics").text
    types = [
        sample.labels["task_type"]
        for family in parse(text)
        for sample in family.samples
        if sample.name == "dtq_tasks_submitted_total"
    ]
    assert sorted(types) == sorted([*names, "mail", "\\xff\\xfe", "\\xc3("])


def test_no_series_comes_twice(hand: Hand, store: Store, client: redis.Redis, api: FlaskClient) -> None:
    live(hand)
    counters = store.keys.counters("default")
    # The second is how the first is shown.
    client.hset(counters, b"\xff submitted", 1)
    client.hset(counters, b"\\xff submitted", 2)
    lines = [line.rpartition(" ")[0] for line in api.get("/metrics").text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines)) > 100


# Damage


@pytest.mark.keeps_keys
def test_a_damaged_key_is_left_out_counted_and_the_rest_goes_on(
    hand: Hand, store: Store, client: redis.Redis, scrape: Callable[[], Sample]
) -> None:
    live(hand)
    keys = store.keys
    other = Hand(store, types=("mail",), queue="mails")
    other.submit("b")
    client.delete(keys.counters("default"), keys.retry_schedule("default"), keys.stream("default", 5))
    for key in (keys.counters("default"), keys.retry_schedule("default"), keys.stream("default", 5)):
        client.set(key, "no longer what it was")
    value = scrape()
    assert value("dtq_scrape_errors") == 4  # of a stream, both the length and the deliveries
    assert value("dtq_queue_delayed", queue="default") == 1
    assert value("dtq_tasks_submitted_total", queue="mails", task_type="mail") == 1


@pytest.mark.keeps_keys
def test_a_field_that_is_no_number_is_left_out_and_counted(
    hand: Hand, store: Store, client: redis.Redis, scrape: Callable[[], Sample]
) -> None:
    hand.submit("a")
    broken: dict[Any, Any] = {
        "mail started": "many",
        "mail wait x": "1",
        "mail UPPER": "1",
        "mail retried": "9" * 400,
        "mail -": "-4",
    }
    client.hset(store.keys.counters("default"), mapping=broken)
    value = scrape()
    assert value("dtq_scrape_errors") == 5
    assert value("dtq_tasks_submitted_total", queue="default", task_type="mail") == 1


@pytest.mark.keeps_keys
@pytest.mark.parametrize("name", ["queues", "workers", "rejections"])
def test_a_damaged_list_of_the_deployment_is_counted(
    store: Store, client: redis.Redis, scrape: Callable[[], Sample], name: str
) -> None:
    client.set(getattr(store.keys, name)(), "damaged")
    assert scrape()("dtq_scrape_errors") == 1


def test_without_redis_a_scrape_fails_so_that_prometheus_sees_it(
    make_server: Callable[..., EmbeddedValkey], make_web: Callable[..., Flask]
) -> None:
    server = make_server()
    client = client_of(make_web(redis_url=server.url), "metrics")
    assert client.get("/metrics").status_code == 200
    server.stop()
    answer = client.get("/metrics")
    assert (answer.status_code, answer.get_json()["code"]) == (503, "REDIS_UNAVAILABLE")


# Cost


def commands_of_a_scrape(client: redis.Redis, scrape: Callable[[], Sample]) -> int:
    before = client.info("stats")["total_commands_processed"]
    scrape()
    return int(client.info("stats")["total_commands_processed"]) - int(before) - 1


def test_the_cost_of_a_scrape_grows_with_the_queues_and_not_with_the_tasks(
    store: Store, client: redis.Redis, scrape: Callable[[], Sample], hand: Hand
) -> None:
    hand.submit("a")
    scrape()
    one = commands_of_a_scrape(client, scrape)
    hand.submit(*[f"t{n}" for n in range(400)])
    assert commands_of_a_scrape(client, scrape) == one
    for n in range(9):
        store.intake.submit([NewTask(id=f"q{n}", type="mail", queue=f"queue{n}")])
    ten = commands_of_a_scrape(client, scrape)
    per_queue = (ten - one) / 9
    assert per_queue == 50
    assert one - per_queue <= 6


# How it is asked for


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("submit", 403), ("viewer", 200), ("metrics", 200)])
def test_a_scrape_needs_the_role_metrics(
    as_role: Callable[[str | None], FlaskClient], role: str | None, status: int
) -> None:
    assert as_role(role).get("/metrics").status_code == status


def test_openmetrics_is_given_to_whom_asks_for_it(hand: Hand, api: FlaskClient) -> None:
    live(hand)
    asked = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
    answer = api.get("/metrics", headers={"Accept": asked})
    assert answer.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    names = {family.name for family in parse_openmetrics(answer.text)}
    assert {"dtq_tasks_submitted", "dtq_task_wait_seconds", "dtq_queue_depth"} <= names
    text = api.get("/metrics")
    assert text.content_type.startswith("text/plain; version=0.0.4")
    assert text.headers["Vary"] == "Accept, Accept-Encoding"


def test_a_scrape_is_compressed_for_whom_asks_for_it(hand: Hand, api: FlaskClient) -> None:
    live(hand)
    plain = api.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in plain.headers
    small = api.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert small.headers["Content-Encoding"] == "gzip"
    assert len(small.data) * 5 < len(plain.data)
    assert b"dtq_queue_depth" in gzip.decompress(small.data)


# Rejections


@pytest.fixture
def elsewhere(make_web: Callable[..., Flask]) -> Flask:
    """Another web process."""
    return make_web()


def test_rejections_of_all_processes_are_added_up(web: Flask, elsewhere: Flask, scrape: Callable[[], Sample]) -> None:
    for process in (web, elsewhere):
        store = process.extensions["dtq"].app.store
        store.rejections.count("queue_full")
        store.rejections.count("invalid_task", 3)
    value = scrape()
    assert value("dtq_ingest_rejected_total", reason="queue_full") == 2
    assert value("dtq_ingest_rejected_total", reason="invalid_task") == 6
    assert sampler(client_of(elsewhere, "metrics"))("dtq_ingest_rejected_total", reason="queue_full") == 2


@pytest.fixture
def store_at(settings: Settings) -> Iterator[Callable[[str], Store]]:
    """A store over a server of this test's own."""
    made: list[Store] = []

    def make(url: str) -> Store:
        changed = replace(settings, redis_url=url)
        made.append(Store(connect(changed), changed))
        return made[-1]

    yield make
    for store in made:
        store.close()


def test_rejections_while_redis_is_away_are_counted_when_it_is_back(
    store_at: Callable[[str], Store], make_server: Callable[..., EmbeddedValkey]
) -> None:
    server = make_server()
    store = store_at(server.url)
    store.rejections.count("queue_full")
    store.close()
    server.stop()
    for _ in range(3):
        store.rejections.count("redis_unavailable")
    server.start()
    store.rejections._not_before = 0
    assert store.rejections.totals() == {"queue_full": 1, "redis_unavailable": 3}


def test_a_rejection_does_not_wait_for_a_redis_that_is_away(
    store_at: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(f"redis://127.0.0.1:{free_port()}/0")
    asked = []
    once = store.connection.once
    monkeypatch.setattr(store.connection, "once", lambda *command: (asked.append(command), once(*command)))
    for _ in range(50):
        store.rejections.count("redis_unavailable")
    assert len(asked) == 1


def test_rejections_at_maxmemory_are_counted_later(
    store_at: Callable[[str], Store], make_server: Callable[..., EmbeddedValkey]
) -> None:
    server = make_server()
    store = store_at(server.url)
    store.rejections.count("memory_full")
    with redis.Redis.from_url(plain(server.url)) as client:
        client.config_set("maxmemory", "1")
        store.rejections.count("memory_full")
        assert store.rejections.totals() == {"memory_full": 1}
        client.config_set("maxmemory", "0")
    store.rejections._not_before = 0
    assert store.rejections.totals() == {"memory_full": 2}


def test_rejections_of_many_threads_are_all_counted(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store.rejections.count, ["a", "b"] * 100))
    assert store.rejections.totals() == {"a": 100, "b": 100}


# Rejections, as the API makes them


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"json": {"type": "a b"}}, "invalid_task"),
        ({"json": {"tipe": "a"}}, "invalid_task"),
        ({"data": b"{", "content_type": "application/json"}, "invalid_json"),
        ({"data": b"x", "content_type": "text/plain"}, "unsupported_media_type"),
        ({"json": {"type": "a", "payload": {"x": "y" * 300_000}}}, "payload_too_large"),
    ],
)
def test_a_refused_submission_is_counted_by_its_code(
    api: FlaskClient, scrape: Callable[[], Sample], given: dict[str, Any], reason: str
) -> None:
    answer = api.post("/api/v1/tasks", **given)
    assert answer.get_json()["code"] == reason.upper()
    assert scrape()("dtq_ingest_rejected_total", reason=reason) == 1


def test_each_refused_task_of_a_batch_is_counted(make_web: Callable[..., Flask], scrape: Callable[[], Sample]) -> None:
    api = client_of(make_web(max_queue_depth=2), "submit")
    tasks = [{"type": "mail"}, {"type": "a b"}, {"type": "mail"}, {"type": "mail"}, {"type": "mail"}]
    answer = api.post("/api/v1/tasks/batch", json={"tasks": tasks})
    assert (answer.status_code, answer.get_json()["refused"]) == (200, 3)
    value = scrape()
    assert value("dtq_ingest_rejected_total", reason="queue_full") == 2
    assert value("dtq_ingest_rejected_total", reason="invalid_task") == 1
    assert value("dtq_tasks_submitted_total", queue="default", task_type="mail") == 2


def test_what_is_accepted_and_what_strangers_send_is_not_counted(
    api: FlaskClient, as_role: Callable[[str | None], FlaskClient], store: Store
) -> None:
    assert api.post("/api/v1/tasks", json={"type": "mail"}).status_code == 202
    assert as_role(None).post("/api/v1/tasks", json={"type": "mail"}).status_code == 401
    assert as_role("viewer").post("/api/v1/tasks", json={"type": "mail"}).status_code == 403
    assert store.rejections.totals() == {}

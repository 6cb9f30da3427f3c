"""Tasks over HTTP: lists, one of them, its result, waiting for it, and acting on it."""

import threading
import time

import pytest

from dtq_engine.model import DeadLetter, Succeed
from tests.store.hand import Hand, error
from tests.support.waiting import wait_until
from tests.web.conftest import client_of

TASKS = "/api/v1/tasks"


@pytest.fixture
def hand(store):
    """A worker that moves only when told to."""
    return Hand(store)


def pages(api, address):
    """The pages that `Link` leads through."""
    while address:
        answer = api.get(address)
        assert answer.status_code == 200, answer.json
        yield answer.json
        link = answer.headers.get("Link")
        address = link and link.partition(">")[0].removeprefix("<")


def test_a_list_is_walked_by_its_links_with_the_filters_kept(api, hand):
    hand.submit(*(f"t{number}" for number in range(25)))
    hand.submit("x1", type="other")
    found = [task["id"] for page in pages(api, f"{TASKS}?type=mail&limit=10") for task in page["tasks"]]
    assert sorted(found) == sorted(f"t{number}" for number in range(25))


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", {"done", "waits", "later", "elsewhere"}),
        ("?status=succeeded", {"done"}),
        ("?status=pending", {"later"}),
        ("?queue=other", {"elsewhere"}),
        ("?type=nothing", set()),
        ("?status=queued&queue=default", {"waits"}),
    ],
)
def test_tasks_are_listed_by_status_queue_and_type(api, hand, store, query, ids):
    hand.end(hand.start("done"))
    hand.submit("waits")
    hand.submit("later", delay_ms=60_000)
    Hand(store, queue="other").submit("elsewhere")
    assert {task["id"] for task in api.get(TASKS + query).json["tasks"]} == ids


@pytest.mark.parametrize(
    ("query", "parameter", "says"),
    [
        ("limit=0", "limit", ">= 1"),
        ("limit=201", "limit", "<= 200"),
        ("limit=ten", "limit", "int"),
        ("limit=1&limit=2", "limit", "more than once"),
        ("stats=queued", "stats", "did you mean status?"),
        ("status=done", "status", "'cancelled' or 'expired', not 'done'"),
        ("queue=No", "queue", "lower-case letters"),
        ("queue=default%0A", "queue", "lower-case letters"),
        ("type=%00", "type", "1 to 128 letters"),
    ],
)
def test_a_parameter_that_is_wrong_is_named(api, query, parameter, says):
    answer = api.get(f"{TASKS}?{query}")
    assert (answer.status_code, answer.json["code"], answer.json["parameter"]) == (400, "INVALID_PARAMETER", parameter)
    assert says in answer.json["detail"]


@pytest.mark.parametrize("path", ["tasks", "dlq", "events", "audit"])
@pytest.mark.parametrize("cursor", ["x", "z", "e30x", "zeJyr", "eyJkZWZhdWx0IjotMX0", "eyJkZWZhdWx0IjoiXCJ4In0"])
def test_a_cursor_that_is_not_ours_is_refused(api, hand, path, cursor):
    hand.submit("t1")
    answer = api.get(f"/api/v1/{path}?cursor={cursor}")
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_CURSOR")


@pytest.mark.parametrize("task_id", ["nothing", "x" * 65, "a b", "%00", "ä"])
def test_a_task_that_is_not_there_is_a_404(api, task_id):
    for call in (api.get(f"{TASKS}/{task_id}"), api.post(f"{TASKS}/{task_id}/cancel")):
        assert (call.status_code, call.json["code"]) == (404, "TASK_NOT_FOUND")


def test_a_result_is_202_until_the_task_has_ended(api, hand):
    hand.submit("t1")
    answer = api.get(f"{TASKS}/t1/result")
    assert (answer.status_code, answer.json["status"], answer.headers["Retry-After"]) == (202, "queued", "1")
    hand.end(hand.claim_one("t1"), Succeed(b'{"pages": 12}'))
    answer = api.get(f"{TASKS}/t1/result")
    assert (answer.status_code, answer.json["status"], answer.json["result"]) == (200, "succeeded", {"pages": 12})


def test_the_result_of_a_task_that_failed_says_why(api, hand):
    hand.end(hand.start("t1"), DeadLetter(error("no such file", "OSError"), "permanent"))
    answer = api.get(f"{TASKS}/t1/result").json
    assert (answer["status"], answer["error"], answer["reason"]) == (
        "dead_lettered",
        "OSError: no such file",
        "permanent",
    )


@pytest.mark.alone
def test_waiting_ends_as_soon_as_the_task_does(api, web, hand):
    hand.submit("t1")
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(client_of(web, "submit").get(f"{TASKS}/t1?wait=30")))
    waiter.start()
    wait_until(lambda: hand.store.connection.client.pubsub_numsub(*channels(hand))[0][1])
    began = time.monotonic()
    hand.end(hand.claim_one("t1"), Succeed(b"1"))
    waiter.join(10)
    assert time.monotonic() - began < 1.0
    assert answers[0].json["status"] == "succeeded"


def channels(hand):
    """The channel that ends are told on, by any process of this test's."""
    connection = hand.store.connection.client
    wanted = hand.store.keys.done_channel("").encode()
    found = wait_until(lambda: [name for name in connection.pubsub_channels() if name.startswith(wanted)])
    return [name.decode() for name in found if not name.endswith(b"*")]


def test_waiting_ends_with_the_time_that_was_given(api, hand):
    hand.submit("t1")
    answer = api.get(f"{TASKS}/t1?wait=0.05")
    assert (answer.status_code, answer.json["status"]) == (200, "queued")


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "soon"])
def test_nobody_waits_longer_than_a_minute(api, hand, wait):
    hand.submit("t1")
    assert api.get(f"{TASKS}/t1?wait={wait}").status_code == 400


def test_no_more_may_wait_than_leave_threads_for_the_rest(make_web, hand):
    web = make_web(web_threads=4)
    hand.submit("t1", "t2")
    waiter = threading.Thread(target=lambda: client_of(web, "submit").get(f"{TASKS}/t1?wait=30"))
    waiter.start()
    channels(hand)
    api = client_of(web, "submit")
    answer = api.get(f"{TASKS}/t2?wait=0.01")
    assert (answer.status_code, answer.json["code"], answer.headers["Retry-After"]) == (503, "TOO_MANY_WAITERS", "5")
    assert api.get(f"{TASKS}/t2").status_code == 200
    hand.end(hand.claim_one("t1"))
    waiter.join(10)
    assert api.get(f"{TASKS}/t2?wait=0.01").status_code == 200


def test_whoever_waits_is_answered_when_the_process_ends(make_web, hand):
    web = make_web()
    hand.submit("t1")
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(client_of(web, "submit").get(f"{TASKS}/t1?wait=60")))
    waiter.start()
    channels(hand)
    web.extensions["dtq"].stopping.set()
    waiter.join(10)
    assert answers[0].json["status"] == "queued"


def test_what_waits_is_cancelled_at_once_and_what_runs_is_asked(api, hand):
    hand.submit("t1")
    claim = hand.claim_one("t1")
    hand.submit("t2")
    answers = [api.post(f"{TASKS}/{task_id}/cancel", json={"reason": "twice"}) for task_id in ("t1", "t2", "t2")]
    assert [answer.status_code for answer in answers] == [202, 200, 409]
    assert [answer.json.get("outcome") for answer in answers] == ["requested", "cancelled", None]
    assert hand.task("t2").reason == "twice"
    hand.end(claim)


def test_a_delayed_task_can_be_run_now_and_given_another_priority(api, hand):
    hand.submit("t1", delay_ms=60_000)
    assert api.post(f"{TASKS}/t1/reprioritise", json={"priority": 9}).status_code == 200
    assert api.post(f"{TASKS}/t1/run-now").status_code == 200
    assert api.post(f"{TASKS}/t1/run-now").json["code"] == "INVALID_TRANSITION"
    assert (hand.status("t1"), hand.task("t1").priority) == ("queued", 9)


def test_a_task_that_died_lives_again(api, hand):
    hand.end(hand.start("t1"), DeadLetter(error(), "permanent"))
    assert api.post(f"{TASKS}/t1/requeue?queue=default", json={"reason": "mended"}).status_code == 200
    assert hand.status("t1") == "queued"
    assert api.post(f"{TASKS}/t1/requeue").status_code == 409


@pytest.mark.parametrize("body", [{"priority": 10}, {"priority": "high"}, {}, {"priority": 1, "why": "x"}])
def test_the_body_of_a_verb_is_read_as_strictly_as_a_task(api, hand, body):
    hand.submit("t1")
    answer = api.post(f"{TASKS}/t1/reprioritise", json=body)
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_BODY")


def test_what_was_done_is_in_the_audit_log_with_the_request(api, hand):
    hand.submit("t1")
    api.post(f"{TASKS}/t1/cancel", json={"reason": "ordered twice"}, headers={"X-Request-ID": "r-7"})
    (action,) = api.get("/api/v1/audit").json["actions"]
    assert {name: action[name] for name in ("action", "target", "actor", "reason", "count")} == {
        "action": "cancel",
        "target": "t1",
        "actor": "admin-program",
        "reason": "ordered twice",
        "count": 1,
    }
    assert action["request"].startswith("r-7:")


def test_two_calls_with_one_request_id_are_two_calls(api, store):
    """The id is the caller's, who may send the same with all their calls."""
    store.workers.register_queue("default")
    for verb in ("pause", "resume", "pause"):
        api.post(f"/api/v1/queues/default/{verb}", headers={"X-Request-ID": "always"})
    assert api.get("/api/v1/queues/default").json["paused"] is True


def test_a_request_id_that_is_well_formed_is_given_back(api):
    given = {
        sent: api.get("/health", headers={"X-Request-ID": sent}).headers["X-Request-ID"] for sent in ("r-7", "a b")
    }
    assert given["r-7"] == "r-7"
    assert given["a b"] not in {"a b", ""}

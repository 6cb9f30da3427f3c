"""Queues, dead letters, workers, events, numbers."""

import pytest

from dtq_engine.model import DeadLetter, Succeed
from tests.store.hand import Hand, error, info

API = "/api/v1"


@pytest.fixture
def hand(store):
    """A worker that moves only when told to."""
    return Hand(store, types=("mail", "other"))


def died(hand, *ids, type="mail"):
    """Dead letters of these tasks."""
    for task_id in ids:
        hand.end(hand.start(task_id, type=type), DeadLetter(error(f"no {task_id}"), "permanent"))


def test_a_queue_is_shown_in_numbers(api, hand):
    hand.submit("t1", "t2")
    hand.submit("t3", delay_ms=60_000)
    claim = hand.claim_one("t1")
    queue = api.get(f"{API}/queues/default").json
    assert (queue["depth"], queue["waiting"], queue["running"], queue["delayed"]) == (3, 1, 1, 1)
    assert api.get(f"{API}/queues").json["queues"] == [queue | {"oldest_waiting_at": queue["oldest_waiting_at"]}]
    hand.end(claim)


@pytest.mark.parametrize("name", ["defalt", "x" * 100, "Ä", "a b"])
def test_a_queue_that_is_not_there_is_a_404(api, hand, name):
    hand.submit("t1")
    for answer in (api.get(f"{API}/queues/{name}"), api.post(f"{API}/queues/{name}/pause")):
        assert (answer.status_code, answer.json["code"]) == (404, "QUEUE_NOT_FOUND")


def test_the_nearest_queue_is_named(api, hand):
    hand.submit("t1")
    assert "did you mean default?" in api.get(f"{API}/queues/defalt").json["detail"]


def test_a_queue_is_paused_for_a_time_and_resumed(api, hand, clock):
    hand.submit("t1")
    api.post(f"{API}/queues/default/pause", json={"reason": "upgrade", "for_seconds": 60})
    queue = api.get(f"{API}/queues/default").json
    assert (queue["paused"], queue["pause_reason"]) == (True, "upgrade")
    clock.advance(61, ttls=True)
    assert api.get(f"{API}/queues/default").json["paused"] is False
    api.post(f"{API}/queues/default/pause")
    api.post(f"{API}/queues/default/resume")
    assert api.get(f"{API}/queues/default").json["paused"] is False


def test_a_purge_cancels_what_waits_and_says_how_many(api, hand):
    hand.submit(*(f"t{number}" for number in range(150)))
    hand.submit("later", delay_ms=60_000)
    assert api.post(f"{API}/queues/default/purge", json={"reason": "wrong"}).json["cancelled"] == 150
    assert api.post(f"{API}/queues/default/purge", json={"delayed": True}).json["cancelled"] == 1
    actions = api.get(f"{API}/audit").json["actions"]
    assert {action["action"] for action in actions} == {"purge"}
    assert sum(action["count"] for action in actions) == 151


def test_dead_letters_are_listed_and_filtered(api, hand):
    died(hand, "a", "b", "c")
    died(hand, "x", type="other")
    page = api.get(f"{API}/dlq?limit=3").json
    assert [letter["id"] for letter in page["dead_letters"]] == ["x", "c", "b"]
    assert page["dead_letters"][0]["error"] == "ValueError: no x"
    rest = api.get(f"{API}/dlq?limit=3&cursor={page['cursor']}").json
    assert ([letter["id"] for letter in rest["dead_letters"]], rest["cursor"]) == (["a"], None)
    assert [letter["id"] for letter in api.get(f"{API}/dlq?type=other").json["dead_letters"]] == ["x"]


def test_a_dead_letter_lives_again_or_is_gone(api, hand):
    died(hand, "a", "b")
    assert api.post(f"{API}/dlq/a/requeue").json["outcome"] == "requeued"
    assert api.post(f"{API}/dlq/b/discard", json={"reason": "test"}).json["outcome"] == "discarded"
    assert hand.status("a") == "queued"
    assert api.get(f"{API}/tasks/b").status_code == 404
    assert api.post(f"{API}/dlq/b/discard").status_code == 404
    assert api.get(f"{API}/dlq").json["dead_letters"] == []


def test_dead_letters_are_requeued_by_filter_a_part_at_a_time(api, hand):
    died(hand, *(f"t{number}" for number in range(5)))
    died(hand, "x", type="other")
    answers = [api.post(f"{API}/dlq/requeue", json={"type": "mail", "limit": 3}).json for _ in range(2)]
    assert [(answer["done"], answer["complete"]) for answer in answers] == [(3, False), (2, True)]
    assert [letter["id"] for letter in api.get(f"{API}/dlq").json["dead_letters"]] == ["x"]


def test_a_dead_letter_that_cannot_be_requeued_is_named_and_does_not_stop_the_others(api, hand):
    hand.end(hand.start("t1", idempotency_key="k"), DeadLetter(error(), "permanent"))
    hand.store.connection.client.delete(hand.store.keys.idempotency("default", "k"))
    hand.submit("t2", idempotency_key="k")
    answer = api.post(f"{API}/dlq/requeue", json={"all": True}).json
    assert (answer["done"], [refusal["code"] for refusal in answer["refused"]]) == (0, ["IDEMPOTENCY_CONFLICT"])


@pytest.mark.parametrize("path", ["dlq/requeue", "dlq/purge"])
@pytest.mark.parametrize("body", [{}, {"all": False}, {"reason": "oops"}])
def test_all_dead_letters_are_never_meant_by_chance(api, hand, path, body):
    died(hand, "a")
    answer = api.post(f"{API}/{path}", json=body)
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_FILTER")


def test_dead_letters_are_purged_by_filter(api, hand):
    died(hand, "a", "b")
    assert api.post(f"{API}/dlq/purge", json={"queue": "default"}).json["done"] == 2
    assert api.get(f"{API}/dlq").json["dead_letters"] == []


def test_workers_are_shown_as_they_describe_themselves(api, store):
    store.workers.beat(info("w1"), 60)
    (worker,) = api.get(f"{API}/workers").json["workers"]
    assert (worker["id"], worker["queues"], worker["concurrency"]) == ("w1", ["q1", "q2"], 10)
    assert (worker["memory_kib"], worker["overdue"]) == (None, 0)
    store.workers.beat(info("w1", memory_kib=2048, overdue=3), 60)
    (worker,) = api.get(f"{API}/workers").json["workers"]
    assert (worker["memory_kib"], worker["overdue"]) == (2048, 3)


def test_events_are_listed_newest_first_and_walked_by_cursors(api, hand, store):
    hand.submit(*(f"t{number}" for number in range(7)))
    hand.end(hand.claim_one("t0"))
    Hand(store, queue="other").submit("x")
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(f"{API}/events?limit=3" + (f"&cursor={cursor}" if cursor else "")).json
        found += [(event["type"], event["task_id"]) for event in page["events"]]
        cursor = page["cursor"]
    ids = [f"t{number}" for number in reversed(range(7))]
    found.remove(("TASK_QUEUED", "x"))  # which may have happened in the same millisecond as another
    assert found == [
        ("TASK_SUCCEEDED", "t0"),
        ("TASK_STARTED", "t0"),
        *(("TASK_QUEUED", task_id) for task_id in ids),
    ]


@pytest.mark.parametrize(
    ("query", "number"), [("task_id=t0", 3), ("type=TASK_STARTED", 1), ("queue=default", 4), ("queue=nothing", 0)]
)
def test_events_are_filtered(api, hand, query, number):
    hand.submit("t0", "t1")
    hand.end(hand.claim_one("t0"))
    assert len(api.get(f"{API}/events?{query}").json["events"]) == number


def test_events_of_workers_and_queues_are_listed(api, store):
    store.workers.register_queue("default")
    store.crew.started("default", "w1", "l1")
    store.control.pause("default")
    (event,) = api.get(f"{API}/events?worker_id=w1").json["events"]
    assert (event["type"], event["worker_id"], event["task_id"], event["attempt"]) == (
        "WORKER_STARTED",
        "w1",
        None,
        None,
    )
    (event,) = api.get(f"{API}/events?type=CONFIGURATION_CHANGED").json["events"]
    assert (event["detail"], event["task_type"]) == ("pause", None)


def test_actions_are_walked_by_cursors(api, store):
    for queue in ("a", "b"):
        store.workers.register_queue(queue)
        for number in range(3):
            store.control.pause(queue, actor="ada", reason=str(number))
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(f"{API}/audit?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
        found += [(action["queue"], action["reason"]) for action in page["actions"]]
        cursor = page["cursor"]
    assert [reason for queue, reason in found if queue == "a"] == ["2", "1", "0"]
    assert [reason for queue, reason in found if queue == "b"] == ["2", "1", "0"]


def test_all_numbers_are_found_in_one_place(api, hand, store):
    store.workers.beat(info("w1", concurrency=4, in_flight=1), 60)
    hand.end(hand.start("t1"), Succeed(None))
    hand.submit("t2")
    Hand(store, queue="other").submit("x")
    stats = api.get(f"{API}/stats").json
    assert (stats["queues"], stats["depth"], stats["waiting"], stats["workers"], stats["slots"]) == (2, 2, 2, 1, 4)
    counts = {(each["queue"], each["type"]): each["counts"] for each in stats["totals"]}
    assert counts["default", "mail"]["submitted"] == 2
    assert counts["default", "mail"]["succeeded"] == 1

"""Limits over HTTP: as they stand, set, cleared; and tasks that are submitted there keep to them."""

import logging

import pytest

from dtq_engine import TaskSchema
from dtq_engine.limits import Declared, Limit, Numbers
from dtq_engine.store import Store
from tests.store.hand import Hand, ids, info
from tests.web.conftest import client_of

API = "/api/v1"


@pytest.fixture
def hand(store: Store) -> Hand:
    """A worker that has two limits, and a task for which two others wait."""
    store.workers.register_queue("default")
    limits = (Limit("stripe", Numbers(1)), Limit("account", Numbers(1, 100, 60_000)))
    store.limits.declare("default", Declared(limits, {"stripe": "default", "account": "default"}))
    hand = Hand(store)
    hand.submit("a", "b", "c", limits=("stripe",))
    hand.claim()
    return hand


def test_limits_are_listed_as_they_stand(api, hand):
    (account, stripe) = api.get(f"{API}/limits").json["limits"]
    assert (stripe["name"], stripe["max_running"], stripe["running"], stripe["waiting"]) == ("stripe", 1, 1, 2)
    assert (account["rate_starts"], account["rate_ms"]) == (100, 60_000)
    assert api.get(f"{API}/queues/default/limits").json == api.get(f"{API}/limits").json
    assert api.get(f"{API}/queues/nowhere/limits").status_code == 404


def test_a_limit_is_set_and_cleared(api, hand):
    answer = api.post(f"{API}/queues/default/limits/stripe/set", json={"max_running": 3, "reason": "a calm day"})
    assert answer.json == {"queue": "default", "name": "stripe", "outcome": "set"}
    assert sorted(ids(hand.claim())) == ["b", "c"]
    body = {"rate": {"starts": 5, "seconds": 1.5}, "max_running": "none"}
    assert api.post(f"{API}/queues/default/limits/*/set", json=body).status_code == 200
    (whole,) = [each for each in api.get(f"{API}/limits").json["limits"] if each["name"] == "*"]
    assert (whole["rate_starts"], whole["rate_ms"], whole["max_running"], whole["set"]) == (5, 1500, None, True)
    assert api.post(f"{API}/queues/default/limits/stripe/clear").json["outcome"] == "cleared"
    assert api.post(f"{API}/queues/default/limits/stripe/clear").json["code"] == "LIMIT_NOT_FOUND"


def test_the_log_line_of_a_limit_that_is_set_names_its_queue(api, hand, caplog):
    caplog.set_level(logging.INFO)
    for verb, body in (("set", {"max_running": 3}), ("clear", {})):
        assert api.post(f"{API}/queues/default/limits/stripe/{verb}", json=body).status_code == 200
    told = [record.queue for record in caplog.records if hasattr(record, "path")]
    assert told == ["default", "default"]


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("strip", {"max_running": 1}, 404, "LIMIT_NOT_FOUND"),
        ("stripe", {}, 400, "INVALID_LIMIT"),
        ("stripe", {"max_running": 0}, 400, "INVALID_BODY"),
        ("stripe", {"max_running": True}, 400, "INVALID_BODY"),
        ("stripe", {"rate": {"starts": 1, "seconds": 0}}, 400, "INVALID_BODY"),
        ("stripe", {"rate": 5}, 400, "INVALID_BODY"),
    ],
    ids=repr,
)
def test_what_cannot_be_is_refused(api, hand, name, body, status, code):
    answer = api.post(f"{API}/queues/default/limits/{name}/set", json=body)
    assert (answer.status_code, answer.json["code"]) == (status, code)


def test_the_page_of_a_queue_shows_its_limits(web, hand):
    page = client_of(web, "viewer").get("/queues/default", headers={"Accept": "text/html"}).text
    assert "stripe" in page
    assert "the whole queue" not in page


def test_what_was_done_to_a_limit_leads_to_its_queue_and_to_no_task(api, hand):
    api.post(f"{API}/queues/default/limits/stripe/set", json={"max_running": 3})
    page = api.get("/activity", headers={"Accept": "text/html"}).text
    assert "/queues/default#limits-title" in page
    assert "/tasks/stripe" not in page


def test_a_task_that_is_submitted_here_keeps_to_the_limits_of_its_type(api, store, hand):
    defaults = {"queue": "default", "priority": 5, "keep_result": True, "restartable": False, "expires_in_ms": None}
    limits = [{"name": "account", "key": ["account"], "otherwise": [None]}]
    schema = TaskSchema(type="mail", digest="d1", parameters={}, result={}, defaults={**defaults, "limits": limits})
    store.schemas.publish([schema])
    store.workers.beat(info("w1", types=("mail",), schemas={"mail": "d1"}), 60)
    for name, account in (("x", 7), ("y", 7), ("z", 8)):
        body = {"type": "mail", "id": name, "payload": {"account": account}}
        assert api.post(f"{API}/tasks", json=body).status_code == 202
    assert sorted(ids(hand.claim())) == ["x", "z"]
    assert store.inspect.get("y", queue="default").reason == "limit:account/7"
    refused = api.post(f"{API}/tasks", json={"type": "mail", "payload": {"account": None}})
    assert (refused.status_code, refused.json["field"]) == (400, "account")
    elsewhere = api.post(f"{API}/tasks", json={"type": "mail", "payload": {"account": 7}, "queue": "other"})
    assert (elsewhere.status_code, elsewhere.json["field"]) == (400, "queue")

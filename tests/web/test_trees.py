"""Workflows over HTTP and on a task's page."""

import pytest

from dtq_engine import workflow
from dtq_engine.model import DeadLetter, NewTask, Parent
from tests.store.hand import Hand, error

TASKS = "/api/v1/tasks"


@pytest.fixture
def hand(store):
    """A worker that moves only when told to."""
    return Hand(store)


@pytest.fixture
def flow(store):
    """Two tasks, one behind the other, in two queues."""
    first = NewTask(id="first", type="mail")
    then = NewTask(id="then", type="mail", queue="far", after=(Parent("first", "default"),))
    for batch in workflow.batches([first, then]):
        store.intake.submit(batch)


def test_the_tree_of_a_task_is_answered(api, flow):
    answer = api.get(f"{TASKS}/then/tree")
    assert (answer.status_code, [node["id"] for node in answer.json["nodes"]]) == (200, ["then", "first"])
    assert answer.json["nodes"][0]["parents"] == [{"id": "first", "queue": "default"}]
    assert api.get(f"{TASKS}/then/tree?limit=1").json["complete"] is False
    assert api.get(f"{TASKS}/ghost/tree").status_code == 404
    assert api.get(f"{TASKS}/then/tree?limit=0").status_code == 400


def test_a_task_may_be_submitted_to_wait_for_others(api, hand, store):
    hand.submit("first")
    answer = api.post(TASKS, json={"type": "mail", "id": "then", "after": ["first"]})
    assert answer.status_code == 202, answer.json
    assert hand.status("then") == "blocked"
    anyway = {"type": "mail", "id": "anyway", "after": ["first"], "on_parent_failure": "run"}
    assert api.post(TASKS, json=anyway).status_code == 202
    hand.end(hand.claim_one("first"), DeadLetter(error(), "max_attempts"))
    assert (hand.status("then"), hand.status("anyway")) == ("cancelled", "queued")


def test_what_it_shall_wait_for_must_be_there(api):
    answer = api.post(TASKS, json={"type": "mail", "after": ["ghost"]})
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_TASK")
    assert "ghost" in answer.json["detail"]


def test_a_tasks_page_shows_the_workflow_that_it_is_part_of(api, flow, hand):
    hand.submit("alone")
    shown = api.get("/tasks/then?queue=far", headers={"Accept": "text/html"}).text
    assert "Workflow" in shown
    assert "/tasks/first?queue=default" in shown
    assert "Workflow" not in api.get("/tasks/alone", headers={"Accept": "text/html"}).text


def test_what_to_do_if_a_parent_fails_is_refused_without_a_parent(api):
    answer = api.post("/api/v1/tasks", json={"type": "mail", "on_parent_failure": "run"})
    assert (answer.status_code, answer.json["field"]) == (400, "on_parent_failure")
    assert "name some" in answer.json["detail"]

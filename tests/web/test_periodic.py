"""Periodic tasks over HTTP: listed as the command line lists them, paused, resumed, and run out of turn."""

import logging

import pytest

from dtq_engine import TaskSchema
from dtq_engine.periodic import Definition
from dtq_engine.store import Store
from dtq_engine.worker.ticker import Ticker
from tests.store.hand import info

API = "/api/v1"
NIGHTLY = Definition(name="night/ly", type="mail", cron="0 3 * * *", payload='{"to":"ann","token":"sesame"}')


@pytest.fixture(autouse=True)
def nightly(store: Store):
    """A worker that has a periodic task, whose token nobody may see; and another queue."""
    schema = TaskSchema(type="mail", digest="d1", parameters={}, result={}, defaults={"redact": ["token"]})
    store.schemas.publish([schema])
    store.agenda.publish([NIGHTLY])
    periodic = {NIGHTLY.name: NIGHTLY.digest}
    store.workers.beat(info("w1", types=("mail",), schemas={"mail": "d1"}, periodic=periodic), 60)
    store.workers.register_queue("other")
    ticker = Ticker(store)
    ticker.take_over()
    ticker.turn("default")
    yield
    store.control.purge("default")


def act(api, verb, queue="default", name="night/ly", **body):
    return api.post(f"{API}/queues/{queue}/periodic/{name}/{verb}", json=body)


def listed(api):
    (found,) = api.get(f"{API}/periodic").json["periodic"]
    return found


def test_periodic_tasks_are_listed_with_what_a_reader_may_see(as_role):
    found = listed(as_role("operator"))
    assert (found["name"], found["queue"], found["cron"], found["paused"]) == (
        "night/ly",
        "default",
        "0 3 * * *",
        False,
    )
    assert found["arguments"] == {"to": "ann", "token": "***"}
    assert listed(as_role("viewer"))["arguments"] is None


def test_a_periodic_task_is_paused_and_resumed(api, caplog):
    caplog.set_level(logging.INFO)
    paused = act(api, "pause", reason="the warehouse moves")
    assert paused.json == {"name": "night/ly", "outcome": "paused", "task_id": None}
    assert (listed(api)["paused"], listed(api)["pause_reason"]) == (True, "the warehouse moves")
    assert act(api, "resume").json["outcome"] == "resumed"
    assert listed(api)["paused"] is False
    verbs = [record.verb for record in caplog.records if hasattr(record, "verb")]
    assert verbs == ["api.periodic.pause", "api.periodic.resume"]


def test_a_periodic_task_is_run_now(api, store):
    answer = act(api, "trigger", reason="last night's failed")
    assert answer.json["outcome"] == "triggered"
    assert store.inspect.get(answer.json["task_id"], queue="default").type == "mail"


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger"])
def test_who_and_what_does_not_fit_is_refused(api, as_role, verb):
    assert act(as_role("viewer"), verb).status_code == 403
    assert act(as_role("operator"), verb).status_code == 200
    for queue, name, code in (
        ("default", "nope", "PERIODIC_NOT_FOUND"),
        ("other", "night/ly", "PERIODIC_NOT_FOUND"),
        ("nowhere", "night/ly", "QUEUE_NOT_FOUND"),
    ):
        answer = act(api, verb, queue=queue, name=name)
        assert (answer.status_code, answer.json["code"]) == (404, code)
    assert act(api, verb, why="no such field").status_code == 400

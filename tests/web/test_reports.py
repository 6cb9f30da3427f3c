"""Progress and log lines over HTTP and on the task's page, for whom they are, and live."""

import pytest

from dtq_engine import EventFeed
from dtq_engine.model import AttemptError, DeadLetter, Reschedule, Said
from dtq_engine.store.events import EventType
from dtq_engine.store.progress import pack_line
from tests.store.hand import QUEUE, Hand
from tests.support.waiting import wait_until
from tests.web.conftest import client_of
from webapp.events.query import Mode, Query

HTML = {"Accept": "text/html"}


@pytest.fixture
def hand(store):
    return Hand(store)


def say(store, claim, *messages, progress=None, first=1):
    """Report lines, from a number on, and progress."""
    lines = tuple(
        (number, pack_line(1_000, level, "shop", message, 4096))
        for number, (level, message) in enumerate(messages, first)
    )
    store.reports.report(QUEUE, [(claim, Said(progress, lines))])


@pytest.fixture
def told(store, hand):
    """A task whose first attempt said something, and whose second one does."""
    claim = hand.start("t", payload=b'{"card":"4111-1111"}')
    say(store, claim, ("INFO", "one"), ("ERROR", "two <b> \x1b[31m 4111-1111"))
    hand.end(claim, Reschedule(AttemptError("ValueError", "no"), 0))
    again = hand.claim_one("t")
    say(store, again, ("WARNING", "three"), first=6, progress=(30, 60, "at 4111-1111", 2_000))
    return again


def test_a_task_has_its_progress(api, told):
    assert api.get("/api/v1/tasks/t").json["progress"] == {
        "done": 30.0,
        "total": 60.0,
        "percent": 50.0,
        "note": "at 4111-1111",
        "attempt": 2,
        "at": "1970-01-01T00:00:02.000Z",
    }


def test_a_task_that_said_nothing_has_none(api, hand):
    hand.submit("t")
    assert api.get("/api/v1/tasks/t").json["progress"] is None
    assert api.get("/api/v1/tasks/t/logs").json == {"lines": [], "cursor": 0, "hidden": False}


def test_log_lines_are_read_page_by_page(api, told):
    page = api.get("/api/v1/tasks/t/logs?limit=2").json
    assert [(line["number"], line["missing"], line["level"]) for line in page["lines"]] == [
        (1, 0, "INFO"),
        (2, 0, "ERROR"),
    ]
    rest = api.get(f"/api/v1/tasks/t/logs?after={page['cursor']}").json
    assert [(line["number"], line["missing"], line["message"]) for line in rest["lines"]] == [(8, 5, "three")]
    assert api.get(f"/api/v1/tasks/t/logs?after={rest['cursor']}").json == {"lines": [], "cursor": 8, "hidden": False}
    assert [line["attempt"] for line in api.get("/api/v1/tasks/t/logs?attempt=2").json["lines"]] == [2]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=1001", "attempt=x", "lines=1"])
def test_what_no_page_can_be_is_named(api, told, query):
    answer = api.get(f"/api/v1/tasks/t/logs?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_PARAMETER")


def test_logs_of_a_task_that_is_not_there_are_not_found(api):
    assert api.get("/api/v1/tasks/nobody/logs").json["code"] == "TASK_NOT_FOUND"


def test_who_sees_no_payloads_sees_neither_lines_nor_notes(web, told):
    viewer = client_of(web, "viewer")
    assert viewer.get("/api/v1/tasks/t/logs").json == {"lines": [], "cursor": 8, "hidden": True}
    assert viewer.get("/api/v1/tasks/t").json["progress"]["note"] == ""
    page = viewer.get("/tasks/t", headers=HTML).text
    assert "three" not in page
    assert "4111" not in page


def test_values_that_a_type_redacts_are_in_no_line_and_no_note(web, api, told, monkeypatch):
    catalog = web.extensions["dtq"].catalog
    monkeypatch.setattr(type(catalog), "redacted", lambda *_: ("card",))
    for path in ("/api/v1/tasks/t", "/api/v1/tasks/t/logs"):
        assert "4111" not in api.get(path).text
    assert "4111" not in api.get("/tasks/t", headers=HTML).text


def test_the_page_of_a_task_shows_how_far_it_is_and_its_lines_by_attempt(api, told):
    page = api.get("/tasks/t", headers=HTML).text
    assert '<progress max="100" value="50.0"' in page
    assert "30 of 60 (50 %)" in page
    assert page.rindex("Attempt 1</h3>") < page.index("two &lt;b&gt; \\u001b[31m") < page.rindex("Attempt 2</h3>")
    assert "5 lines are gone" in page
    assert "style=" not in page


@pytest.mark.keeps_keys
def test_the_page_stands_a_log_that_is_something_else(api, told, store, client):
    client.set(store.keys.logs(QUEUE, "t"), "junk")
    assert api.get("/tasks/t", headers=HTML).status_code == 200


def test_a_requeue_may_begin_anew(api, store, hand):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    hand.end(claim, DeadLetter(AttemptError("ValueError", "no"), "permanent"))
    assert api.post("/api/v1/tasks/t/requeue", json={"keep_steps": False}).status_code == 200
    assert hand.claim_one("t").saved == {}


def test_progress_is_told_live_without_a_number_and_is_in_no_log(store, hand):
    claim = hand.start("t")
    feed = EventFeed(store.connection, store.keys, store.events, store.inspect.queues)
    while feed.next(0.05):
        pass
    feed.next(0.3)
    say(store, claim, ("INFO", "one"), progress=(3, 9, "", 5))
    (event,) = wait_until(lambda: feed.next(0.1))
    assert (event.type, event.task_id, event.event_id, event.detail) == (EventType.TASK_PROGRESS, "t", -1, "3/9")
    assert EventType.TASK_PROGRESS not in [each.type for each in store.events.tail(QUEUE, 10)]
    hand.end(claim)
    assert wait_until(lambda: feed.next(0.1))[0].type == "TASK_SUCCEEDED"
    feed.close()
    assert Query(task_ids=frozenset("t"), mode=Mode.DIGEST).wants(event)
    assert Query(events=frozenset({"TASK_PROGRESS"})).wants(event)
    assert not Query().wants(event)
    assert not Query(types=frozenset({"mail"})).wants(event)


def test_the_page_of_a_task_shows_what_was_saved_and_requeues_without_it(api, store, hand):
    claim = hand.start("t")
    store.steps.save(claim, "s<b>charge", b"1")
    store.steps.save(claim, "omail-7", b"1")
    store.steps.save(claim, "c", b"7")
    hand.end(claim, DeadLetter(AttemptError("ValueError", "no"), "permanent"))
    page = api.get("/tasks/t", headers=HTML).text
    for words in ("&lt;b&gt;charge", "1 thing done once", "A checkpoint", "without what it saved"):
        assert words in page
    form = {"verb": "requeue", "task": f"{QUEUE}/t", "anew": "1"}
    assert api.post("/tasks/act", data=form).status_code == 303
    assert hand.claim_one("t").saved == {}
    assert "without what it saved" not in api.get("/tasks/t", headers=HTML).text


def test_a_requeue_from_the_page_keeps_what_was_saved(api, store, hand):
    claim = hand.start("t")
    store.steps.save(claim, "scharge", b"1")
    hand.end(claim, DeadLetter(AttemptError("ValueError", "no"), "permanent"))
    assert api.post("/tasks/act", data={"verb": "requeue", "task": f"{QUEUE}/t"}).status_code == 303
    assert hand.claim_one("t").saved == {"scharge": b"1"}


@pytest.mark.keeps_keys
def test_the_page_stands_saved_steps_that_are_something_else(api, told, store, client):
    client.set(store.keys.steps(QUEUE, "t"), "junk")
    assert api.get("/tasks/t", headers=HTML).status_code == 200

"""What readers may see: payloads by role, and never what a task type has redacted."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq
from dtq_engine.model import DeadLetter, Succeed
from tests.store.hand import Hand, error, info

TASKS = "/api/v1/tasks"
CARD = "4111-1111-1111-1111"
PAYLOAD = json.dumps({"card": CARD, "order": {"card": CARD, "pin": 7}, "to": "ada"}).encode()


@pytest.fixture
def publish(settings, store):
    """Have a living worker publish the handlers that `register(app)` makes."""
    apps = []

    def publish(register, name="w1"):
        app = Dtq(settings)
        apps.append(app)
        register(app)
        schemas = app.registry.schemas()
        store.workers.beat(replace(info(name), types=tuple(schemas), schemas=schemas), 60)
        store.schemas.publish(app.registry.published())

    yield publish
    for app in apps:
        app.close()


def charge(app):
    """The type `mail`, which shows no card."""

    @app.task("mail", redact=("card", "pin"), queue="default")
    def mail(card: str, order: dict[str, Any], to: str) -> dict[str, Any]:
        return order


def test_payloads_results_and_errors_are_kept_from_viewers(as_role, store):
    hand = Hand(store)
    hand.end(hand.start("t1", payload=PAYLOAD), Succeed(b'"secret result"'))
    hand.end(hand.start("t2", payload=PAYLOAD), DeadLetter(error("secret message"), "permanent"))
    viewer = as_role("viewer")
    for path in (f"{TASKS}/t1", f"{TASKS}/t2", f"{TASKS}/t1/result", f"{TASKS}/t2/result", TASKS, "/api/v1/dlq"):
        text = viewer.get(path).text
        assert "secret" not in text
        assert CARD not in text
    assert viewer.get(f"{TASKS}/t1").json["hidden"] is True
    assert viewer.get(f"{TASKS}/t2").json["errors"][0]["type"] == "ValueError"
    assert as_role("submit").get(f"{TASKS}/t1").json["payload"]["to"] == "ada"


def test_viewers_see_payloads_where_the_settings_allow_it(make_web, store):
    Hand(store).submit("t1", payload=PAYLOAD)
    web = make_web(api_keys=("v:viewer:" + "v" * 20,), viewers_see_payloads=True)
    answer = web.test_client().get(f"{TASKS}/t1", headers={"Authorization": f"Bearer {'v' * 20}"}).json
    assert (answer["payload"]["to"], answer["hidden"]) == ("ada", False)


def test_redacted_values_are_shown_to_nobody_wherever_they_turn_up(api, store, publish):
    publish(charge)
    hand = Hand(store)
    hand.end(hand.start("t1", payload=PAYLOAD), DeadLetter(error(f"card {CARD} was declined"), "permanent"))
    hand.end(hand.start("t2", payload=PAYLOAD), Succeed(json.dumps({"card": CARD, "ok": True}).encode()))
    hand.end(hand.start("t3", payload=PAYLOAD), Succeed(json.dumps([f"paid by {CARD}", {CARD: 7}]).encode()))
    for path in ("t1", "t1/result", "t2", "t2/result", "t3", "t3/result", "", "../dlq"):
        assert CARD not in api.get(f"{TASKS}/{path}".replace("tasks/../", "").rstrip("/")).text
    task = api.get(f"{TASKS}/t1").json
    assert task["payload"] == {"card": "***", "order": {"card": "***", "pin": "***"}, "to": "ada"}
    assert task["errors"][0]["message"] == "card *** was declined"
    assert api.get(f"{TASKS}/t2/result").json["result"] == {"card": "***", "ok": True}
    assert api.get(f"{TASKS}/t3/result").json["result"] == ["paid by ***", {"***": 7}]


def test_redacted_values_stay_so_when_the_workers_are_gone(api, store, publish):
    publish(charge)
    store.workers.leave("w1")
    Hand(store).submit("t1", payload=PAYLOAD)
    assert api.get(f"{TASKS}/t1").json["payload"]["card"] == "***"


def test_a_result_that_was_cut_off_is_not_shown_at_all_where_something_is_redacted(api, store, publish):
    publish(charge)
    hand = Hand(store)
    hand.end(hand.start("t1"), Succeed(f'{{"card": "{CARD}", "lo'.encode(), 9000))
    answer = api.get(f"{TASKS}/t1/result").json
    assert (answer["result"], answer["result_preview"]) == (None, '"***"')


def test_a_payload_is_judged_by_what_workers_have_published(api, publish):
    publish(charge)
    answers = {
        json.dumps(payload): api.post(TASKS, json={"type": "mail", "payload": payload})
        for payload in (
            {"card": CARD, "order": {}, "to": "ada"},
            {"card": 4111, "order": {}, "to": "ada"},
            {"card": CARD, "order": {}},
            {"card": CARD, "order": {}, "to": "ada", "orderr": {}},
        )
    }
    found = [(answer.status_code, answer.json.get("field")) for answer in answers.values()]
    assert found == [(202, None), (400, "payload.card"), (400, "payload.to"), (400, "payload.orderr")]
    details = [answer.json["detail"] for answer in answers.values() if answer.status_code == 400]
    assert "mail needs the argument to: pass it." in details
    assert "mail has no argument orderr; did you mean order?" in details
    assert next(iter(answers.values())).json["warnings"] == []


def test_a_type_is_as_unique_by_the_api_as_in_python(api, publish, settings):
    def mail_once(app):
        @app.task("mail", unique="until_done", unique_key=("to",))
        def mail(to: str, subject: str = "") -> None: ...

        return mail

    publish(mail_once)
    first = api.post(TASKS, json={"type": "mail", "payload": {"to": "ada"}}).json
    app = Dtq(settings)
    again = mail_once(app).submit("ada", "Hello")
    app.close()
    assert (again.id, again.outcome) == (first["id"], "duplicate")
    third = api.post(TASKS, json={"type": "mail", "payload": {"to": "ada", "subject": "Bye"}}).json
    assert (third["id"], third["outcome"]) == (first["id"], "duplicate")
    assert api.post(TASKS, json={"type": "mail", "payload": {"to": "ada"}, "unique": "no"}).json["outcome"] == "new"


def test_where_a_function_makes_the_key_it_has_to_be_given(api, publish):
    def mail_once(app):
        @app.task("mail", unique="until_done", unique_key=lambda to: to.lower())
        def mail(to: str) -> None: ...

    publish(mail_once)
    answer = api.post(TASKS, json={"type": "mail", "payload": {"to": "Ada"}})
    assert (answer.status_code, answer.json["field"]) == (400, "unique_key")
    assert api.post(TASKS, json={"type": "mail", "payload": {"to": "Ada"}, "unique_key": "ada"}).status_code == 202


def test_what_a_refusal_says_does_not_repeat_what_is_redacted(api, publish):
    publish(charge)
    answer = api.post(TASKS, json={"type": "mail", "payload": {"card": [CARD], "order": {}, "to": "ada"}})
    assert answer.status_code == 400
    assert CARD not in answer.text


def test_while_releases_differ_a_payload_has_to_fit_one_of_them(api, publish):
    def old(app):
        @app.task("mail")
        def mail(to: str) -> None: ...

    def new(app):
        @app.task("mail")
        def mail(to: list[str]) -> None: ...

    publish(old, "w1")
    publish(new, "w2")
    statuses = [api.post(TASKS, json={"type": "mail", "payload": {"to": to}}).status_code for to in ("ada", ["ada"], 7)]
    assert statuses == [202, 202, 400]


def test_what_a_type_decides_for_its_tasks_holds_for_those_posted(api, store, publish):
    def register(app):
        @app.task("mail", queue="post", priority=8, max_attempts=2, timeout=5, keep_result=False)
        def mail() -> None: ...

    publish(register)
    answer = api.post(TASKS, json={"type": "mail", "priority": 3}).json
    task = store.inspect.get(answer["id"])
    assert (task.queue, task.priority, task.retry.max_attempts, task.timeout_ms) == ("post", 3, 2, 5000)


def test_the_types_are_published_to_whoever_submits(as_role, publish):
    publish(charge)
    (published,) = as_role("submit").get("/api/v1/types").json["types"]
    assert published["type"] == "mail"
    assert published["parameters"]["properties"]["card"] == {"type": "string"}
    assert published["workers"] == ["w1"]

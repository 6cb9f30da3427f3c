"""POST /api/v1/tasks and /tasks/batch: what is accepted, what is refused, and how that is said."""

import json
import threading
from collections import Counter
from dataclasses import replace

import pytest
from werkzeug.test import EnvironBuilder, run_wsgi_app

from dtq_engine import Dtq
from tests.store.hand import Hand
from webapp import create_app

TASKS = "/api/v1/tasks"


def post(api, **task):
    return api.post(TASKS, json={"type": "mail"} | task)


def raw(api, body, **headers):
    return api.post(TASKS, data=body, headers={"Content-Type": "application/json"} | headers)


def test_a_new_task_is_answered_with_202_and_its_place(api):
    answer = post(api, payload={"to": "ada"})
    assert answer.status_code == 202
    assert answer.json["status"] == "queued"
    assert answer.json["duplicate"] is False
    found = api.get(answer.headers["Location"])
    assert found.json["payload"] == {"to": "ada"}


def test_a_server_may_leave_out_what_is_empty(web, api):
    """As PEP 3333 says of these three."""
    words = {"HTTP_AUTHORIZATION": api.environ_base["HTTP_AUTHORIZATION"], "CONTENT_TYPE": "application/json"}
    environ = EnvironBuilder(path=TASKS, method="POST", data=b'{"type": "mail"}', environ_overrides=words).get_environ()
    for name in ("SCRIPT_NAME", "QUERY_STRING", "CONTENT_LENGTH"):
        del environ[name]
    environ["wsgi.input_terminated"] = True
    body, status, headers = run_wsgi_app(web, environ, buffered=True)
    assert (status, headers["Location"].partition("?")[0].rpartition("/")[0]) == ("202 ACCEPTED", TASKS)
    assert json.loads(b"".join(body))["status"] == "queued"


def test_the_worker_gets_what_was_posted_to_the_last_digit(api, store):
    body = b'{"type": "mail", "payload": {"big": 123456789012345678901234567890, "exact": 1.10}}'
    task_id = raw(api, body).json["id"]
    assert store.inspect.get(task_id).payload == b'{"big":123456789012345678901234567890,"exact":1.10}'


def test_all_that_a_task_may_say_reaches_its_record(api, store):
    answer = post(
        api,
        id="t1",
        queue="night",
        priority=9,
        delay_seconds=60,
        expires_in_seconds=120,
        timeout_seconds=1.5,
        max_attempts=3,
        idempotency_key="k1",
        metadata={"tenant": "7"},
    )
    assert answer.json["status"] == "pending"
    task = store.inspect.get("t1", queue="night")
    assert (task.priority, task.timeout_ms, task.retry.max_attempts) == (9, 1500, 3)
    assert task.due_ms - task.created_ms == 60_000
    assert (task.idempotency_key, task.headers) == ("k1", {"tenant": "7"})


def test_a_task_may_say_when_it_is_due(api):
    task_id = post(api, run_at="2030-01-01T12:00:00+02:00").json["id"]
    assert api.get(f"{TASKS}/{task_id}").json["due_at"] == "2030-01-01T10:00:00.000Z"


@pytest.mark.parametrize("header", ["k1", '"k1"'])
def test_the_key_in_the_header_wins_and_may_be_quoted(api, header):
    answers = [
        api.post(TASKS, json={"type": "mail", "idempotency_key": key}, headers={"Idempotency-Key": header})
        for key in ("a", "b")
    ]
    assert [answer.status_code for answer in answers] == [202, 200]
    assert answers[1].json == answers[0].json | {"duplicate": True, "warnings": [], "outcome": "duplicate"}


def test_a_repeated_id_is_answered_with_the_same_task(api):
    assert [post(api, id="t1").status_code for _ in range(2)] == [202, 200]


def test_a_key_whose_task_has_ended_still_answers_with_it(api, store):
    hand = Hand(store)
    post(api, id="t1", idempotency_key="k1")
    hand.end(hand.claim_one("t1"))
    answer = post(api, idempotency_key="k1")
    assert (answer.status_code, answer.json["id"], answer.json["status"]) == (200, "t1", "succeeded")


def test_a_key_used_for_something_else_is_a_mismatch(api):
    post(api, payload={"to": "ada"}, idempotency_key="k1")
    answer = post(api, payload={"to": "bob"}, idempotency_key="k1")
    assert (answer.status_code, answer.json["code"]) == (422, "IDEMPOTENCY_MISMATCH")


def test_a_repeated_key_is_a_conflict_where_the_settings_say_so(make_web):
    api = make_web(open=True, idem_conflict="reject").test_client()
    post(api, idempotency_key="k1")
    answer = post(api, idempotency_key="k1")
    assert (answer.status_code, answer.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")


@pytest.mark.parametrize("header", ["", '""', "x" * 256, "tab\there", "ümlaut"])
def test_a_key_that_cannot_be_one_is_refused(api, header):
    answer = api.post(TASKS, json={"type": "mail"}, headers={"Idempotency-Key": header})
    assert (answer.status_code, answer.json["field"]) == (400, "Idempotency-Key")


def test_fifty_threads_with_one_key_make_one_task(web, api):
    answers = []

    def submit():
        with web.test_client() as client:
            headers = {"Idempotency-Key": "k1", "Authorization": api.environ_base["HTTP_AUTHORIZATION"]}
            answers.append(client.post(TASKS, json={"type": "mail"}, headers=headers))

    threads = [threading.Thread(target=submit) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(answer.status_code for answer in answers) == {200: 49, 202: 1}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert api.get("/api/v1/queues/default").json["depth"] == 1


def deep(levels):
    return b'{"type": "mail", "payload": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        (b"", 400, "EMPTY_BODY", "empty"),
        (b"{", 400, "INVALID_JSON", "its end is missing"),
        (b"[]", 400, "INVALID_TASK", "expected object"),
        (b"null", 400, "INVALID_TASK", "expected object"),
        (b"{}", 400, "INVALID_TASK", "lacks the field type"),
        (b'{"type": "mail", "type": "post"}', 400, "INVALID_JSON", "'type' twice"),
        (b'{"type": "mail", "payload": {"a": {"b": 1, "b": 2}}}', 400, "INVALID_JSON", "'b' twice"),
        (b'{"type": "mail", "payload": {"a": NaN}}', 400, "INVALID_JSON", "NaN"),
        (b'{"type": "mail", "payload": {"a": -Infinity}}', 400, "INVALID_JSON", "-Infinity"),
        (b'{"type": "mail", "payload": {"a": 1e999}}', 400, "INVALID_TASK", "1e999"),
        (b'{"type": "mail", "priority": 1e999}', 400, "INVALID_JSON", "1e999"),
        (b'{"type": "mail", "priority": ' + b"9" * 10_000 + b"}", 400, "INVALID_JSON", "out of range"),
        (b'{"type": "mail", "payload": {"a": ' + b"9" * 10_000 + b"}}", 400, "INVALID_TASK", "out of range"),
        (deep(300), 400, "INVALID_JSON", "nested"),
        (deep(100_000), 400, "INVALID_JSON", "nested"),
        (b'{"type": "mail", "payload": {"a": "\\ud800"}}', 400, "INVALID_JSON", "surrogate"),
        (b'{"type": "\\udfff"}', 400, "INVALID_JSON", "surrogate"),
        (b'{"type": "ma\x00il"}', 400, "INVALID_JSON", "invalid"),
        (b'{"type": "mail\\u0000"}', 400, "INVALID_TASK", "type"),
        (b'{"type": "mail\\n"}', 400, "INVALID_TASK", "type"),
        (b'{"type": "mail", "payload": {"a": "\xff"}}', 400, "INVALID_JSON", "UTF-8"),
        ('{"type": "mail"}'.encode("utf-16"), 400, "INVALID_JSON", "not JSON"),
        (b'{"type": "mail", "queue": "default\\n"}', 400, "INVALID_TASK", "queue"),
        (b'{"type": "mail", "payload": []}', 400, "INVALID_TASK", "expected object"),
        (b'{"type": "mail", "payload": null}', 400, "INVALID_TASK", "expected object"),
        (b'{"type": "mail", "priority": 10}', 400, "INVALID_TASK", "<= 9"),
        (b'{"type": "mail", "priority": true}', 400, "INVALID_TASK", "got bool"),
        (b'{"type": "mail", "delay_seconds": -1}', 400, "INVALID_TASK", ">= 0"),
        (b'{"type": "mail", "run_at": "2030-01-01T00:00:00"}', 400, "INVALID_TASK", "timezone"),
        (b'{"type": "mail", "run_at": "9999-01-01T00:00:00Z"}', 400, "INVALID_TASK", "run_at"),
        (b'{"type": "mail", "run_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}', 400, "INVALID_TASK", "exclude"),
        (b'{"type": "mail", "timeout_ms": 1, "timeout_seconds": 1}', 400, "INVALID_TASK", "exclude"),
        (b'{"type": "mail", "metadata": {"a": 1}}', 400, "INVALID_TASK", "expected str"),
        (b'{"type": "mail", "payloads": {}}', 400, "INVALID_TASK", "did you mean payload?"),
        (b'{"type": "mail", "payload": {"a": "' + b"x" * 262_144 + b'"}}', 413, "PAYLOAD_TOO_LARGE", "262144"),
        (b'{"type": "mail", "metadata": {"a": "' + b"x" * 5000 + b'"}}', 413, "PAYLOAD_TOO_LARGE", "4096"),
    ],
)
def test_what_cannot_be_accepted_is_said_in_a_sentence(api, body, status, code, says):
    answer = raw(api, body)
    assert answer.mimetype == "application/problem+json"
    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert says in answer.json["detail"]
    assert answer.json["request_id"] == answer.headers["X-Request-ID"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "text/plain"}, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Content-Type": ""}, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Content-Type": "application/json; charset=latin-1"}, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Content-Encoding": "gzip"}, "UNSUPPORTED_ENCODING"),
        ({"Content-Encoding": "br"}, "UNSUPPORTED_ENCODING"),
    ],
)
def test_only_plain_json_is_read(api, headers, code):
    answer = raw(api, b'{"type": "mail"}', **headers)
    assert (answer.status_code, answer.json["code"]) == (415, code)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=UTF-8", "application/vnd.shop+json"])
def test_json_may_be_named_in_several_ways(api, kind):
    assert raw(api, b'{"type": "mail"}', **{"Content-Type": kind}).status_code == 202


def test_a_body_over_16_mib_is_refused(api):
    answer = raw(api, b'{"type": "mail", "payload": {"a": "' + b"x" * (16 * 1024 * 1024) + b'"}}')
    assert (answer.status_code, answer.json["code"]) == (413, "BODY_TOO_LARGE")


def test_a_full_queue_says_when_to_come_again(make_web, store, clock):
    api = make_web(open=True, max_queue_depth=4).test_client()
    hand = Hand(store)
    for _ in range(6):
        post(api)
        hand.end(hand.claim_one())
    assert [post(api).status_code for _ in range(4)] == [202] * 4
    answer = post(api)
    assert (answer.status_code, answer.json["code"]) == (429, "QUEUE_FULL")
    # Four wait, and six ended within the last minute.
    assert answer.headers["Retry-After"] == "40"
    assert answer.json["retry_after"] == 40


def test_far_off_tasks_do_not_lengthen_what_a_full_queue_says(make_web, store):
    api = make_web(open=True, max_queue_depth=3).test_client()
    hand = Hand(store)
    post(api)
    hand.end(hand.claim_one())
    answers = [post(api), post(api, delay_seconds=7200), post(api, delay_seconds=7200), post(api)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert answers[-1].headers["Retry-After"] == "60"


def test_a_batch_is_answered_item_by_item_in_its_order(api):
    tasks = [
        {"type": "mail", "id": "a"},
        {"typ": "mail"},
        {"type": "mail", "queue": "other", "id": "b"},
        {"type": "mail", "id": "a"},
        {"type": "mail", "priority": 11},
        17,
        {"type": "mail", "id": "c"},
    ]
    answer = api.post(f"{TASKS}/batch", json={"tasks": tasks})
    assert answer.status_code == 200
    assert (answer.json["accepted"], answer.json["refused"]) == (4, 3)
    ids = [item["task"]["id"] if item["task"] else item["problem"]["field"] for item in answer.json["items"]]
    assert ids == ["a", "typ", "b", "a", "priority", "body", "c"]
    assert answer.json["items"][3]["task"]["duplicate"] is True


def test_a_batch_of_a_thousand_is_accepted_and_one_more_is_not(api):
    answer = api.post(f"{TASKS}/batch", json={"tasks": [{"type": "mail"}] * 1000})
    assert answer.json["accepted"] == 1000
    answer = api.post(f"{TASKS}/batch", json={"tasks": [{"type": "mail"}] * 1001})
    assert (answer.status_code, answer.json["field"]) == (400, "tasks")
    assert api.post(f"{TASKS}/batch", json={"tasks": []}).status_code == 400


def test_a_batch_that_is_ambiguous_is_refused_as_a_whole(api):
    body = b'{"tasks": [{"type": "mail", "type": "post"}, {"type": "mail"}]}'
    answer = api.post(f"{TASKS}/batch", data=body, content_type="application/json")
    assert (answer.status_code, answer.json["code"]) == (400, "INVALID_JSON")


def test_a_full_queue_refuses_the_rest_of_a_batch(make_web):
    api = make_web(open=True, max_queue_depth=2).test_client()
    answer = api.post(f"{TASKS}/batch", json={"tasks": [{"type": "mail"}] * 3})
    assert [item["problem"] and item["problem"]["code"] for item in answer.json["items"]] == [None, None, "QUEUE_FULL"]
    assert answer.json["items"][2]["problem"]["retry_after"] == 60


def test_a_batch_has_no_key_of_its_own(api):
    answer = api.post(f"{TASKS}/batch", json={"tasks": [{"type": "mail"}]}, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 400


def test_a_type_that_nobody_has_published_is_accepted_with_a_warning(api):
    answer = post(api)
    assert answer.status_code == 202
    assert "No living worker knows the type mail" in answer.json["warnings"][0]


def test_an_app_that_has_handlers_itself_decides_by_them_while_no_worker_lives(settings):
    app = Dtq(replace(settings, open=True))
    app.task("mail", queue="post")(lambda to="ada": None)
    try:
        api = create_app(app).test_client()
        answer = post(api)
        assert (answer.json["queue"], answer.json["warnings"]) == (
            "post",
            ["No living worker knows the type mail: it waits for one."],
        )
        assert "did you mean to?" in post(api, payload={"too": 1}).json["detail"]
    finally:
        app.close()


def test_problems_hold_no_traceback(api):
    assert "Traceback" not in json.dumps(raw(api, b"{").json)


def test_a_unique_task_is_answered_with_200_and_the_one_that_stands_for_it(api):
    first = post(api, unique="until_done", unique_key="account 7")
    again = post(api, unique="until_done", unique_key="account 7", payload={"to": "bob"})
    assert (first.status_code, first.json["outcome"], first.json["duplicate"]) == (202, "new", False)
    assert (again.status_code, again.json["outcome"], again.json["duplicate"]) == (200, "duplicate", True)
    assert again.json["id"] == first.json["id"]
    found = api.get(first.headers["Location"]).json
    assert (found["unique"], found["debounced"]) == ("until_done", False)


def test_no_more_are_accepted_than_a_throttle_lets_pass(api):
    answers = [post(api, at_most=1, per_seconds=60) for _ in range(3)]
    assert [(each.status_code, each.json["outcome"]) for each in answers] == [
        (202, "new"),
        (200, "throttled"),
        (200, "throttled"),
    ]


def test_a_debounced_task_becomes_what_was_sent_last(api, store):
    first = post(api, debounce_seconds=60, debounce_max_seconds=90, unique_key="k", payload={"n": 1})
    again = post(api, debounce_seconds=60, debounce_max_seconds=90, unique_key="k", payload={"n": 2})
    assert (again.status_code, again.json["outcome"], again.json["status"]) == (200, "replaced", "pending")
    assert store.inspect.get(first.json["id"]).payload == b'{"n":2}'


def test_a_batch_says_of_each_task_what_became_of_it(api):
    tasks = [{"type": "mail", "unique": "waiting"}, {"type": "mail", "unique": "waiting"}, {"type": "mail"}]
    answer = api.post(f"{TASKS}/batch", json={"tasks": tasks}).json
    assert [item["task"]["outcome"] for item in answer["items"]] == ["new", "duplicate", "new"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"unique": "always"}, "unique"),
        ({"unique_key": "k"}, "unique_key"),
        ({"unique": "waiting", "unique_key": ""}, "unique_key"),
        ({"at_most": 1}, "at_most"),
        ({"at_most": 0, "per_seconds": 1}, "at_most"),
        ({"at_most": 1, "per_seconds": -1}, "per_seconds"),
        ({"debounce_seconds": 5, "unique": "waiting"}, "debounce_seconds"),
        ({"debounce_seconds": 5, "delay_seconds": 5}, "debounce_seconds"),
        ({"debounce_seconds": 5, "debounce_max_seconds": 1}, "debounce_max_seconds"),
    ],
)
def test_what_makes_no_sense_of_tasks_that_are_alike_is_named(api, fields, field):
    answer = post(api, **fields)
    assert (answer.status_code, answer.json["code"], answer.json["field"]) == (400, "INVALID_TASK", field)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"at_most": 1}, "at_most", "at_most and per_seconds say"),
        ({"debounce_max_seconds": 5}, "debounce_max_seconds", "debounce_max_seconds bounds debounce_seconds"),
        ({"debounce_seconds": 5, "unique": "waiting"}, "debounce_seconds", "debounce_seconds excludes"),
        ({"unique_key": "headers"}, "unique_key", "or debounce_seconds too"),
        ({"metadata": {"a": "x" * 5000}}, "metadata", "metadata take"),
        ({"expires_in_seconds": 1, "delay_seconds": 5}, "expires_in_seconds", "expires_in_seconds must be more"),
        ({"unique": "always"}, "unique", "'until_done' or 'waiting', not 'always'"),
        ({"after": ["t1", "no id"]}, "after[1]", "1 to 64 letters"),
        ({"run_at": "9999-01-01T00:00:00Z"}, "run_at", "1970 to ten years from now"),
        ({"run_at": "0001-01-01T00:00:00Z"}, "run_at", "1970 to ten years from now"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_named_as_it_was_sent(api, fields, field, words):
    problem = api.post("/api/v1/tasks", json={"type": "mail", **fields}).json
    assert (problem["field"], words in problem["detail"]) == (field, True), problem
    (item,) = api.post("/api/v1/tasks/batch", json={"tasks": [{"type": "mail", **fields}]}).json["items"]
    assert item["problem"]["detail"] == problem["detail"]

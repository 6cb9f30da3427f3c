"""What every answer carries, what every request leaves in the log, and what an outage or a fault looks like."""

import json
import logging
import time
from urllib.parse import quote

import pytest
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from dtq_engine.embedded import free_port
from dtq_engine.logs import JsonLines, TextLines
from tests.web.conftest import KEYS, client_of

PATHS = ["/health", "/ready", "/api/v1/queues", "/api/v1/nowhere", "/api/v1/tasks/x", "/metrics"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_tells_browsers_to_be_careful(api, path):
    headers = api.get(path).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Request-ID"]
    assert "Strict-Transport-Security" not in headers


def test_over_https_browsers_are_told_to_stay_there(api):
    assert api.get("/health", base_url="https://localhost").headers["Strict-Transport-Security"]


def test_behind_proxies_https_is_seen_only_if_they_are_trusted(make_web):
    headers = {"X-Forwarded-Proto": "https"}
    trusting, other = make_web(trusted_proxies=1).test_client(), make_web().test_client()
    assert "Strict-Transport-Security" in trusting.get("/health", headers=headers).headers
    assert "Strict-Transport-Security" not in other.get("/health", headers=headers).headers


def test_a_fault_of_the_web_process_is_a_problem_without_a_traceback(make_web, monkeypatch, caplog):
    web = make_web()
    monkeypatch.setattr("webapp.api.queues.shapes", lambda names: 1 / 0)
    answer = client_of(web, "admin").get("/api/v1/queues", headers={"X-Request-ID": "r-7"})
    assert (answer.status_code, answer.json["code"], answer.json["request_id"]) == (500, "INTERNAL_ERROR", "r-7")
    assert "ZeroDivision" not in answer.text
    assert "request r-7 failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/api/v1/tasks", 405),
        ("GET", "/api/v2/tasks", 404),
        # A redirect would be followed with the key, perhaps to an address without TLS.
        ("GET", "/api/v1//tasks", 404),
        ("POST", "/api//v1/tasks", 404),
    ],
)
def test_what_is_not_there_is_a_problem_too(api, method, path, status):
    answer = api.open(path, method=method)
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")


def test_the_log_names_who_did_what_and_no_query(api, store, caplog):
    store.workers.register_queue("default")
    caplog.set_level(logging.INFO)
    api.post("/api/v1/queues/default/pause", json={"reason": "secret reason"}, headers={"X-Request-ID": "r-7"})
    api.get("/api/v1/queues?token=secret")
    api.get("/api/v1/queues")
    lines = [record for record in caplog.records if record.name == "dtq.web"]
    assert [line.status for line in lines] == [200, 400]
    assert lines[0].request_id == "r-7"
    assert lines[0].actor == "admin-program"
    assert "POST /api/v1/queues/default/pause 200" in lines[0].getMessage()
    assert "secret" not in caplog.text


def test_the_log_of_a_submit_names_its_task(api, caplog):
    caplog.set_level(logging.DEBUG, logger="dtq.web")
    task_id = api.post("/api/v1/tasks", json={"type": "mail", "payload": {"a": "secret"}}).json["id"]
    (record,) = [record for record in caplog.records if record.name == "dtq.web"]
    assert json.loads(JsonLines().format(record))["task_id"] == task_id
    assert f"task_id {task_id}" in TextLines().format(record)
    assert "secret" not in caplog.text


def test_no_line_can_be_forged_by_an_address(api, caplog):
    caplog.set_level(logging.INFO)
    api.get("/api/v1/x%0A2026-01-01T00:00:00.000Z%20INFO%20forged")
    (record,) = [record for record in caplog.records if record.name == "dtq.web"]
    assert "\n" not in record.getMessage()


@pytest.mark.alone
def test_while_redis_is_away_it_is_said_within_two_seconds_and_over_when_it_is_back(make_web, own_server):
    client = client_of(make_web(redis_url=own_server.url), "admin")
    calls = [
        lambda: client.post("/api/v1/tasks", json={"type": "mail"}),
        lambda: client.get("/api/v1/queues"),
        lambda: client.get("/api/v1/tasks/x?wait=5"),
        lambda: client.get("/ready"),
    ]
    assert [call().status_code for call in calls] == [202, 200, 404, 200]
    own_server.stop()
    for call in calls:
        began = time.monotonic()
        answer = call()
        assert (answer.status_code, answer.json["code"]) == (503, "REDIS_UNAVAILABLE")
        assert answer.headers["Retry-After"] == "2"
        assert time.monotonic() - began < 2.5
    assert client.get("/health").status_code == 200
    own_server.start()
    assert [call().status_code for call in calls] == [202, 200, 404, 200]


def test_whoever_asks_whether_it_is_ready_does_not_learn_where_redis_is(make_web):
    answer = make_web(redis_url=f"redis://127.0.0.1:{free_port()}/0").test_client().get("/ready")
    assert answer.status_code == 503
    assert "127.0.0.1" not in answer.text


@pytest.mark.parametrize("place", ["/tasks-admin", "/aufträge/λ"])
def test_it_can_be_mounted_under_a_path_of_another_app(web, store, place):
    host = Flask("host")
    host.wsgi_app = DispatcherMiddleware(host.wsgi_app, {place.encode().decode("latin-1"): web})  # type: ignore[method-assign]
    client = Client(host.wsgi_app)
    headers = {"Authorization": f"Bearer {KEYS['admin']}"}
    written = quote(place)
    answer = client.post(f"{place}/api/v1/tasks", json={"type": "mail"}, headers=headers)
    assert answer.headers["Location"].startswith(f"{written}/api/v1/tasks/")
    assert client.get(answer.headers["Location"], headers=headers).status_code == 200
    client.post(f"{place}/api/v1/tasks", json={"type": "mail"}, headers=headers)
    link = client.get(f"{place}/api/v1/tasks?limit=1", headers=headers).headers["Link"]
    assert link.startswith(f"<{written}/api/v1/tasks?limit=1&cursor=")
    described = client.get(f"{place}/api/v1/openapi.json", headers=headers).json
    assert described["servers"] == [{"url": f"{written}/api/v1"}]


def test_making_it_opens_no_connection(make_web):
    make_web(redis_url=f"redis://127.0.0.1:{free_port()}/0")

"""Who may do what: keys, people, proxies, and those who say nothing."""

import hashlib
import logging

import argon2
import pytest

from tests.store.hand import Hand
from tests.web.conftest import KEYS, client_of
from webapp.rights import allowed_by

HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse battery staple"
SECRET = "s" * 32

# One call for each right; the roles that hold it.
CALLS = [
    ("POST", "/api/v1/tasks", {"submit", "operator", "admin"}),
    ("POST", "/api/v1/tasks/batch", {"submit", "operator", "admin"}),
    ("GET", "/api/v1/tasks", {"viewer", "operator", "admin"}),
    ("GET", "/api/v1/tasks/t1", {"submit", "viewer", "operator", "admin"}),
    ("GET", "/api/v1/tasks/t1/result", {"submit", "viewer", "operator", "admin"}),
    ("GET", "/api/v1/tasks/t1/logs", {"submit", "viewer", "operator", "admin"}),
    ("GET", "/api/v1/tasks/t1/tree", {"viewer", "operator", "admin"}),
    ("POST", "/api/v1/tasks/t1/cancel", {"submit", "operator", "admin"}),
    ("POST", "/api/v1/tasks/t1/run-now", {"operator", "admin"}),
    ("POST", "/api/v1/tasks/t1/requeue", {"operator", "admin"}),
    ("POST", "/api/v1/tasks/t1/reprioritise", {"operator", "admin"}),
    ("GET", "/api/v1/queues", {"viewer", "operator", "admin"}),
    ("GET", "/api/v1/queues/default", {"viewer", "operator", "admin"}),
    ("POST", "/api/v1/queues/default/pause", {"operator", "admin"}),
    ("POST", "/api/v1/queues/default/resume", {"operator", "admin"}),
    ("POST", "/api/v1/queues/default/purge", {"admin"}),
    ("GET", "/api/v1/limits", {"viewer", "operator", "admin"}),
    ("GET", "/api/v1/queues/default/limits", {"viewer", "operator", "admin"}),
    ("POST", "/api/v1/queues/default/limits/l1/set", {"operator", "admin"}),
    ("POST", "/api/v1/queues/default/limits/l1/clear", {"operator", "admin"}),
    ("GET", "/api/v1/periodic", {"viewer", "operator", "admin"}),
    ("POST", "/api/v1/queues/default/periodic/l1/pause", {"operator", "admin"}),
    ("POST", "/api/v1/queues/default/periodic/l1/resume", {"operator", "admin"}),
    ("POST", "/api/v1/queues/default/periodic/l1/trigger", {"operator", "admin"}),
    ("GET", "/api/v1/workers", {"viewer", "operator", "admin"}),
    ("GET", "/api/v1/types", {"submit", "viewer", "operator", "admin"}),
    ("GET", "/api/v1/dlq", {"viewer", "operator", "admin"}),
    ("POST", "/api/v1/dlq/t1/requeue", {"operator", "admin"}),
    ("POST", "/api/v1/dlq/t1/discard", {"admin"}),
    ("POST", "/api/v1/dlq/requeue", {"operator", "admin"}),
    ("POST", "/api/v1/dlq/purge", {"admin"}),
    ("GET", "/api/v1/stats", {"viewer", "operator", "admin", "metrics"}),
    ("GET", "/api/v1/events", {"viewer", "operator", "admin"}),
    ("GET", "/api/v1/audit", {"operator", "admin"}),
    ("GET", "/api/v1/openapi.json", {"submit", "viewer", "operator", "admin", "metrics"}),
]


@pytest.mark.parametrize(("method", "path", "roles"), CALLS, ids=[f"{method} {path}" for method, path, _ in CALLS])
def test_each_call_is_for_the_roles_that_are_written_down(as_role, method, path, roles):
    statuses = {role: as_role(role).open(path, method=method).status_code for role in KEYS}
    assert {role for role, status in statuses.items() if status != 403} == roles
    assert as_role(None).open(path, method=method).status_code == 401


def test_the_table_of_calls_is_complete(web):
    known = {(method, path) for method, path, _ in CALLS}
    for rule in web.url_map.iter_rules():
        if rule.rule.startswith("/api/"):
            path = rule.rule.replace("<path:", "<")
            path = path.replace("<task_id>", "t1").replace("<queue>", "default").replace("<name>", "l1")
            assert {(method, path) for method in rule.methods - {"HEAD", "OPTIONS"}} <= known


def test_only_the_probes_and_signing_in_are_public(web):
    public = {name for name, view in web.view_functions.items() if allowed_by(view) == ()}
    beside_pages = {name for name in public if not name.startswith("pages.")}
    assert beside_pages == {"probes.health", "probes.ready", "login.sign_in", "login.sign_out"}


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "", "Basic dTpw", f"Basic {KEYS['admin']}"])
def test_a_wrong_key_is_told_how_to_be_right(web, header):
    answer = web.test_client().get("/api/v1/queues", headers={"Authorization": header})
    assert (answer.status_code, answer.json["code"]) == (401, "UNAUTHORIZED")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_key_may_be_given_as_its_hash(make_web):
    key = "k" * 24
    web = make_web(api_keys=(f"shop:viewer:sha256${hashlib.sha256(key.encode()).hexdigest()}",))
    assert web.test_client().get("/api/v1/queues", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_two_keys_of_one_name_may_be_used_while_one_replaces_the_other(make_web):
    web = make_web(api_keys=("shop:viewer:" + "a" * 20, "shop:viewer:" + "b" * 20))
    statuses = [
        web.test_client().get("/api/v1/queues", headers={"Authorization": f"Bearer {letter * 20}"}).status_code
        for letter in "abc"
    ]
    assert statuses == [200, 200, 401]


def test_a_proxy_names_the_person_that_the_audit_log_then_names(make_web, store):
    web = make_web(api_keys=(), users=("ada@example.org:operator:-",), trusted_user_header="X-Forwarded-User")
    store.workers.register_queue("default")
    client = web.test_client()
    headers = {"X-Forwarded-User": "ada@example.org", "Sec-Fetch-Site": "same-origin", "X-Request-ID": "r-1"}
    assert client.post("/api/v1/queues/default/pause", json={"reason": "why not"}, headers=headers).status_code == 200
    (entry,) = store.events.audit("default", 10)
    assert (entry.actor, entry.action, entry.target, entry.reason) == ("ada@example.org", "pause", "default", "why not")
    assert entry.request.startswith("r-1:")


def test_a_person_whom_the_settings_do_not_name_is_refused(make_web):
    web = make_web(api_keys=(), users=("ada:operator:-",), trusted_user_header="X-Forwarded-User")
    assert web.test_client().get("/api/v1/queues", headers={"X-Forwarded-User": "eve"}).status_code == 403
    assert web.test_client().get("/api/v1/queues").status_code == 401


def test_the_header_of_a_proxy_that_is_not_trusted_says_nothing(make_web):
    web = make_web(users=("ada:operator:-",))
    assert web.test_client().get("/api/v1/queues", headers={"X-Forwarded-User": "ada"}).status_code == 401


@pytest.fixture
def people(make_web):
    """A web process for people with passwords."""
    return make_web(api_keys=(), users=(f"ada:operator:{HASHER.hash(PASSWORD)}",), secret_key=SECRET)


SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


def sign_in(client, name="ada", password=PASSWORD, **headers):
    return client.post(
        "/login", json={"name": name, "password": password}, headers=SAME_SITE | headers, base_url="https://localhost"
    )


def test_someone_who_signed_in_is_known_until_they_sign_out(people):
    client = people.test_client()
    answer = sign_in(client)
    assert answer.status_code == 200
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-dtq=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
    assert client.get("/api/v1/queues", base_url="https://localhost").status_code == 200
    assert client.post("/logout", headers=SAME_SITE, base_url="https://localhost").status_code == 200
    assert client.get("/api/v1/queues", base_url="https://localhost").status_code == 401


def test_a_session_ends_when_the_password_changes(make_web):
    old = make_web(api_keys=(), users=(f"ada:operator:{HASHER.hash('old password')}",), secret_key=SECRET)
    client = old.test_client()
    cookie = sign_in(client, password="old password").headers["Set-Cookie"].partition(";")[0]
    assert old.test_client(use_cookies=False).get("/api/v1/queues", headers={"Cookie": cookie}).status_code == 200
    new = make_web(api_keys=(), users=(f"ada:operator:{HASHER.hash('new password')}",), secret_key=SECRET)
    assert new.test_client(use_cookies=False).get("/api/v1/queues", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://localhost"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_with_a_session_only_this_site_may_change_anything(people, store, headers, status):
    store.workers.register_queue("default")
    client = people.test_client()
    sign_in(client)
    url = "/api/v1/queues/default/pause"
    assert client.post(url, headers=headers, base_url="https://localhost").status_code == status


def test_a_key_needs_no_word_about_its_site(as_role, store):
    store.workers.register_queue("default")
    answer = as_role("operator").post("/api/v1/queues/default/pause", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("eve", PASSWORD), ("", ""), ("ada", "")])
def test_a_wrong_password_and_a_wrong_name_are_told_apart_by_nobody(people, name, password):
    answer = sign_in(people.test_client(), name, password)
    assert (answer.status_code, answer.json["code"]) == (401, "WRONG_PASSWORD")


def test_whoever_fails_often_has_to_wait(people):
    client = people.test_client()
    statuses = [sign_in(client, password="wrong").status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    answer = sign_in(client)
    assert (answer.status_code, answer.json["code"]) == (429, "LOGIN_THROTTLED")
    assert 1 <= int(answer.headers["Retry-After"]) <= 2


def test_whoever_fails_often_waits_for_every_web_process(make_web, people):
    other = make_web(api_keys=(), users=(f"ada:operator:{HASHER.hash(PASSWORD)}",), secret_key=SECRET)
    for web in (people, other, people, other, people):
        assert sign_in(web.test_client(), password="wrong").status_code == 401
    answer = sign_in(other.test_client())
    assert (answer.status_code, answer.json["code"]) == (429, "LOGIN_THROTTLED")


def test_a_person_is_held_up_only_where_the_attempts_come_from(people):
    for _ in range(5):
        sign_in(people.test_client(), password="wrong")
    elsewhere = people.test_client()
    elsewhere.environ_base["REMOTE_ADDR"] = "10.0.0.9"
    assert sign_in(elsewhere).status_code == 200


def test_an_address_that_tries_many_names_has_to_wait(people, store):
    for _ in range(19):
        store.logins.miss("from 127.0.0.1", 20)
    assert sign_in(people.test_client(), name="nobody").status_code == 401
    assert sign_in(people.test_client()).status_code == 429


def test_signing_in_lets_a_person_begin_anew(people):
    for _ in range(2):
        for _ in range(4):
            assert sign_in(people.test_client(), password="wrong").status_code == 401
        assert sign_in(people.test_client()).status_code == 200


def test_without_redis_nobody_signs_in(make_web):
    web = make_web(
        api_keys=(),
        users=(f"ada:operator:{HASHER.hash(PASSWORD)}",),
        secret_key=SECRET,
        redis_url="redis://127.0.0.1:1",
    )
    answer = sign_in(web.test_client())
    assert (answer.status_code, answer.json["code"]) == (503, "REDIS_UNAVAILABLE")


def test_another_site_cannot_sign_anybody_in(people):
    assert sign_in(people.test_client(), **{"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_production_without_credentials_answers_only_whether_it_lives(make_web):
    client = make_web(api_keys=(), env="production").test_client()
    assert client.get("/health").status_code == 200
    for path in ("/ready", "/api/v1/queues", "/metrics", "/nowhere"):
        answer = client.get(path)
        assert (answer.status_code, answer.json["code"]) == (503, "NOT_CONFIGURED")
        assert "DTQ_API_KEYS" in answer.json["detail"]


def test_production_that_is_open_is_open(make_web):
    assert make_web(api_keys=(), env="production", open=True).test_client().get("/api/v1/queues").status_code == 200


@pytest.mark.parametrize(
    ("host", "headers", "address"),
    [
        ("example.org", {}, "127.0.0.1"),
        ("127.0.0.1.evil.example", {}, "127.0.0.1"),
        ("localhost:5000", {}, "10.0.0.7"),
        ("localhost:5000", {"X-Forwarded-For": "127.0.0.1"}, "127.0.0.1"),
    ],
)
def test_development_without_credentials_serves_its_own_machine_only(make_web, host, headers, address):
    client = make_web(api_keys=()).test_client()
    assert client.get("/api/v1/queues", headers={"Host": "localhost:5000"}).status_code == 200
    answer = client.get("/api/v1/queues", headers={"Host": host} | headers, environ_base={"REMOTE_ADDR": address})
    assert (answer.status_code, answer.json["code"]) == (503, "NOT_CONFIGURED")


def test_a_page_of_another_site_cannot_act_on_an_open_web_process(make_web):
    client = make_web(api_keys=()).test_client()
    assert client.post("/api/v1/queues/default/pause", headers={"Origin": "https://evil.example"}).status_code == 403


def test_no_key_and_no_password_is_ever_logged(make_web, caplog):
    caplog.set_level(logging.DEBUG)
    web = make_web(users=(f"ada:operator:{HASHER.hash(PASSWORD)}",), secret_key=SECRET)
    client = client_of(web, "admin")
    client.get("/api/v1/queues")
    client.get("/api/v1/nowhere?key=" + KEYS["admin"])
    sign_in(web.test_client())
    sign_in(web.test_client(), password="hunter2hunter2")
    assert "GET /api/v1/queues 200" in caplog.text
    assert not [secret for secret in (*KEYS.values(), PASSWORD, "hunter2hunter2", "argon2") if secret in caplog.text]


PLAIN = {"base_url": "http://dtq.example", "json": {"name": "ada", "password": PASSWORD}}


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_where_a_browser_would_not_keep_the_session_signing_in_says_why(people, accept):
    headers = {"Origin": "http://dtq.example", "Accept": accept}
    answer = people.test_client().post("/login", headers=headers, **PLAIN)
    assert answer.status_code == 403
    assert "https://" in answer.text
    assert "DTQ_TRUSTED_PROXIES" in answer.text
    assert "Set-Cookie" not in answer.headers
    wrong = people.test_client().post("/login", headers=headers, **PLAIN | {"json": {"name": "ada", "password": "x"}})
    assert (wrong.status_code, "password is right" in wrong.text) == (401, False)


@pytest.mark.parametrize(
    ("base_url", "headers"),
    [
        ("http://localhost:8000", {"Origin": "http://localhost:8000"}),
        ("http://127.0.0.1", {"Origin": "http://127.0.0.1"}),
        ("http://[::1]:80", {"Sec-Fetch-Site": "same-origin"}),
        ("https://dtq.example", {"Origin": "https://dtq.example"}),
        ("http://dtq.example", {"Sec-Fetch-Site": "same-origin"}),
    ],
)
def test_where_it_would_keep_it_somebody_can_sign_in(people, base_url, headers):
    answer = people.test_client().post("/login", headers=headers, **PLAIN | {"base_url": base_url})
    assert answer.status_code == 200


def test_a_web_process_that_only_shows_changes_nothing_for_anybody(make_web, store):
    hand = Hand(store)
    hand.submit("a")
    shows = client_of(make_web(read_only=True), "admin")
    for path in ("/api/v1/tasks/a/cancel", "/api/v1/queues/default/pause", "/tasks/act", "/queues/default/purge"):
        answer = shows.post(path, json={})
        assert (answer.status_code, "DTQ_READ_ONLY" in answer.text) == (403, True)
    assert shows.post("/api/v1/tasks", json={"type": "mail"}).status_code == 403
    assert hand.status("a") == "queued"
    for path in ("/tasks", "/tasks/a", "/queues/default", "/dead-letters", "/periodic", "/activity"):
        page = shows.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert not [each for each in ('name="verb"', 'name="task"', 'action="/queues', "/edit") if each in page.text]
        assert "admin, read-only" in page.text

"""The pages as they are sent: for whom, complete, escaped, and true even where what they show is damaged."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from dtq_engine import TaskStatus
from dtq_engine.model import AttemptError, Block, DeadLetter, NewTask, Reschedule
from dtq_engine.periodic import Definition
from dtq_engine.worker.ticker import Ticker
from tests.store.hand import Hand, error, info
from tests.web.conftest import client_of
from webapp.pages.assets import place

PAGES = ["/", "/tasks", "/dead-letters", "/queues", "/workers", "/periodic", "/activity", "/system"]
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PART = HTML | {"HX-Request": "true"}

HOSTILE = "<img src=x onerror=alert(1)>\"' onload=\u202etxt.exe\u2066\x00\x1b[31m {{7*7}} 😀 javascript:alert(1) \ud7ff"
LONG = "x" * 200_000


@pytest.fixture
def hand(store):
    return Hand(store)


@pytest.fixture
def people(web):
    """Clients by role that ask as browsers do."""

    def client(role):
        found = client_of(web, role)
        found.environ_base["HTTP_ACCEPT"] = HTML["Accept"]
        found.environ_base["HTTP_SEC_FETCH_SITE"] = "same-origin"
        return found

    return client


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def links(self):
        return [attrs["href"] for tag, attrs in self.tags if tag == "a" and attrs.get("href")]


def test_htmx_is_the_very_file_that_was_published():
    body = (place("static") / "vendor" / "htmx.min.js").read_bytes()
    digest = base64.b64encode(hashlib.sha384(body).digest()).decode()
    assert digest == "Qp9rdC8H7EqOoX+nR0P3RPG2Noji+qdwJlGpfzwQJsfOpp3sGwIdSP9xO3+UlEhn"
    assert "Zero-Clause BSD" in (place("static") / "vendor" / "htmx.LICENSE.txt").read_text()


def test_style_is_one_sheet_of_28_kib():
    assert (place("static") / "dtq.css").stat().st_size < 28 * 1024


@pytest.mark.parametrize("path", sorted(place("templates").rglob("*.html")), ids=lambda path: path.name)
def test_templates_have_nothing_that_the_policy_forbids(path: Path):
    text = path.read_text()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|hx-on|javascript:|\bjs:|https?://", text)
    assert not re.search(r"<script(?![^>]* src=)", text)
    assert "|safe" not in text.replace(" ", "")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole_for_a_person_and_its_live_part_for_a_script(people, path):
    whole, part = people("admin").get(path), people("admin").get(path, headers=PART)
    assert (whole.status_code, part.status_code) == (200, 200)
    assert whole.headers["Vary"] == part.headers["Vary"] == "HX-Request"
    assert whole.text.startswith("<!doctype html>")
    assert "<html" not in part.text


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_for_those_who_may_look(people, path):
    statuses = {role: people(role).get(path).status_code for role in ("submit", "metrics", "viewer", "operator", None)}
    viewer = 403 if path == "/activity" else 200
    assert statuses == {"submit": 403, "metrics": 403, "viewer": viewer, "operator": 200, None: 401}


def test_an_empty_deployment_says_what_to_do_next(people):
    for path, words in {"/": "No queues yet", "/tasks": "No tasks yet", "/dead-letters": "No dead letters",
                        "/workers": "No worker is alive", "/activity": "Nobody has done anything"}.items():  # fmt: skip
        assert words in people("admin").get(path).text


def test_programs_get_problems_and_people_get_pages_that_say_the_same(people):
    for accept, kind in {"*/*": "application/problem+json", HTML["Accept"]: "text/html; charset=utf-8"}.items():
        answer = people("viewer").get("/tasks/nope", headers={"Accept": accept})
        assert (answer.status_code, answer.content_type) == (404, kind)
        assert "There is no task nope" in answer.text
    assert people("viewer").get("/api/v1/tasks/nope").content_type == "application/problem+json"


@pytest.mark.parametrize("path", ["/tasks/act", "/queues/default/pause", "/queues/default/resume", "/dead-letters/act"])
def test_only_operators_act_and_only_on_pages_of_this_site(people, store, path):
    store.workers.register_queue("default")
    assert people("viewer").post(path).status_code == 403
    assert people(None).post(path).status_code == 401


def test_only_admins_purge_and_discard(people, hand, store):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    operator = people("operator")
    assert operator.post("/queues/default/purge", data={"name": "default"}).status_code == 403
    assert operator.post("/tasks/act", data={"verb": "discard", "task": "default/a"}).status_code == 403
    assert operator.post("/dead-letters/act", data={"verb": "discard", "word": "discard"}).status_code == 403
    assert hand.status("a") == "dead_lettered"


def test_an_action_goes_back_to_where_it_came_from_and_nowhere_else(people, hand):
    for name, back, to in [
        ("a", "/tasks?q=queue%3Adefault&did=cancel&n=9", "/tasks?q=queue%3Adefault&did=cancel"),
        ("b", "https://evil.example/", "/?did=cancel"),
        ("c", "//evil.example/", "/?did=cancel"),
        ("d", "", "/?did=cancel"),
    ]:
        hand.submit(name)
        answer = people("operator").post("/tasks/act", data={"verb": "cancel", "task": f"default/{name}", "back": back})
        assert (answer.status_code, answer.headers["Location"]) == (303, to)


def test_an_address_cannot_put_words_into_a_page(people):
    text = people("admin").get("/tasks?did=<b>hello</b>&n=1").text
    assert "hello" not in Page(text).text
    assert "3 tasks were cancelled." in people("admin").get("/tasks?did=cancel&n=3").text
    assert "The task was cancelled." in people("admin").get("/tasks?did=cancel&n=<b>").text


def test_a_queue_is_paused_resumed_and_purged_by_its_name(people, hand, store):
    hand.submit("a")
    admin = people("admin")
    assert admin.post("/queues/default/pause", data={"reason": "why not", "for": "900"}).status_code == 303
    page = admin.get("/queues/default").text
    assert "why not" in page
    assert "admin-program" in page
    assert "goes on" in page
    assert admin.post("/queues/default/resume").status_code == 303
    assert admin.post("/queues/default/purge", data={"name": "defualt"}).status_code == 400
    assert hand.status("a") == "queued"
    assert admin.post("/queues/default/purge", data={"name": "default"}).status_code == 303
    assert hand.status("a") == "cancelled"
    assert admin.post("/queues/default/pause", data={"for": "7"}).status_code == 400


def test_all_dead_letters_that_match_are_requeued_or_discarded(people, hand, store):
    for name, kind in (("a", "mail"), ("b", "mail"), ("c", "other")):
        hand.digest = store.workers.announce(["default"], [kind])
        hand.end(hand.start(name, type=kind), DeadLetter(error(), "permanent"))
    admin = people("admin")
    assert admin.post("/dead-letters/act", data={"verb": "requeue", "q": "type:mail"}).status_code == 303
    assert [hand.status(name) for name in "abc"] == ["queued", "queued", "dead_lettered"]
    assert admin.post("/dead-letters/act", data={"verb": "discard", "q": "type:other"}).status_code == 400
    assert admin.post("/dead-letters/act", data={"verb": "discard", "word": "discard", "q": ""}).status_code == 303
    assert store.inspect.find(["c"]) == [None]


def test_dead_letters_are_requeued_by_what_their_errors_say_however_many_there_are(people, hand):
    for at in range(260):
        hand.end(hand.start(f"t{at}"), DeadLetter(error("timed out" if at % 2 else "no such account"), "permanent"))
    operator = people("operator")
    page = operator.get('/dead-letters?q=error:"timed+out"').text
    assert 'name="q" value="error:&#34;timed out&#34;"' in page
    answer = operator.post("/dead-letters/act", data={"verb": "requeue", "q": 'error:"timed out"', "reason": "mended"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/?did=requeue&n=130")
    assert {hand.status(f"t{at}") for at in range(1, 260, 2)} == {"queued"}
    assert {hand.status(f"t{at}") for at in range(0, 260, 2)} == {"dead_lettered"}


@pytest.mark.parametrize("given", [{}, {"type": "mail"}, {"q": "tpye:mail"}, {"q": "since:yesterday"}])
def test_what_is_not_understood_is_not_done_to_all_dead_letters(people, hand, given):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    answer = people("admin").post("/dead-letters/act", data={"verb": "requeue", **given})
    assert (answer.status_code, hand.status("a")) == (400, "dead_lettered")
    assert "Nothing was done" in answer.text


def test_what_succeeded_is_submitted_anew_with_another_payload(people, hand, store):
    hand.submit("a", payload=b'{"month":"2026-10"}')
    hand.end(hand.claim_one())
    assert "Edit and submit anew" in people("operator").get("/tasks/a").text
    assert "Edit and submit anew" not in people("viewer").get("/tasks/a").text
    answer = people("operator").post("/tasks/a/edit?queue=default", data={"payload": '{"month": "2026-11"}'})
    assert answer.status_code == 303
    (new,) = [task for task in store.inspect.tasks().items if task.id != "a"]
    assert (new.payload, new.headers["dtq-edited-from"], new.status) == (b'{"month":"2026-11"}', "a", "queued")


def hostile(hand, store):
    """Tasks with all that could do harm in every field that takes it."""
    failure = AttemptError(HOSTILE[:300], HOSTILE + "y" * 900, HOSTILE * 5, 1, HOSTILE, 1, 2)
    payload = json.dumps({HOSTILE: [HOSTILE, LONG], "": {"": None}}).encode()
    headers = {HOSTILE: HOSTILE, "dtq-edited-from": "../../x?<b>"}
    store.intake.submit([NewTask(id="h1", type="mail", payload=payload, headers=headers, idempotency_key="k<script>")])
    hand.end(hand.claim_one(), DeadLetter(failure, HOSTILE))
    hand.submit("deep", payload=b'{"a":' * 3000 + b"1" + b"}" * 3000)
    hand.submit("wide", payload=json.dumps({"rows": [list(range(50))] * 2000}).encode())
    store.control.pause("default", actor=HOSTILE, reason=HOSTILE)
    store.workers.beat(info("w<b>", host=HOSTILE, queues=("a/b:{}%*c d",), types=(HOSTILE, LONG), release=HOSTILE), 60)


@pytest.mark.keeps_keys
@pytest.mark.parametrize(
    "path",
    [*PAGES, "/tasks/h1", "/tasks/deep", "/tasks/wide", "/queues/default", f"/tasks?q={'%3Cimg%3E%22%E2%80%AE'}"],
)
def test_what_comes_from_outside_is_text_and_nothing_else(people, hand, store, path):
    hostile(hand, store)
    answer = people("admin").get(path)
    page = Page(answer.text)
    assert answer.status_code == 200
    assert not [attrs for tag, attrs in page.tags if tag == "img"]
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "style"]
    assert not [href for href in page.links() if href.lower().startswith("javascript:")]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", answer.text)
    assert "49" not in re.findall(r"\{\{7\*7\}\}|49(?= 😀)", answer.text)
    assert len(answer.data) < 300_000


@pytest.mark.keeps_keys
def test_links_lead_to_what_they_name_however_it_is_called(people, hand, store, client):
    hostile(hand, store)
    web = people("admin")
    for path in ("/workers", "/tasks", "/dead-letters", "/tasks/h1"):
        for href in [each for each in Page(web.get(path).text).links() if not each.startswith("#")]:
            assert web.get(href).status_code in {200, 404}, href
    (queue,) = [href for href in Page(web.get("/workers").text).links() if "%25%2A" in href or "%25*" in href]
    assert "a/b:{}%*c d" in web.get(queue).text


@pytest.mark.keeps_keys
@pytest.mark.parametrize("field", ["s", "t", "r", "L", "F", "d", "h", "m", "v"])
def test_a_damaged_record_is_a_row_or_a_page_and_never_a_fault(people, hand, store, client, field):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    client.hset(store.keys.task("default", "a"), field, b"\xff\x00 nonsense")
    web = people("admin")
    for path in PAGES:
        assert web.get(path).status_code == 200
    assert "a" in [
        (attrs.get("value") or "").rpartition("/")[2]
        for tag, attrs in Page(web.get("/dead-letters").text).tags
        if tag == "input" and attrs.get("name") == "task"
    ]
    assert web.get("/tasks/a?queue=default").status_code in {200, 503}


@pytest.mark.keeps_keys
def test_a_record_that_is_gone_is_a_row_that_says_so(people, hand, store, client):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    client.delete(store.keys.task("default", "a"))
    for path in ("/tasks", "/dead-letters"):
        assert "is gone or cannot be read" in people("admin").get(path).text


@pytest.mark.keeps_keys
@pytest.mark.parametrize(
    "kind", ["task", "band", "schedule", "index", "counters", "paused", "audit", "events", "history"]
)
def test_keys_of_a_wrong_type_leave_pages_that_say_what_is_wrong(people, hand, store, client, kind):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    keys = store.keys
    key = {
        "task": keys.task("default", "a"),
        "band": keys.stream("default", 5),
        "schedule": keys.schedule("default"),
        "index": keys.index("default", TaskStatus.DEAD_LETTERED),
        "counters": keys.counters("default"),
        "paused": keys.paused("default"),
        "audit": keys.audit("default"),
        "events": keys.events("default"),
        "history": keys.history("default", "1h"),
    }[kind]
    client.delete(key)
    client.sadd(key, "x")
    statuses = {path: people("admin").get(path).status_code for path in [*PAGES, "/queues/default"]}
    assert set(statuses.values()) == {200}, statuses


@pytest.mark.parametrize(
    "query", ["cursor=nonsense", "cursor=e30", "cursor=%00", "over=9y", "q=%00%FF", "shown=/+a/+/b"]
)
def test_an_address_with_nonsense_is_answered_with_care(people, query):
    for path in PAGES:
        assert people("admin").get(f"{path}?{query}").status_code in {200, 400}


def test_secrets_of_the_settings_are_not_shown(make_web):
    web = make_web(secret_key="very-secret-key-" + "0" * 20, redis_url="redis://me:hunter2@127.0.0.1:6399/0")
    with web.test_request_context():
        from webapp.pages.system import _settings

        shown = {each.variable: each.value for each in _settings(web.extensions["dtq"].settings)}
    assert shown["DTQ_REDIS_URL"] == "redis://127.0.0.1:6399/0"
    assert shown["DTQ_SECRET_KEY"] == shown["DTQ_API_KEYS"] == "set, and secret"
    assert not [value for value in shown.values() if "hunter2" in value or "very-secret" in value]


def test_pages_work_under_a_path_of_another_app(web, hand):
    hand.submit("a")
    client = Client(DispatcherMiddleware(lambda environ, start: [b""], {"/ops/queues": web.wsgi_app}))
    headers = HTML | {"Authorization": client_of(web, "admin").environ_base["HTTP_AUTHORIZATION"]}
    for path in [*PAGES, "/tasks/a", "/queues/default", "/login"]:
        answer = client.get(f"/ops/queues{path}", headers=headers)
        assert answer.status_code == 200
        places = [
            attrs.get(name) for _, attrs in Page(answer.text).tags for name in ("href", "src", "action", "hx-get")
        ]
        assert [each for each in places if each and not each.startswith(("/ops/queues/", "#"))] == []
    answer = client.post("/ops/queues/tasks/act", data={"verb": "cancel", "task": "default/a"}, headers=headers)
    assert answer.headers["Location"] == "/ops/queues/?did=cancel"


def test_assets_may_be_kept_for_ever_under_the_address_of_their_contents(people):
    page = Page(people("admin").get("/tasks").text)
    sheet = next(attrs["href"] for tag, attrs in page.tags if tag == "link" and attrs["rel"] == "stylesheet")
    assert "immutable" in people(None).get(sheet).headers["Cache-Control"]
    assert people(None).get("/static/dtq.css?v=old").headers["Cache-Control"] == "no-cache"
    assert people(None).get("/static/../gunicorn.conf.py").status_code == 404


def test_a_viewer_finds_no_task_by_what_its_errors_say(people, hand):
    hand.end(hand.start("a"), Reschedule(error("the secret is 4711"), 60_000))
    assert "default/a" in people("operator").get("/tasks?q=error:4711").text
    assert "default/a" not in people("viewer").get("/tasks?q=error:4711").text
    assert "4711" not in people("viewer").get("/tasks").text
    hand.store.control.cancel("a")


def test_a_periodic_task_is_paused_resumed_and_run_now(people, hand, store):
    definition = Definition(name="night/ly", type="mail", cron="0 3 * * 1-5", tz="Europe/Berlin")
    store.agenda.publish([definition])
    store.workers.beat(info("w1", periodic={definition.name: definition.digest}), 60)
    ticker = Ticker(store)
    ticker.take_over()
    ticker.turn("default")
    operator = people("operator")
    assert "at 03:00, on Monday to Friday" in operator.get("/periodic").text
    act = {"name": "night/ly", "reason": "the warehouse moves"}
    assert operator.post("/periodic/act", data=act | {"verb": "pause"}).status_code == 303
    assert "the warehouse moves" in operator.get("/periodic").text
    assert operator.post("/periodic/act", data=act | {"verb": "resume"}).status_code == 303
    answer = operator.post("/periodic/act", data=act | {"verb": "trigger"})
    assert operator.get(answer.headers["Location"]).status_code == 200
    assert operator.post("/periodic/act", data=act | {"verb": "explode"}).status_code == 400
    assert operator.post("/periodic/act", data={"name": "nope", "verb": "pause"}).status_code == 404
    assert people("viewer").post("/periodic/act", data=act | {"verb": "pause"}).status_code == 403
    store.control.purge("default")


@pytest.mark.parametrize(
    "typed",
    [
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        "[1]",
        "{",
        '{"a": NaN}',
        "",
        '{"a": ' + "[" * 300 + "]" * 300 + "}",
    ],
)
def test_an_edited_payload_is_read_as_strictly_as_that_of_a_program(people, hand, typed):
    hand.end(hand.start("t1"), DeadLetter(error(), "permanent"))
    answer = people("operator").post("/tasks/t1/edit", data={"payload": typed})
    page = Page(answer.text)
    assert answer.status_code == 400
    assert page.text.count(typed) >= 1
    assert "was not submitted" in page.text
    assert ("textarea", {"name": "payload", "rows": "20", "spellcheck": "false"}) in page.tags


def test_an_edited_payload_that_names_nothing_twice_is_submitted(people, hand, store):
    hand.end(hand.start("t1"), DeadLetter(error(), "permanent"))
    answer = people("operator").post("/tasks/t1/edit", data={"payload": '{ "a":\n 1 }'})
    task_id = answer.headers["Location"].rpartition("/")[2].partition("?")[0]
    assert (answer.status_code, store.inspect.get(task_id).payload) == (303, b'{"a":1}')


def test_what_failed_before_the_first_note_of_a_fresh_start_is_counted(people, hand):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    page = people("viewer").get("/").text
    assert "None, as far as is known" not in page
    assert re.search(r"Failed attempts, 1h <small>since \d\d:\d\d:\d\d</small>", page)


def test_a_story_of_an_earlier_life_and_of_a_blocked_task_is_told_in_its_own_words(people, hand, store):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    store.control.requeue("a")
    hand.end(hand.claim_one("a"), Block("unknown_task_type:mail"))
    page = Page(people("admin").get("/tasks/a").text).text
    assert "1 attempt before it was requeued" in page
    assert "with 1 attempts" not in page
    assert "No living worker knows the type mail" in page
    store.control.purge("default", delayed=True)

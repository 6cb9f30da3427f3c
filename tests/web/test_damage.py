"""What others have put into our keys is neither a fault of ours nor the end of a list."""

import pytest

from dtq_engine.model import FINAL, DeadLetter
from tests.store.hand import Hand, error
from tests.web.test_tasks import pages

pytestmark = pytest.mark.keeps_keys

NAMES = [b"\xff\x00<img>", b"\x80", b"\xef\xbf\xbd", b"", b"a b\nc", "ü😀".encode()]
SCORES = [0, 5, "-inf", "+inf", "1e300", -7.5, 1e17]
HTML = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
LISTS = {
    "/api/v1/tasks": "tasks",
    "/api/v1/tasks?limit=1": "tasks",
    "/api/v1/dlq": "dead_letters",
    "/api/v1/events": "events",
    "/api/v1/audit": "actions",
    "/api/v1/queues": "queues",
    "/api/v1/workers": "workers",
}
PAGES = ["/", "/tasks", "/tasks?q=type:mail", "/dead-letters", "/queues", "/queues/default", "/workers", "/activity"]
PAGES += ["/periodic", "/system", "/metrics"]


@pytest.fixture
def whole(store):
    """One task, one dead letter and one action that nothing is wrong with."""
    hand = Hand(store)
    hand.end(hand.start("dead"), DeadLetter(error(), "permanent"))
    hand.submit("good")
    store.control.pause("default", actor="ada", reason="r", request="q")


def junk(store, client):
    """Put among ours what is not ours."""
    keys = store.keys
    client.sadd(keys.queues(), *NAMES)
    client.sadd(keys.workers(), *NAMES)
    client.sadd(keys.periodic("default"), *NAMES)
    indexes = [keys.index("default", status) for status in sorted(FINAL)]
    for key in (keys.schedule("default"), keys.retry_schedule("default"), keys.blocked("default"), *indexes):
        for score in SCORES:
            client.zadd(key, {name + str(score).encode(): score for name in NAMES})
    for name in NAMES:
        for stream in (keys.dead_letters("default"), keys.audit("default"), keys.stream("default", 5)):
            client.xadd(stream, {name: name})
            client.xadd(stream, {b"i": name, b"t": name, b"a": b"9" * 30, b"d": b"\xb2", b"count": b"x"})
    last = int(client.xrevrange(keys.events("default"), count=1)[0][0].partition(b"-")[0])
    for number, name in enumerate([*NAMES, b"9" * 30, b"\xb2"], last + 1):
        client.xadd(keys.events("default"), {b"t": name, b"d": b"A B C \xc2\xb2 - -"}, id=f"{number}-0")


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(("path", "name"), LISTS.items())
def test_a_list_shows_what_is_whole_among_what_is_not(api, store, client, path, name):
    def ours():
        rows = [row for page in pages(api, path) for row in page[name]]
        return [row for row in rows if {row.get("id"), row.get("task_id"), row.get("actor")} & {"good", "dead", "ada"}]

    before = ours()
    junk(store, client)
    assert ours() == before


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_shown_although_keys_hold_what_is_not_ours(api, store, client, path):
    junk(store, client)
    assert api.get(path, headers=HTML).status_code == 200


@pytest.mark.usefixtures("whole")
def test_a_list_says_which_keys_it_cannot_read_and_shows_the_rest(api, store, client):
    store.workers.register_queue("other")
    keys = store.keys
    broken = [keys.schedule("default"), keys.audit("other"), keys.events("other"), keys.dead_letters("other")]
    for key in broken:
        client.set(key, "x")
    found = api.get("/api/v1/tasks").json
    assert {task["id"] for task in found["tasks"]} == {"good", "dead"}
    assert found["unreadable"] == [keys.schedule("default")]
    for path, name, key in [("audit", "actions", keys.audit("other")), ("events", "events", keys.events("other"))]:
        found = api.get(f"/api/v1/{path}").json
        assert found[name]
        assert found["unreadable"] == [key]
    found = api.get("/api/v1/dlq").json
    assert found["dead_letters"]
    assert found["unreadable"] == [keys.dead_letters("other")]
    for path, key in (("/dead-letters", keys.dead_letters("other")), ("/activity", keys.audit("other"))):
        assert key in api.get(path, headers=HTML).text

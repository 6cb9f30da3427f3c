"""Each script answers exactly what its header says, and its header says what it needs to."""

import math
import re
from importlib.resources import files
from typing import Any

import pytest

from dtq_engine import scripts
from dtq_engine.keys import PRIORITIES, Keys
from dtq_engine.model import FINAL, Cancel, DeadLetter, NewTask
from dtq_engine.store import Store
from dtq_engine.store.records import encode_new
from tests.store.hand import Hand, error

pytestmark = pytest.mark.both_servers

SCRIPTS = sorted(
    path.name.removesuffix(".lua")
    for path in (files("dtq_engine") / "lua").iterdir()
    if path.name.endswith(".lua") and not path.name.startswith("_")
)


def run(store: Store, script: str, *args: str | bytes | int) -> Any:
    """A script's reply as Redis sends it."""
    return store._base.run(script, "default", *args)


@pytest.fixture
def registered(store: Store) -> Store:
    store.workers.register_queue("default")
    return store


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_header_names_the_script_its_arguments_and_its_answer(name):
    source = (files("dtq_engine") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    header = source.split("\n\n")[0]
    assert header.startswith(f"-- {name}: ")
    assert re.search(r"^-- ARGV +\S", header, re.MULTILINE)
    assert re.search(r"^-- Returns +\S", header, re.MULTILINE)
    assert all(line.startswith("--") for line in header.splitlines())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_queue_script_that_must_pass_at_maxmemory_opens_with_a_delete(name):
    body = scripts.load(name).source
    opens = re.search(r"^open\(\)$", body, re.MULTILINE) is not None
    assert opens != (name in scripts.STANDALONE | scripts.ACCEPTING)


# Names


def test_the_scripts_build_the_names_of_keys_py(store, conn):
    library = scripts.read("_lib") + scripts.read("_accept")
    names = """
    local out = {TASK .. 'a', KEY['stream:dead-letter'], KEY.schedule, KEY['retry:schedule'], KEY.blocked, KEY.counters,
      KEY['stream:events'], KEY['stream:audit'], paused_key(), KEY.wake, KEY['wake:schedule'],
      satellite('p', 'a'), satellite('h', 'a'), satellite('e', 'a'), satellite('r', 'a'), satellite('l', 'a'),
      satellite('s', 'a'), satellite('c', 'a'), satellite('a', 'a'), idempotency_key('k'),
      KEY.claim .. ':w:t', KEY.types .. ':d', KEY.builds, KEY.request .. ':v:a:r',
      KEY.pulse, KEY.clock, KEY.scratch, KEY.periodic, KEY.periodic .. ':n', KEY.outbox, KEY.crew, KEY.limits,
      KEY.limit .. ':b', KEY.limited, KEY.limited .. ':b', KEY.starts .. ':b',
      unique_key('d'), (throttle_of({['+throttle'] = '1 60000 d'})), KEY.absorbed .. ':a', KEY.depth}
    for p = 9, 0, -1 do out[#out + 1] = STREAM .. p end
    for _, state in ipairs({'C', 'D', 'E', 'F', 'S'}) do out[#out + 1] = index_key(state) end
    return out
    """
    keys, q = store.keys, "q-1_x"
    built = [name.decode() for name in conn.call("EVAL", library + names, 1, keys.queue(q), "")]
    assert built == [
        *(keys.task(q, "a"), keys.dead_letters(q), keys.schedule(q), keys.retry_schedule(q), keys.blocked(q)),
        *(keys.counters(q), keys.events(q), keys.audit(q), keys.paused(q), keys.wake(q), keys.wake_schedule(q)),
        *keys.satellites(q, "a"),
        *(keys.idempotency(q, "k"), keys.claim(q, "w", "t"), keys.types(q, "d"), keys.builds(q)),
        keys.request(q, "v", "a", "r"),
        *(keys.pulse(q), keys.clock(q), keys.scratch(q), keys.periodic(q), keys.periodic_task(q, "n"), keys.outbox(q)),
        *(keys.crew(q), keys.limits(q), keys.slots(q, "b"), keys.lines(q), keys.line(q, "b"), keys.starts(q, "b")),
        *(keys.unique(q, "d"), keys.throttle(q, "d", 60_000), keys.absorbed(q, "a"), keys.depth(q)),
        *(keys.stream(q, priority) for priority in PRIORITIES),
        *(keys.index(q, status) for status in sorted(FINAL)),
    ]


def test_the_scripts_publish_on_the_channels_of_keys_py(hand, store, conn):
    keys = store.keys
    channels = [keys.control_channel("w1"), keys.done_channel("p1"), keys.events_channel("default")]
    claim = hand.start("a")
    store.leases.watch("a", "default", "p1")
    with conn.listen(channels) as messages:
        store.control.cancel("a")
        hand.end(claim)
        heard = {message[0] for message in (messages.get(2) for _ in range(3)) if message}
    assert heard == set(channels)


def test_all_keys_of_a_queue_share_its_hash_tag():
    keys = Keys("p")
    assert {re.findall(r"\{.*?\}", name)[0] for name in (keys.queue("q"), keys.task("q", "a"), keys.wake("q"))} == {
        "{q}"
    }


# Answers


def test_submit_answers_register_before_the_queue_is_known_and_writes_nothing(store, client, settings):
    task = encode_new(NewTask(id="a", type="mail"), None)
    assert run(store, "submit", "0", 0, *task) == b"REGISTER"
    assert list(client.scan_iter(match=f"{settings.prefix}:*")) == []
    assert run(store, "submit", "1", 0, *task) == [b"NEW", b"a", b"Q"]
    assert client.get(store.keys.queue("default")) == b"1"


def test_submit_answers_three_words_per_task(registered):
    def task(task_id: str, key: str | None = None, print: str = "f", delay_ms: int = 0) -> list[str | bytes | int]:
        return encode_new(
            NewTask(id=task_id, type="mail", idempotency_key=key, delay_ms=delay_ms), print if key else None
        )

    batch = [task("a", "k"), task("b", delay_ms=9000), task("a"), task("c", "k"), task("d", "k", "g"), task("e")]
    reply = run(registered, "submit", "0", 2, *(part for each in batch for part in each))
    registered.workers.list_queue("default")
    assert reply == [
        *(b"NEW", b"a", b"Q"),
        *(b"NEW", b"b", b"P"),
        *(b"EXISTS", b"a", b"Q"),
        *(b"DUPLICATE", b"a", b"Q"),
        *(b"MISMATCH", b"a", b"Q"),
        *(b"FULL", b"e", b""),
    ]


def claim(store: Store, digest: str, token: str = "t1") -> Any:
    return run(store, "claim", "w1", token, 1, 30_000, digest, 3_600_000)


def test_claim_answers_one_word_and_then_tasks(hand, store, client):
    assert claim(store, "no-digest") == [b"REGISTER"]
    store.workers.register_queue("default")
    assert claim(store, "no-digest") == [b"TYPES"]
    assert claim(store, hand.digest) == [b"EMPTY"]
    store.control.pause("default")
    assert claim(store, hand.digest) == [b"PAUSED"]
    store.control.resume("default")
    hand.submit("a")
    word, task = claim(store, hand.digest)
    assert (word, task.split(b" ")[0], task.partition(b"\n")[2]) == (b"TASKS", b"a", b"{}")
    again, same = claim(store, hand.digest)
    task_id, task_type, asked, entry, execution, payload = same
    assert (again, task) == (b"TASKS", b" ".join((task_id, task_type, entry, execution, asked)) + b"\n" + payload)
    assert claim(store, hand.digest, "t2") == [b"EMPTY"]


def test_renew_answers_positions_lost_and_positions_to_cancel(hand, store):
    hand.submit("a", "b", "c")
    first, second, third = hand.claim()
    hand.end(first)
    store.control.cancel("c")
    args = [part for each in (first, second, third) for part in (*each.key, "0")]
    assert run(store, "renew", "w1", *args) == [[1], [3]]
    assert run(store, "renew", "w1") == [[], []]


def test_finalize_answers_a_word_per_execution(hand, store):
    hand.submit("a", "b")
    first, second = hand.claim()
    args = [*first.key, "S", *first.key, "S", second.task_id, "x", "S", "missing", "x", "S"]
    assert run(store, "finalize", 1000, *args) == b"OK DUP FENCED GONE"


def test_promote_answers_how_many_and_when_next(hand, store, clock):
    store.workers.register_queue("default")
    assert run(store, "promote", 100) == [0, b"", 0, b""]
    hand.submit("a", delay_ms=1000)
    hand.submit("b", delay_ms=1000)
    clock.advance(2)
    assert run(store, "promote", 1) == [1, b"0", 0, b""]
    assert run(store, "promote", 100) == [1, b"", 0, b""]


ON_TIME = (2**52, 500, 2**52)
"""The call was sent just now, and its caller never met a slow server."""


def test_reclaim_answers_the_time_where_to_go_on_and_then_tasks(hand, store, clock):
    hand.start("a", priority=5)
    hand.start("b", priority=0)
    clock.advance(31)
    before = store.now_ms()
    real, place, entry, task = run(store, "reclaim", "w2", "t", 9, "-", 100, 30_000, *ON_TIME)
    assert before <= int(real) <= store.now_ms()
    assert (place, entry, task[0]) == (b"4", b"-", b"a")
    _, place, entry, task = run(store, "reclaim", "w2", "t", 4, "-", 100, 30_000, *ON_TIME)
    assert (place, entry, task[0]) == (b"", b"-", b"b")


def test_a_reclaim_without_anything_pending_is_one_call(hand, store):
    hand.submit("a")
    assert run(store, "reclaim", "w2", "t", 9, "-", 100, 30_000, *ON_TIME)[1:] == [b"", b"-"]


def test_reclaim_goes_on_after_the_last_entry_it_looked_at(hand, store, clock):
    hand.submit("a", "b")
    first, _ = hand.claim()
    clock.advance(31)
    _, place, entry, *tasks = run(store, "reclaim", "w2", "t", 5, "-", 1, 30_000, *ON_TIME)
    assert (place, entry, len(tasks)) == (b"5", f"({first.entry}".encode(), 1)
    _, place, _, *tasks = run(store, "reclaim", "w2", "t", 5, entry, 2, 30_000, *ON_TIME)
    assert (place, [task[0] for task in tasks]) == (b"4", [b"b"])


def test_a_reclaim_that_was_long_on_its_way_does_nothing_but_tell_the_time(hand, store, client, clock):
    hand.start("a")
    clock.advance(31)
    late = (store.now_ms() - 501, 500, 2**52)
    assert run(store, "reclaim", "w2", "t", 9, "-", 100, 30_000, *late)[1:] == [b"", b"-"]
    assert not client.exists(store.keys.pulse("default"))
    assert hand.task("a").lease_expiries == 0


def test_cancel_answers_what_happened(hand, store, client):
    hand.submit("new")
    client.hset(store.keys.task("default", "new"), "v", 2)
    hand.start("run", priority=9)
    hand.submit("wait")
    answers = [
        run(store, "cancel", each, f"r-{n}", "", "") for n, each in enumerate(["wait", "wait", "run", "new", "x"])
    ]
    assert answers == [b"cancelled", b"finished", b"requested", b"newer", b"missing"]
    client.hset(store.keys.task("default", "new"), "v", 1)


@pytest.mark.parametrize(("verb", "done"), [("requeue", b"requeued"), ("discard", b"discarded")])
def test_requeue_and_discard_answer_what_happened(hand, store, client, verb, done):
    hand.end(hand.start("a", idempotency_key="k"), Cancel(error()))
    hand.submit("b")
    assert run(store, verb, "x", "r0", "", "") == b"missing"
    assert run(store, verb, "b", "r1", "", "") == b"invalid:queued"
    client.hset(store.keys.task("default", "a"), "v", 2)
    assert run(store, verb, "a", "r2", "", "") == b"newer"
    client.hset(store.keys.task("default", "a"), "v", 1)
    assert [run(store, verb, "a", "r3", "", "") for _ in range(2)] == [done, done]


def test_requeue_answers_conflict(hand, store, client):
    hand.end(hand.start("a", idempotency_key="k"), DeadLetter(error(), "x"))
    client.set(store.keys.idempotency("default", "k"), "f b S", ex=60)
    assert run(store, "requeue", "a", "r", "", "") == b"conflict"


@pytest.mark.parametrize(
    ("script", "args", "answer"),
    [
        ("pause", ("r", "", "", ""), b"paused"),
        ("resume", ("r", "", ""), b"resumed"),
        ("announce", ("digest", 1000, "mail"), b"OK"),
        ("register", (), b"OK"),
        ("trim", (), [0, 0]),
        ("watch", ("missing", "p1"), b""),
        ("retire", (1000,), 0),
    ],
)
def test_the_smaller_scripts_answer_as_they_say(store, script, args, answer):
    assert run(store, script, *args) == answer


def test_watch_answers_the_state(hand, store):
    hand.submit("a")
    assert run(store, "watch", "a", "p1") == b"Q"


def test_beat_lock_and_unlock_answer_as_they_say(store, conn):
    def answer(name: str, *args: str | int) -> object:
        return scripts.run(conn, name, store.keys.leader(), args)

    assert [answer("lock", "a", 1000), answer("lock", "b", 1000)] == [1, 0]
    assert [answer("unlock", "b"), answer("unlock", "a"), answer("unlock", "a")] == [0, 1, 0]
    assert scripts.run(conn, "beat", store.keys.worker("w"), (1000, "info", "x")) == 0
    assert scripts.run(conn, "beat", store.keys.worker("w"), (1000, "info", "x")) == 1


def test_a_script_the_server_has_forgotten_is_sent_whole(hand, client):
    hand.store.connection.abstains_until = math.inf
    client.script_flush()
    hand.submit("a")
    assert hand.status("a") == "queued"
    assert Hand(hand.store, "w9").claim_one().task_id == "a"


def test_sweep_takes_no_delivery_of_a_waiting_task_for_a_stray(hand, store, client):
    hand.submit("a")
    stream = store.keys.stream("default", 5)
    ((entry, _),) = client.xrange(stream)
    client.xgroup_create(stream, "workers", "$")
    assert run(store, "sweep", 0, 0, 5, entry) == []
    assert client.xlen(stream) == 1

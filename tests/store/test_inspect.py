"""Looking things up: one task, several, whole queues, and those who wait for an end."""

import pytest

from dtq_engine.errors import RedisDamaged, TaskNotFound
from dtq_engine.model import (
    Block,
    Cancel,
    DeadLetter,
    NewTask,
    Postpone,
    QueueStats,
    Release,
    Reschedule,
    Succeed,
    TaskStatus,
)
from tests.store.hand import Hand, error

both = pytest.mark.both_servers


# Tasks


def test_a_task_is_found_in_whatever_queue_it_is(store):
    store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=f"q{n}") for n in range(5)])
    assert [store.inspect.get(f"t{n}").queue for n in range(5)] == [f"q{n}" for n in range(5)]
    assert store.inspect.queue_of("t3") == "q3"


@pytest.mark.parametrize("queue", [None, "default", "nowhere"])
def test_a_task_that_does_not_exist_is_not_found(hand, store, queue):
    hand.submit("a")
    with pytest.raises(TaskNotFound, match="never-heard-of"):
        store.inspect.get("never-heard-of", queue=queue)


def test_a_task_is_not_found_in_another_queue(hand, store):
    hand.submit("a")
    with pytest.raises(TaskNotFound):
        store.inspect.get("a", queue="reports")


@both
def test_several_are_found_in_the_order_asked_for(store):
    store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=f"q{n % 2}") for n in range(4)])
    asked = ["t3", "missing", "t0", "t3", "t1"]
    assert [task and task.id for task in store.inspect.find(asked)] == ["t3", None, "t0", "t3", "t1"]
    assert [task and task.id for task in store.inspect.find(["t0", "t1"], queue="q0")] == ["t0", None]
    assert store.inspect.find([]) == []


def test_times_are_told(hand, clock):
    claim = hand.start("a")
    clock.advance(5)
    hand.end(claim)
    task = hand.task("a")
    assert task.created_ms <= task.started_ms <= task.finished_ms - 5000
    assert task.run_ms >= 5000
    assert task.wait_ms < 5000


@both
@pytest.mark.parametrize(("delay_ms", "end"), [(60_000, None), (0, Reschedule(error(), 60_000)), (0, Postpone(60_000))])
def test_a_task_that_waits_for_a_time_says_for_which(hand, store, delay_ms, end):
    before = store.now_ms()
    hand.submit("a", delay_ms=delay_ms)
    if end:
        hand.end(hand.claim_one("a"), end)
    assert before + 60_000 <= hand.task("a").due_ms <= store.now_ms() + 60_000


def test_a_blocked_task_says_when_it_is_looked_at_next(hand, store):
    hand.end(hand.start("a"), Block("why"))
    assert 0 < hand.task("a").due_ms - store.now_ms() <= 1000


def test_a_task_that_waits_for_no_time_says_so(hand):
    hand.submit("a", "b")
    hand.claim_one("a")
    assert (hand.task("a").due_ms, hand.task("b").due_ms) == (None, None)


@pytest.mark.keeps_keys
def test_a_record_that_cannot_be_read_is_damage_not_absence(hand, store, client):
    hand.submit("a")
    client.hdel(store.keys.task("default", "a"), "t")
    with pytest.raises(RedisDamaged, match="task a"):
        store.inspect.get("a")
    assert store.inspect.find(["a"]) == [None]


@pytest.mark.parametrize("field", ["a", "d", "\udcff"])
def test_a_dead_letter_with_a_damaged_field_hides_no_other(hand, store, client, field):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    name = field.encode("utf-8", "surrogateescape")
    client.xadd(store.keys.dead_letters("default"), {"i": "a", "t": "mail", name: b"\xff"})
    damaged, whole = store.inspect.dead_letters().items
    assert (whole.task_id, damaged.task_id, damaged.attempts, damaged.died_ms) == ("a", "a", 0, 0)


def test_a_damaged_counter_hides_no_other(hand, store, client):
    hand.submit("a")
    client.hset(store.keys.counters("default"), mapping={b"\xff started": "nan", "mail started": "nan"})
    assert store.inspect.counters("default")["mail"] == {"submitted": 1, "started": 0}


@pytest.mark.keeps_keys
@pytest.mark.parametrize("kind", ["payload", "headers", "errors", "result"])
def test_damaged_side_keys_do_not_hide_the_task(hand, store, client, kind):
    long = b'"' + b"x" * 99 + b'"'
    hand.end(hand.start("a", payload=long, headers={"h": "x" * 99}), Reschedule(error(), 0))
    hand.end(hand.claim_one("a"), Succeed(long))
    key = getattr(store.keys, kind)("default", "a")
    client.delete(key)
    client.zadd(key, {"x": 1})
    assert hand.status("a") == "succeeded"


# Queues


def test_a_queue_that_does_not_exist_is_all_zeros(store):
    assert store.inspect.queue("nowhere") == QueueStats("nowhere", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, False)


@both
def test_a_queue_is_told_in_numbers(hand, store):
    for task_id, end in [
        ("s", Succeed(None)),
        ("d", DeadLetter(error(), "permanent")),
        ("c", Cancel(error())),
        ("r", Reschedule(error(), 9000)),
        ("z", Postpone(9000)),
        ("b", Block("why")),
    ]:
        hand.end(hand.start(task_id), end)
    hand.start("running")
    hand.submit("delayed", delay_ms=9000)
    hand.submit("w1", "w2", priority=9)
    hand.submit("w3", priority=2)
    stats = store.inspect.queue("default")
    assert (stats.waiting, stats.running, stats.delayed, stats.retrying, stats.blocked) == (3, 1, 1, 2, 1)
    assert (stats.succeeded, stats.dead_lettered, stats.cancelled) == (1, 1, 1)
    assert (stats.waiting_by_priority, stats.depth) == ({9: 2, 2: 1}, 8)


@both
def test_a_queue_knows_since_when_its_oldest_task_waits(hand, store):
    before = store.now_ms()
    hand.submit("a")
    assert before <= store.inspect.queue("default").oldest_waiting_ms <= store.now_ms()
    hand.claim()
    assert store.inspect.queue("default").oldest_waiting_ms is None


def test_a_running_task_is_not_waiting(hand, store):
    hand.submit("a", "b")
    hand.claim(1)
    hand.submit("c")
    assert (store.inspect.queue("default").waiting, store.inspect.queue("default").running) == (2, 1)


def test_a_released_task_waits_again(hand, store):
    hand.end(hand.start("a"), Release())
    assert (store.inspect.queue("default").waiting, store.inspect.queue("default").running) == (1, 0)


def test_queues_are_listed_by_name(store):
    for name in ("b", "a", "c", "a"):
        store.workers.register_queue(name)
    assert store.inspect.queues() == ["a", "b", "c"]


# Waiting for an end


def test_watching_answers_with_the_status(hand, store):
    hand.submit("a")
    assert store.leases.watch("a", "default", "p1") is TaskStatus.QUEUED
    hand.end(hand.claim_one("a"))
    assert store.leases.watch("a", "default", "p1") is TaskStatus.SUCCEEDED


def test_watching_nothing_is_not_found(store):
    with pytest.raises(TaskNotFound):
        store.leases.watch("a", "default", "p1")


@pytest.mark.parametrize(
    ("end", "word"),
    [(Succeed(b"1"), b"succeeded"), (DeadLetter(error(), "x"), b"dead_lettered"), (Cancel(error()), b"cancelled")],
)
def test_each_watcher_is_told_of_the_end(hand, store, conn, end, word):
    claim = hand.start("a")
    channels = [store.keys.done_channel(process) for process in ("p1", "p2")]
    for process in ("p1", "p2", "p1"):
        store.leases.watch("a", "default", process)
    with conn.listen(channels) as messages:
        hand.end(claim, end)
        told = [messages.get(2) for _ in range(2)]
        assert told == [(channel, b"a " + word) for channel in channels]
        assert messages.get(0.05) is None


def test_nobody_is_told_of_an_attempt(hand, store, conn):
    claim = hand.start("a")
    store.leases.watch("a", "default", "p1")
    with conn.listen([store.keys.done_channel("p1")]) as messages:
        hand.end(claim, Reschedule(error(), 0))
        assert messages.get(0.05) is None


@both
def test_beyond_sixteen_watchers_share_a_channel(hand, store, conn):
    claim = hand.start("a")
    for n in range(20):
        store.leases.watch("a", "default", f"p{n}")
    with conn.listen([store.keys.done_channel("*"), store.keys.done_channel("p16")]) as messages:
        hand.end(claim)
        assert messages.get(2) == (store.keys.done_channel("*"), b"a succeeded")
        assert messages.get(0.05) is None


def test_a_task_that_expires_or_is_trimmed_of_time_tells_its_watchers(hand, store, conn, clock):
    hand.submit("a", expires_in_ms=1000)
    store.leases.watch("a", "default", "p1")
    clock.advance(2)
    with conn.listen([store.keys.done_channel("p1")]) as messages:
        hand.claim()
        assert messages.get(2) == (store.keys.done_channel("p1"), b"a expired")


@pytest.mark.parametrize("limit", [1, 2, 3, 200])
def test_dead_letters_of_a_type_are_found_page_by_page(hand, store, monkeypatch, limit):
    monkeypatch.setattr("dtq_engine.store.inspect.LETTERS_PER_STEP", 3)
    monkeypatch.setattr("dtq_engine.store.inspect.LETTER_STEPS", 2)
    rare = Hand(store, "w2", types=("rare",))
    for number in range(14):
        worker, kind = (rare, "rare") if number % 7 in {0, 1} else (hand, "mail")
        worker.end(worker.start(f"t{number}", type=kind), DeadLetter(error(), "permanent"))
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = store.inspect.dead_letters(type="rare", limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [letter.task_id for letter in page.items]
        cursor, pages = page.cursor, pages + 1
    assert found == ["t8", "t7", "t1", "t0"]

"""Listing tasks and dead letters: newest first, in pages that neither repeat nor forget."""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from dtq_engine.errors import InvalidCursor
from dtq_engine.model import Block, Cancel, DeadLetter, NewTask, Page, Reschedule, Succeed, Task, TaskStatus
from dtq_engine.store import Store, listing
from tests.store.hand import Hand, error

both = pytest.mark.both_servers


def pages(store: Store, limit: int, **query: object) -> Iterator[list[str]]:
    """The ids on each page of a listing, to its end."""
    cursor = None
    while True:
        page: Page[Task] = store.inspect.tasks(limit=limit, cursor=cursor, **query)  # type: ignore[arg-type]
        yield [task.id for task in page.items]
        if page.cursor is None:
            return
        cursor = page.cursor


def listed(store: Store, limit: int = 50, **query: object) -> list[str]:
    return [task_id for page in pages(store, limit, **query) for task_id in page]


def one_of_each(hand: Hand) -> dict[str, str]:
    """A task in every status but FAILED, by status."""
    steps: dict[str, Callable[[str], object]] = {
        "succeeded": lambda name: hand.end(hand.start(name)),
        "dead_lettered": lambda name: hand.end(hand.start(name), DeadLetter(error(), "permanent")),
        "cancelled": lambda name: hand.end(hand.start(name), Cancel(error())),
        "retrying": lambda name: hand.end(hand.start(name), Reschedule(error(), 60_000)),
        "blocked": lambda name: hand.end(hand.start(name), Block("why")),
        "running": hand.start,
        "pending": lambda name: hand.submit(name, delay_ms=60_000),
        "queued": hand.submit,
    }
    for status, step in steps.items():
        step(f"is-{status}")
    return {status: f"is-{status}" for status in steps}


def test_nothing_is_listed_where_nothing_is(store):
    assert listed(store) == []


@both
def test_each_status_lists_its_own(hand, store):
    for status, task_id in one_of_each(hand).items():
        assert listed(store, status=TaskStatus(status)) == [task_id]


def test_without_a_status_all_are_listed_once(hand, store):
    expected = set(one_of_each(hand).values())
    for limit in (1, 3, 50):
        found = listed(store, limit)
        assert len(found) == len(expected)
        assert set(found) == expected


def test_failed_and_expired_tasks_are_listed(make_store, clock):
    hand = Hand(make_store(dlq_enabled=False))
    hand.end(hand.start("failed"), DeadLetter(error(), "permanent"))
    hand.submit("expired", expires_in_ms=1)
    clock.advance(1)
    hand.claim()
    assert listed(hand.store, status=TaskStatus.FAILED) == ["failed"]
    assert listed(hand.store, status=TaskStatus.EXPIRED) == ["expired"]


@pytest.mark.parametrize("limit", [1, 4, 10, 50])
def test_waiting_tasks_come_newest_first(hand, store, limit):
    for n in range(12):
        hand.submit(f"t{n:02}")
    assert listed(store, limit, status=TaskStatus.QUEUED) == [f"t{n:02}" for n in range(11, -1, -1)]


@both
def test_finished_tasks_come_newest_first(hand, store, clock):
    for n in range(9):
        hand.end(hand.start(f"t{n}"))
        clock.advance(1)
    assert listed(store, 4, status=TaskStatus.SUCCEEDED) == [f"t{n}" for n in range(8, -1, -1)]


def test_bands_and_queues_are_merged_by_time(store):
    tasks = [NewTask(id=f"t{n:02}", type="mail", queue=f"q{n % 3}", priority=n % 10) for n in range(20)]
    for task in tasks:
        store.intake.submit([task])
    found = listed(store, 7)
    assert sorted(found) == [task.id for task in tasks]
    created = [store.inspect.get(task_id).created_ms for task_id in found]
    # Redis 7.0 reads its clock anew for the entry that follows the record, which can be a millisecond later.
    assert all(newer >= older - 1 for newer, older in pairwise(created))


def test_a_queue_lists_its_own_tasks_only(store):
    store.intake.submit([NewTask(id=f"t{n}", type="mail", queue=f"q{n % 2}") for n in range(6)])
    assert sorted(listed(store, 2, queue="q1")) == ["t1", "t3", "t5"]
    assert listed(store, queue="never-heard-of") == []


def test_a_type_is_filtered(store):
    store.intake.submit([NewTask(id=f"t{n}", type="a" if n % 3 else "b") for n in range(9)])
    assert sorted(listed(store, 2, type="b")) == ["t0", "t3", "t6"]
    assert listed(store, type="c") == []


def test_a_page_is_never_larger_than_asked_for(hand, store):
    hand.submit(*[f"t{n}" for n in range(20)])
    assert {len(page) for page in pages(store, 6)} <= {6, 2, 0}
    assert len(store.inspect.tasks(limit=-3).items) == 1


def test_a_rare_type_among_many_is_found_in_bounded_steps(hand, store, monkeypatch):
    monkeypatch.setattr(listing, "ROW_BUDGET", 100)
    hand.submit("rare", type="rare")
    hand.submit(*[f"t{n}" for n in range(250)])
    found = list(pages(store, 50, type="rare"))
    assert [task_id for page in found for task_id in page] == ["rare"]
    assert len(found) == 3


def test_a_thousand_tasks_with_equal_times_are_each_listed_once(hand, store):
    hand.submit(*[f"t{n:04}" for n in range(1000)])
    for _ in range(10):
        hand.end_all(hand.claim())
    for limit in (7, 100, 200):
        assert sorted(listed(store, limit, status=TaskStatus.SUCCEEDED)) == [f"t{n:04}" for n in range(1000)]


@both
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_listing_goes_on_where_it_was_although_its_last_task_has_gone(hand, store, limit):
    hand.submit(*[f"t{n:02}" for n in range(20)])
    hand.end_all(hand.claim(), DeadLetter(error(), "permanent"))
    expected = set(listed(store, status=TaskStatus.DEAD_LETTERED))
    cursor, seen = None, []
    while True:
        page = store.inspect.tasks(status=TaskStatus.DEAD_LETTERED, limit=limit, cursor=cursor)
        seen += [task.id for task in page.items]
        if (cursor := page.cursor) is None:
            break
        if page.items:
            store.control.discard(page.items[-1].id)
    assert len(seen) == len(set(seen))
    assert set(seen) == expected


def test_new_tasks_do_not_disturb_a_listing_under_way(hand, store, clock):
    hand.submit(*[f"old{n}" for n in range(9)])
    hand.end_all(hand.claim())
    first = store.inspect.tasks(limit=4)
    clock.advance(1)
    hand.submit("new")
    hand.end(hand.start("newer", priority=9))
    rest = store.inspect.tasks(limit=50, cursor=first.cursor)
    assert {task.id for task in (*first.items, *rest.items)} == {f"old{n}" for n in range(9)}


def test_a_task_that_is_put_off_meanwhile_does_not_begin_the_listing_anew(hand, store, client):
    for n in range(9):
        hand.submit(f"t{n}", delay_ms=60_000 - n * 1000)
    first = store.inspect.tasks(status=TaskStatus.PENDING, limit=4)
    client.zadd(store.keys.schedule("default"), {first.items[-1].id: store.now_ms() + 90_000})
    rest = store.inspect.tasks(status=TaskStatus.PENDING, cursor=first.cursor)
    assert [task.id for task in (*first.items, *rest.items)] == [f"t{n}" for n in range(9)]


def tampered(**marks: str) -> str:
    return base64.urlsafe_b64encode(json.dumps(marks).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "====", "!", "bnVsbA", "W10", "{}", tampered(x="1"), tampered(x=""), "A" * 5000, "\x00"]
)
def test_a_cursor_that_is_none_is_refused(hand, store, cursor):
    hand.submit("a")
    with pytest.raises(InvalidCursor):
        store.inspect.tasks(cursor=cursor)


NONSENSE = ["1-1", "5 x", "5", "9" * 30 + "-0", "9" * 30 + " x", "1-" + "9" * 30, "1.5.5 x", "nan x", "١-١", "-5", ""]


@pytest.mark.parametrize(("kind", "right"), [("stream", "1-1"), ("index", "5 x"), ("", "5")])
def test_a_tampered_cursor_is_refused_before_redis_sees_it(hand, store, kind, right):
    hand.submit("a")
    keys = store.keys
    key = {"stream": keys.stream("default", 5), "index": keys.index("default", TaskStatus.SUCCEEDED)}.get(kind, "")
    store.inspect.tasks(cursor=tampered(**{key: right}))
    for mark in set(NONSENSE) - {right}:
        with pytest.raises(InvalidCursor):
            store.inspect.tasks(cursor=tampered(**{key: mark}))


# Dead letters


def letters(store: Store, limit: int, queue: str | None = None) -> list[str]:
    found, cursor = [], None
    while True:
        page = store.inspect.dead_letters(queue=queue, limit=limit, cursor=cursor)
        found += [letter.task_id for letter in page.items]
        if (cursor := page.cursor) is None:
            return found


@pytest.mark.parametrize("limit", [1, 4, 5, 50])
def test_dead_letters_come_newest_first_over_all_queues(store, limit):
    hands = [Hand(store, queue=queue) for queue in ("q1", "q2")]
    for n in range(10):
        hand = hands[n % 2]
        hand.end(hand.start(f"t{n}"), DeadLetter(error(), "permanent"))
        store.connection.client.xadd(store.keys.dead_letters("q3"), {"i": "x"})
    found = [task_id for task_id in letters(store, limit) if task_id != "x"]
    assert sorted(found) == [f"t{n}" for n in range(10)]
    assert letters(store, limit, "q1") == [f"t{n}" for n in (8, 6, 4, 2, 0)]


@both
@pytest.mark.keeps_keys
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_dead_letters_of_one_millisecond_in_several_queues_are_each_listed_once(store, client, limit):
    for queue in ("q1", "q2", "q3"):
        store.workers.register_queue(queue)
        for n in range(2):
            client.xadd(store.keys.dead_letters(queue), {"i": f"{queue}-{n}"}, id=f"1000-{n}")
    assert letters(store, limit) == ["q1-1", "q2-1", "q3-1", "q1-0", "q2-0", "q3-0"]


@pytest.mark.parametrize("cursor", ["", "x", "1", "-", "+", "1-1-1", "(1-1", "9" * 30 + "-0", "1-" + "9" * 30, "1-1 é"])
def test_a_cursor_of_dead_letters_that_is_none_is_refused(store, cursor):
    store.workers.register_queue("default")
    with pytest.raises(InvalidCursor):
        store.inspect.dead_letters(cursor=cursor)


def test_a_success_is_no_dead_letter(hand, store):
    hand.end(hand.start("a"), Succeed(None))
    assert letters(store, 10) == []


@pytest.mark.parametrize("status", [None, TaskStatus.QUEUED, TaskStatus.SUCCEEDED, TaskStatus.RUNNING])
def test_the_first_page_takes_as_many_journeys_in_many_queues_as_in_one(store, monkeypatch, status):
    journeys: list[str] = []
    connection = store.connection
    for name in ("call", "pipeline"):
        does = getattr(connection, name)

        def counted(*given, does=does, name=name, **options):
            journeys.append(name)
            return does(*given, **options)

        monkeypatch.setattr(connection, name, counted)
    took = []
    for queues in (["q0"], [f"q{number}" for number in range(1, 7)]):
        for queue in queues:
            hand = Hand(store, queue=queue)
            hand.end(hand.start(f"done-{queue}"))
            hand.submit(f"waits-{queue}")
        journeys.clear()
        store.inspect.tasks(status=status)
        took.append(len(journeys))
    assert took[0] == took[1] <= 5

"""Searching tasks: any condition, within a budget, and what cannot be read is a row too."""

from dtq_engine.model import DeadLetter, TaskStatus
from tests.store.hand import error
from tests.support.waiting import wait_until


def ids(findings):
    return [row.task_id for row in findings.rows]


def test_a_condition_decides_which_tasks_are_found(hand, store):
    for name in ("a", "b", "c"):
        hand.submit(name, priority=9 if name == "b" else 1)
    assert ids(store.search.tasks(condition=lambda task: task.priority == 9)) == ["b"]


def test_a_search_goes_on_where_its_budget_ended(hand, store, monkeypatch):
    monkeypatch.setattr("dtq_engine.store.search.STEP", 2)
    hand.submit("t0", priority=9)
    begun_ms = store.now_ms()
    wait_until(lambda: store.now_ms() > begun_ms)  # of one millisecond, no task is the newer one
    hand.submit(*(f"t{number}" for number in range(1, 6)), priority=1)
    first = store.search.tasks(condition=lambda task: task.priority == 9, budget=4)
    assert (ids(first), first.looked) == ([], 4)
    second = store.search.tasks(condition=lambda task: task.priority == 9, cursor=first.cursor)
    assert (ids(second), second.looked) == (["t0"], 2)
    assert second.cursor is None


def test_what_ended_before_an_instant_is_left_out(hand, store, clock):
    hand.end(hand.start("old"))
    clock.advance(seconds=100)
    hand.end(hand.start("new"))
    since_ms = store.now_ms() + 50_000
    assert ids(store.search.tasks(status=TaskStatus.SUCCEEDED, since_ms=since_ms)) == ["new"]


def test_running_tasks_are_found_behind_all_that_waits(hand, store):
    hand.start("runs")
    for number in range(60):
        hand.submit(f"t{number}")
    assert ids(store.search.tasks(status=TaskStatus.RUNNING, budget=10)) == ["runs"]


def test_a_record_that_cannot_be_read_is_a_row_that_says_so(hand, store, client, settings):
    hand.end(hand.start("broken"), DeadLetter(error(), "permanent"))
    client.delete(f"{settings.prefix}:task:{{default}}:broken")
    (row,) = store.search.tasks(status=TaskStatus.DEAD_LETTERED).rows
    assert (row.task_id, row.task) == ("broken", None)
    assert store.search.rows([("default", "broken")]) == [row]


def test_a_row_has_the_errors_of_its_task_and_no_payload(hand, store):
    hand.submit("big", payload=b'{"text":"' + b"x" * 500 + b'"}')
    hand.end(hand.claim_one(), DeadLetter(error(), "permanent"))
    (row,) = store.search.tasks().rows
    assert row.task is not None
    assert row.task.errors
    assert row.task.payload == b"{}"

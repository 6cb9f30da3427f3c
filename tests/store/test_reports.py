"""Progress and log lines of executions: kept while they hold their task, bounded, and never twice."""

from typing import Any

import msgspec.structs
import pytest
import redis

from dtq_engine.errors import TaskNotFound
from dtq_engine.model import Claim, DeadLetter, Release, Reschedule, Said
from dtq_engine.store import Store
from dtq_engine.store.events import Event
from dtq_engine.store.feed import Told
from dtq_engine.store.progress import pack_line
from tests.store.hand import QUEUE, Hand, error
from tests.support.waiting import wait_until

pytestmark = pytest.mark.both_servers


def lines(first: int, last: int, size: int = 8) -> tuple[tuple[int, bytes], ...]:
    """The lines with these numbers of an execution."""
    return tuple(
        (number, pack_line(1_000 + number, "INFO", "shop", f"line {number}".ljust(size), 4096))
        for number in range(first, last + 1)
    )


def say(
    store: Store, claim: Claim, first: int = 1, last: int = 0, progress: tuple[float, float | None] | None = None
) -> bool:
    """Report; whether the execution still holds its task."""
    amount = None if progress is None else (*progress, "reading", 1_500)
    return not store.reports.report(QUEUE, [(claim, Said(amount, lines(first, last)))])


def numbers(store: Store, task_id: str = "t", **how: Any) -> list[int]:
    return [line.number for line in store.reports.logs(task_id, **how)]


def test_what_an_execution_says_is_kept_with_its_task(store: Store, hand: Hand):
    assert say(store, hand.start("t"), 1, 2, (3, 10))
    progress = hand.task("t").progress
    assert progress is not None
    assert (progress.done, progress.total, progress.note) == (3, 10, "reading")
    assert (progress.attempt, progress.at_ms) == (1, 1500)
    first, second = store.reports.logs("t")
    assert (first.number, first.missing, first.attempt, first.at_ms) == (1, 0, 1, 1001)
    assert (first.level, first.logger, first.message) == ("INFO", "shop", "line 1  ")
    assert second.number == 2


def test_the_latest_progress_counts_and_lines_alone_leave_it(store: Store, hand: Hand):
    claim = hand.start("t")
    say(store, claim, progress=(3, None))
    say(store, claim, progress=(4.5, None))
    say(store, claim, 1, 1)
    progress = hand.task("t").progress
    assert progress is not None
    assert (progress.done, progress.total, progress.percent) == (4.5, None, None)


def test_lines_that_are_sent_again_are_not_doubled(store: Store, hand: Hand):
    claim = hand.start("t")
    say(store, claim, 1, 3)
    say(store, claim, 1, 5)
    say(store, claim, 2, 4)
    assert numbers(store) == [1, 2, 3, 4, 5]


def test_the_lines_of_a_later_attempt_come_after_those_of_an_earlier_one(store: Store, hand: Hand):
    claim = hand.start("t")
    say(store, claim, 1, 2)
    hand.end(claim, Reschedule(error(), 0))
    say(store, hand.claim_one("t"), 1, 2)
    assert [(line.number, line.attempt) for line in store.reports.logs("t")] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert [line.number for line in store.reports.logs("t", attempt=2)] == [3, 4]


def test_the_oldest_lines_over_the_bound_go_and_the_rest_says_how_many(make_store, hand: Hand):
    store = make_store(task_log_lines=3)
    claim = hand.start("t")
    say(store, claim, 1, 10)
    say(store, claim, 11, 12)
    found = store.reports.logs("t")
    assert [(line.number, line.missing) for line in found] == [(10, 9), (11, 0), (12, 0)]


def test_lines_over_the_bound_of_bytes_go(make_store, hand: Hand):
    store = make_store(task_log_bytes=1024)
    claim = hand.start("t")
    for first in range(1, 100, 9):
        say(store, claim, first, first + 8)
    found = store.reports.logs("t")
    size = sum(len(line) for _, line in lines(found[0].number, found[-1].number))
    assert found[-1].number == 99
    assert 1024 - len(lines(1, 1)[0][1]) - 4 < size <= 1024


def test_a_line_larger_than_all_together_may_be_is_kept_as_the_last(make_store, hand: Hand):
    store = make_store(task_log_bytes=1024)
    claim = hand.start("t")
    store.reports.report(QUEUE, [(claim, Said(None, lines(1, 2, 1000)))])
    assert numbers(store) == [2]


def test_lines_that_a_worker_had_to_drop_are_missing_by_number(store: Store, hand: Hand):
    claim = hand.start("t")
    say(store, claim, 101, 102)
    say(store, claim, 202, 202)
    assert [(line.number, line.missing) for line in store.reports.logs("t")] == [(101, 100), (102, 0), (202, 99)]


def test_one_goes_on_reading_after_a_line(store: Store, hand: Hand):
    claim = hand.start("t")
    say(store, claim, 1, 5)
    assert numbers(store, after=3) == [4, 5]
    assert numbers(store, after=5) == []
    assert numbers(store, after=1, limit=2) == [2, 3]
    say(store, claim, 9, 9)
    (line,) = store.reports.logs("t", after=5)
    assert (line.number, line.missing) == (9, 3)


def test_more_lines_than_one_call_reads_are_read(make_store, hand: Hand):
    store = make_store(task_log_lines=3000)
    claim = hand.start("t")
    say(store, claim, 1, 2500)
    assert numbers(store, limit=2400) == list(range(1, 2401))


def test_whoever_does_not_hold_the_task_says_nothing(store: Store, hand: Hand):
    claim = hand.start("t")
    thief = msgspec.structs.replace(claim, token="other")
    assert not say(store, thief, 1, 1, (1, 2))
    hand.end(claim, Release())
    assert not say(store, claim, 1, 1, (1, 2))
    hand.claim_one("t")
    assert not say(store, claim, 1, 1, (1, 2))
    assert hand.task("t").progress is None
    assert numbers(store) == []


def test_one_that_lost_its_task_keeps_none_of_the_others_from_reporting(store: Store, hand: Hand):
    lost, held = hand.start("lost"), hand.start("t")
    hand.end(lost)
    said = Said((1, 2, "", 5), lines(1, 1))
    assert store.reports.report(QUEUE, [(lost, said), (held, said)]) == {lost.key}
    assert numbers(store) == [1]


def test_an_event_says_how_far_an_execution_is_and_nothing_of_lines_alone(store: Store, hand: Hand):
    claim = hand.start("t")
    feed = store.feed()
    feed.next(0)
    say(store, claim, 1, 1, (3, None))
    say(store, claim, 2, 2)
    told: list[Told] = []
    wait_until(lambda: told.extend(feed.next(0.05)) or len(told) == 2)
    feed.close()
    assert [each.detail for each in told if isinstance(each, Event)] == ["3/-", None]


def test_logs_of_a_task_that_is_not_there_are_not_found(store: Store):
    store.workers.register_queue(QUEUE)
    with pytest.raises(TaskNotFound):
        store.reports.logs("nobody")


def test_a_log_that_is_something_else_begins_anew(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    client.set(store.keys.logs(QUEUE, "t"), "junk")
    assert say(store, claim, 1, 2)
    assert numbers(store) == [1, 2]


def test_a_log_with_an_entry_behind_all_others_begins_anew(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    client.xadd(store.keys.logs(QUEUE, "t"), {"junk": "x"}, id=f"{2**64 - 1}-5")
    assert say(store, claim, 1, 2)
    assert numbers(store)[-1] == 2


def test_what_was_said_goes_with_the_task(store: Store, hand: Hand, client: redis.Redis):
    claim = hand.start("t")
    say(store, claim, 1, 1)
    assert client.ttl(store.keys.logs(QUEUE, "t")) == -1
    hand.end(claim, DeadLetter(error(), "permanent"))
    assert client.ttl(store.keys.logs(QUEUE, "t")) > 0
    store.control.requeue("t")
    assert client.ttl(store.keys.logs(QUEUE, "t")) == -1
    say(store, hand.claim_one("t"), 1, 1)
    assert numbers(store) == [1, 2]

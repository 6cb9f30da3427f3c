"""How long finished tasks stay: by age and number, but never before their result had its time."""

import pytest

from dtq_engine.model import Cancel, DeadLetter, Reschedule, SubmitOutcome, Succeed, TaskStatus
from dtq_engine.store import Store
from tests.store.hand import Hand, error

both = pytest.mark.both_servers

LONG = b'"' + b"x" * 100 + b'"'


def succeed(hand: Hand, *ids: str, result: bytes | None = None, **fields: object) -> None:
    hand.submit(*ids, **fields)
    hand.end_all(hand.claim(), Succeed(result))


def die(hand: Hand, *ids: str, **fields: object) -> None:
    hand.submit(*ids, **fields)
    hand.end_all(hand.claim(), DeadLetter(error(), "permanent"))


def left(store: Store, *ids: str) -> str:
    """The ids of those that are still there."""
    return "".join(task.id for task in store.inspect.find(ids, queue="default") if task)


def trim(store: Store) -> int:
    """Trim until nothing more goes: how many went."""
    total = 0
    while gone := store.schedule.trim("default").gone:
        total += gone
    return total


# By age


@both
def test_a_finished_task_expires_after_its_retention(make_store, client):
    hand = Hand(make_store(task_retention_s=77, result_retention_s=60))
    hand.end(hand.start("a", payload=LONG, headers={"h": "x" * 100}), Succeed(LONG))
    keys = hand.store.keys
    own = [keys.task("default", "a"), *(key for key in keys.satellites("default", "a") if client.exists(key))]
    assert len(own) == 4
    assert {client.ttl(key) for key in own} <= {76, 77}


@pytest.mark.parametrize("end", [Succeed(b"1"), Cancel(error())])
def test_after_its_retention_a_task_is_gone_from_the_index_too(hand, store, clock, end):
    hand.end(hand.start("a"), end)
    clock.advance(7 * 86_400 + 1, ttls=True)
    assert trim(store) == 1
    stats = store.inspect.queue("default")
    assert (left(store, "a"), stats.succeeded + stats.cancelled) == ("", 0)


def test_before_its_retention_is_over_a_task_stays(hand, store, clock):
    succeed(hand, "a")
    clock.advance(7 * 86_400 - 60, ttls=True)
    assert trim(store) == 0
    assert left(store, "a") == "a"


def test_a_living_task_is_never_trimmed(hand, store, clock):
    hand.submit("a")
    hand.start("b", priority=9)
    clock.advance(30 * 86_400, ttls=True)
    assert trim(store) == 0
    assert left(store, "a", "b") == "ab"


# By number


@both
def test_of_the_succeeded_tasks_the_newest_are_kept(make_store, clock):
    hand = Hand(make_store(keep_succeeded=2))
    for task_id in "abcde":
        succeed(hand, task_id)
        clock.advance(1)
    clock.advance(61)
    assert trim(hand.store) == 3
    assert left(hand.store, *"abcde") == "de"


def test_a_trimmed_task_takes_its_side_keys_along(make_store, clock, client):
    hand = Hand(make_store(keep_succeeded=0))
    hand.end(hand.start("a", payload=LONG, headers={"h": "x" * 100}), Reschedule(error(), 0))
    hand.end(hand.claim_one("a"), Succeed(LONG))
    clock.advance(3601)
    trim(hand.store)
    keys = hand.store.keys
    assert client.exists(keys.task("default", "a"), *keys.satellites("default", "a")) == 0


def test_ending_tasks_trims_older_ones_by_itself(make_store, clock):
    hand = Hand(make_store(keep_succeeded=10))
    for n in range(12):
        succeed(hand, *[f"t{n}-{k}" for k in range(10)])
        clock.advance(61)
    assert hand.store.inspect.queue("default").succeeded <= 20


def test_failures_are_not_counted_against_the_number(make_store, clock):
    hand = Hand(make_store(keep_succeeded=0))
    hand.end(hand.start("a"), Cancel(error()))
    clock.advance(3600)
    assert trim(hand.store) == 0
    assert left(hand.store, "a") == "a"


def test_the_number_is_kept_without_a_limit_of_looks(make_store, clock):
    hand = Hand(make_store(keep_succeeded=3))
    for n in range(5):
        succeed(hand, *[f"t{n}-{k}" for k in range(100)])
    clock.advance(61)
    assert trim(hand.store) == 497


# Guards


def test_nothing_goes_within_a_minute_of_its_end(make_store, clock):
    hand = Hand(make_store(keep_succeeded=0))
    succeed(hand, "a")
    clock.advance(58)
    assert trim(hand.store) == 0
    clock.advance(3)
    assert trim(hand.store) == 1


@both
@pytest.mark.parametrize("result", [b'"small"', LONG])
def test_a_result_is_kept_for_its_time_whatever_the_number(make_store, clock, result):
    hand = Hand(make_store(keep_succeeded=0))
    succeed(hand, "a", result=result)
    clock.advance(3598)
    assert trim(hand.store) == 0
    assert hand.task("a").result == result
    clock.advance(3)
    assert trim(hand.store) == 1


def test_a_result_that_is_not_kept_guards_nothing(make_store, clock):
    hand = Hand(make_store(keep_succeeded=0))
    succeed(hand, "a", result=LONG, keep_result=False)
    clock.advance(61)
    assert trim(hand.store) == 1


def test_guarded_tasks_do_not_hide_the_ones_behind_them(make_store, clock):
    hand = Hand(make_store(keep_succeeded=0))
    succeed(hand, *[f"guarded{n}" for n in range(100)], result=b"1")
    succeed(hand, *[f"guarded{n + 100}" for n in range(100)], result=b"1")
    succeed(hand, *[f"guarded{n + 200}" for n in range(50)], result=b"1")
    clock.advance(1)
    succeed(hand, "a")
    clock.advance(61)
    for _ in range(3):
        hand.store.schedule.trim("default")
    assert left(hand.store, "a") == ""
    assert hand.store.inspect.queue("default").succeeded == 250


def test_guarded_tasks_go_when_their_time_has_come(make_store, clock):
    hand = Hand(make_store(keep_succeeded=0))
    succeed(hand, *[f"t{n}" for n in range(100)], result=b"1")
    clock.advance(61)
    trim(hand.store)
    clock.advance(3600)
    assert trim(hand.store) == 100


def test_guarded_tasks_do_not_take_the_places_of_newer_ones(make_store, clock):
    hand = Hand(make_store(keep_succeeded=3))
    succeed(hand, *"ab", result=b"1")
    clock.advance(1)
    succeed(hand, *"cdef")
    clock.advance(61)
    assert trim(hand.store) == 1
    assert left(hand.store, *"abcdef") == "abdef"


def test_a_task_that_lives_again_is_not_trimmed_for_its_former_end(hand, store, clock, client):
    die(hand, "a")
    store.control.requeue("a")
    client.zadd(store.keys.index("default", TaskStatus.CANCELLED), {"a": 1})
    assert trim(store) == 1
    assert left(store, "a") == "a"


def test_an_idempotency_key_outlives_its_trimmed_task(make_store, clock):
    hand = Hand(make_store(keep_succeeded=0))
    succeed(hand, "a", idempotency_key="k")
    clock.advance(61)
    trim(hand.store)
    (receipt,) = hand.submit("b", idempotency_key="k")
    assert (receipt.outcome, receipt.id, receipt.status) == (SubmitOutcome.DUPLICATE, "a", TaskStatus.SUCCEEDED)


# Dead letters


def test_a_dead_letter_tells_what_happened(hand, store):
    hand.end(hand.start("a"), Reschedule(error(), 0))
    before = store.now_ms()
    hand.end(hand.claim_one("a"), DeadLetter(error("no\nway", "KeyError"), "max_attempts"))
    (letter,) = store.inspect.dead_letters().items
    assert (letter.task_id, letter.queue, letter.type, letter.reason) == ("a", "default", "mail", "max_attempts")
    assert (letter.error, letter.attempts, letter.worker) == ("KeyError: no\nway", 2, "w1")
    assert before <= letter.died_ms <= store.now_ms()


def test_a_dead_letter_lives_longer_than_other_finished_tasks(hand, store, clock):
    die(hand, "a", payload=LONG)
    clock.advance(100 * 86_400, ttls=True)
    trim(store)
    assert len(store.inspect.dead_letters().items) == 1
    assert hand.task("a").payload == LONG


def test_a_dead_letter_can_be_requeued_on_its_last_day(hand, store, clock):
    die(hand, "a", payload=LONG)
    clock.advance(179 * 86_400, ttls=True)
    trim(store)
    store.control.requeue("a")
    assert Hand(store).claim_one("a").payload == LONG


@both
def test_a_dead_letter_and_its_task_go_together_in_the_end(hand, store, clock):
    die(hand, "a")
    clock.advance(180 * 86_400 + 1)
    trim(store)
    assert (store.inspect.dead_letters().items, left(store, "a")) == ((), "")
    assert store.inspect.queue("default").dead_lettered == 0


def test_over_their_number_the_oldest_dead_letters_go_with_their_tasks(make_store, client, clock):
    hand = Hand(make_store(dlq_maxlen=2))
    die(hand, *"abcd", payload=LONG)
    store = hand.store
    clock.advance(61)
    trim(store)
    assert [letter.task_id for letter in store.inspect.dead_letters().items] == ["d", "c"]
    assert left(store, *"abcd") == "cd"
    assert client.exists(*store.keys.satellites("default", "a")) == 0
    assert store.inspect.queue("default").dead_lettered == 2


def test_a_dead_letter_of_a_clock_that_was_set_back_holds_up_no_other(make_store, clock):
    hand = Hand(make_store(dlq_maxlen=2))
    clock.advance(7200)
    die(hand, "early")
    clock.advance(-3600)
    die(hand, *"abc")
    clock.advance(61)
    trim(hand.store)
    assert {letter.task_id for letter in hand.store.inspect.dead_letters().items} == {"early", "c"}
    clock.advance(7200)
    trim(hand.store)
    assert left(hand.store, "early", *"abc") == "earlyc"


def test_within_a_minute_a_dead_letter_stays_whatever_the_limits(make_store, clock):
    hand = Hand(make_store(dlq_maxlen=1, dlq_retention_s=1))
    die(hand, *"abc")
    clock.advance(58, ttls=True)
    trim(hand.store)
    assert left(hand.store, *"abc") == "abc"


def test_dead_letters_that_go_are_counted(make_store, clock):
    hand = Hand(make_store(dlq_maxlen=1))
    die(hand, *"abc")
    clock.advance(61)
    trim(hand.store)
    assert hand.store.inspect.counters("default")["mail"]["dead_letters_trimmed"] == 2


def test_a_letter_that_goes_does_not_take_a_task_that_lives_again(make_store, client):
    hand = Hand(make_store(dlq_maxlen=1))
    die(hand, "a")
    hand.store.control.requeue("a")
    client.xadd(hand.store.keys.dead_letters("default"), {"i": "a", "t": "mail", "d": 0})
    again = hand.claim_one("a")
    die(hand, "b")
    assert [letter.task_id for letter in hand.store.inspect.dead_letters().items] == ["b"]
    assert hand.end(again) == "OK"


@pytest.mark.keeps_keys
def test_a_damaged_record_does_not_keep_dead_letters_from_going(make_store, client, clock):
    hand = Hand(make_store(dlq_maxlen=1))
    die(hand, "a")
    clock.advance(61)
    client.delete(hand.store.keys.task("default", "a"))
    client.set(hand.store.keys.task("default", "a"), "no hash")
    die(hand, "b")
    assert [letter.task_id for letter in hand.store.inspect.dead_letters().items] == ["b"]

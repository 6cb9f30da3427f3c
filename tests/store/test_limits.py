"""Limits: how many tasks run and start at once, who waits, and who comes next."""

import random
from functools import partial

import pytest

from dtq_engine.errors import InvalidLimit, LimitNotFound
from dtq_engine.limits import Declared, Limit, Numbers
from dtq_engine.model import (
    Block,
    Cancel,
    Claim,
    ClaimStatus,
    DeadLetter,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    Succeed,
    Transition,
)
from dtq_engine.store.limits import LAPSE_MS
from tests.store.hand import Hand, error, ids

STRIPE = ("stripe",)


@pytest.fixture
def declare(store):
    """Declare limits by name, as a worker does: `declare(stripe=Numbers(2))`."""

    def declare(queue: str = "default", **numbers: Numbers) -> int:
        store.workers.register_queue(queue)
        limits = tuple(Limit(name, each) for name, each in numbers.items())
        return store.limits.declare(queue, Declared(limits, dict.fromkeys(numbers, queue)))

    return declare


@pytest.fixture
def declare_queue(store):
    """Declare the limit of a whole queue."""

    def declare(max_running=None, starts=None, window_ms=None, queue: str = "default") -> int:
        numbers = Numbers(max_running, starts, window_ms)
        return store.limits.declare(queue, Declared((Limit("*", numbers, queue),)))

    return declare


def some(count: int, start: int = 0) -> list[str]:
    """Ids in the order in which tasks are to start."""
    return [f"t{number:02}" for number in range(start, start + count)]


def state(store, name="stripe"):
    """A limit as it stands."""
    return next(each for each in store.limits.list() if each.name == name)


def stands(store, name="stripe") -> tuple[int, int]:
    """How many run and wait."""
    found = state(store, name)
    return found.running, found.waiting


def run_one_by_one(hand: Hand) -> list[str]:
    """Run what can be claimed until nothing can; the ids in the order of their starts."""
    started: list[str] = []
    while claims := hand.claim():
        started += ids(claims)
        hand.end_all(claims)
    return started


# How many run -------------------------------------------------------------------------------------------


@pytest.mark.both_servers
def test_no_more_tasks_run_than_the_limit_allows_and_the_others_run(hand, store, declare):
    declare(stripe=Numbers(2))
    hand.submit(*some(5), limits=STRIPE)
    hand.submit("free")
    assert ids(hand.claim()) == ["t00", "t01", "free"]
    assert [hand.status(each) for each in some(3, 2)] == ["blocked"] * 3
    assert hand.task("t02").reason == "limit:stripe"
    assert hand.task("t02").attempt == 0
    assert stands(store) == (2, 3)


@pytest.mark.both_servers
@pytest.mark.drains
def test_a_freed_slot_calls_exactly_the_next_one(hand, other, declare):
    declare(stripe=Numbers(2))
    hand.submit(*some(5), limits=STRIPE)
    first, second = hand.claim()
    hand.end(first)
    assert [hand.status(each) for each in some(3, 2)] == ["queued", "blocked", "blocked"]
    third = other.claim_one("t02")
    hand.end_all([second, third])
    assert [hand.status(each) for each in some(2, 3)] == ["queued", "queued"]
    assert run_one_by_one(other) == ["t03", "t04"]


@pytest.mark.drains
def test_a_task_that_was_called_is_not_overtaken_on_its_way(hand, declare):
    declare(stripe=Numbers(1))
    hand.submit(*some(2), limits=STRIPE, priority=0)
    (running,) = hand.claim()
    hand.end(running)
    hand.submit("urgent", limits=STRIPE, priority=9)
    assert run_one_by_one(hand) == ["t01", "urgent"]


@pytest.mark.drains
def test_who_waits_is_called_by_priority_and_then_by_age(hand, declare):
    declare(stripe=Numbers(1))
    running = hand.start("first", limits=STRIPE)
    for task_id, priority in (("low", 1), ("old", 5), ("young", 5), ("high", 9)):
        hand.submit(task_id, limits=STRIPE, priority=priority)
    assert hand.claim() == []
    hand.end(running)
    assert run_one_by_one(hand) == ["high", "old", "young", "low"]


@pytest.mark.drains
def test_who_has_just_come_stands_behind_those_who_wait(hand, store, declare):
    """A hundred are called at a time, so that a limit that becomes wide leaves some in line for a moment."""
    declare(stripe=Numbers(1))
    hand.submit(*[f"t{number:03}" for number in range(350)], limits=STRIPE)
    running = hand.claim()
    while hand.ask().status is ClaimStatus.AGAIN:
        pass
    declare(stripe=Numbers(1_000))
    hand.submit("new", limits=STRIPE, priority=9)
    claims = hand.claim()
    assert len(claims) == 100
    assert "new" not in ids(claims)
    hand.end_all([*running, *claims])
    rest = len(run_one_by_one(hand))
    while store.schedule.promote("default").moved:
        rest += len(run_one_by_one(hand))
    assert rest == 250


@pytest.mark.drains
def test_each_key_has_a_bucket_of_its_own(hand, store, declare):
    declare(account=Numbers(1))
    for number in range(6):
        hand.submit(f"t{number:02}", limits=(f"account/{number % 3}",))
    claims = hand.claim()
    assert ids(claims) == some(3)
    assert [(each.key, each.running, each.waiting) for each in state(store, "account").buckets] == [
        ("", 0, 0),
        ("0", 1, 1),
        ("1", 1, 1),
        ("2", 1, 1),
    ]
    hand.end_all(claims)
    assert run_one_by_one(hand) == some(3, 3)


@pytest.mark.drains
def test_of_several_limits_all_must_have_room_and_none_is_held_meanwhile(hand, store, declare):
    declare(api=Numbers(2), account=Numbers(1))
    both = ("api", "account/7")
    hand.submit("a", "b", "c", limits=both)
    hand.submit("other", limits=("api",))
    first, other = hand.claim()
    assert ids([first, other]) == ["a", "other"]
    assert [hand.task(each).reason for each in "bc"] == ["limit:account/7"] * 2
    assert stands(store, "api") == (2, 0)
    hand.end(first)
    assert hand.status("b") == "queued"
    hand.end(other)
    assert run_one_by_one(hand) == ["b", "c"]


@pytest.mark.drains
def test_who_lacks_room_elsewhere_lines_up_there_and_holds_up_nobody(hand, declare):
    declare(api=Numbers(1), account=Numbers(1))
    first = hand.start("first", limits=("account/7",))
    hand.submit("both", limits=("account/7", "api"))
    assert hand.claim() == []
    second = hand.start("second", limits=("api",))
    hand.submit("third", limits=("account/7",))
    assert hand.claim() == []
    hand.end(first)
    assert hand.task("both").reason == "limit:api"
    claims = hand.claim()
    assert ids(claims) == ["third"]
    hand.end_all([*claims, second])
    assert run_one_by_one(hand) == ["both"]


# Ways out -----------------------------------------------------------------------------------------------

ENDS: tuple[Transition, ...] = (
    Succeed(None),
    Release(),
    Postpone(0),
    Postpone(60_000),
    Reschedule(error(), 0),
    Reschedule(error(), 60_000),
    DeadLetter(error(), "x"),
    Cancel(error()),
    Block("unknown_task_type:mail"),
)


@pytest.mark.parametrize("transition", ENDS, ids=repr)
def test_each_way_out_of_running_frees_the_slot(hand, declare, transition):
    declare(stripe=Numbers(1))
    hand.submit(*some(2), limits=STRIPE)
    (claim,) = hand.claim()
    hand.end(claim, transition)
    assert ids(hand.claim()) == ["t01"]


@pytest.mark.drains
def test_a_task_that_comes_again_has_the_place_it_had(hand, declare):
    declare(stripe=Numbers(1))
    hand.submit(*some(3), limits=STRIPE)
    (claim,) = hand.claim()
    hand.end(claim, Release())
    assert run_one_by_one(hand) == ["t01", "t00", "t02"]


def test_a_worker_that_died_frees_its_slots_as_its_leases_are_taken_over(hand, other, declare, clock):
    declare(stripe=Numbers(1))
    hand.submit(*some(2), limits=STRIPE)
    (lost,) = hand.claim()
    clock.advance(31)
    (taken,) = other.reclaim()
    assert ids(other.claim()) == ["t01"]
    other.end(taken, Reschedule(error(), 0))
    assert other.claim() == []
    assert hand.end(lost).value == "FENCED"
    assert hand.task("t00").reason == "limit:stripe"


@pytest.mark.drains
def test_whoever_leaves_the_line_leaves_nothing_behind(hand, store, declare, clock):
    declare(stripe=Numbers(1))
    running = hand.start("first", limits=STRIPE)
    hand.submit(*some(4), limits=STRIPE)
    hand.submit("late", limits=STRIPE, expires_in_ms=5_000)
    assert hand.claim() == []
    store.control.cancel("t00")
    clock.advance(6)
    store.schedule.promote("default")
    assert hand.status("late") == "expired"
    assert stands(store) == (1, 3)
    store.control.reprioritise("t03", 9)
    store.control.run_now("t02")
    assert stands(store) == (1, 2)
    assert hand.claim() == []
    hand.end(running)
    assert run_one_by_one(hand) == ["t03", "t01", "t02"]


@pytest.mark.drains
def test_a_called_task_that_is_cancelled_hands_its_slot_on(hand, store, declare):
    declare(stripe=Numbers(1))
    running = hand.start("first", limits=STRIPE)
    hand.submit(*some(2), limits=STRIPE)
    assert hand.claim() == []
    hand.end(running)
    store.control.cancel("t00")
    assert hand.status("t01") == "queued"
    store.control.requeue("t00")
    assert run_one_by_one(hand) == ["t01", "t00"]


@pytest.mark.drains
def test_a_purge_takes_those_who_wait_along(hand, store, declare):
    declare(stripe=Numbers(1))
    running = hand.start("first", limits=STRIPE)
    hand.submit(*some(250), limits=STRIPE)
    while hand.ask().status is ClaimStatus.AGAIN:
        pass
    assert store.control.purge("default", delayed=True) == 250
    hand.end(running)
    assert stands(store) == (0, 0)


def test_a_purge_of_what_may_start_calls_nobody_into_it(hand, store, declare):
    declare(stripe=Numbers(1))
    running = hand.start("first", limits=STRIPE)
    hand.submit(*some(5), limits=STRIPE)
    assert hand.claim() == []
    hand.end(running)
    assert store.control.purge("default") == 1
    assert stands(store) == (0, 4)
    store.schedule.promote("default")
    assert ids(hand.claim()) == ["t01"]


def test_a_task_of_no_known_type_holds_no_slot(hand, store, declare):
    declare(stripe=Numbers(1))
    running = hand.start("first", limits=STRIPE)
    hand.submit("strange", type="unknown", limits=STRIPE)
    Hand(store, "w9", ("unknown",)).claim()
    hand.submit("t00", limits=STRIPE)
    assert hand.claim() == []
    hand.end(running)
    assert hand.status("strange") == "queued"
    assert hand.claim() == []
    assert hand.task("strange").reason == "unknown_task_type:unknown"
    assert (hand.status("t00"), stands(store)) == ("queued", (1, 0))
    assert ids(hand.claim()) == ["t00"]


def test_waiting_for_a_limit_is_no_reason_to_die(make_store, declare, clock):
    strict = make_store(unknown_type_grace_s=1)
    hand = Hand(strict)
    declare(stripe=Numbers(1))
    hand.start("first", limits=STRIPE)
    hand.submit("t00", limits=STRIPE)
    for _ in range(20):
        assert hand.claim() == []
        clock.advance(3_700)
        strict.schedule.promote("default")
    assert hand.status("t00") == "blocked"


def test_a_wait_for_a_limit_ends_that_for_a_worker(make_store, declare, clock):
    strict = make_store(unknown_type_grace_s=100)
    hand, stranger = Hand(strict), Hand(strict, "w2", ("other",))
    declare(stripe=Numbers(1))
    hand.start("first", limits=STRIPE)
    hand.submit("t00", type="new", limits=STRIPE)
    stranger.claim()
    assert hand.task("t00").reason == "unknown_task_type:new"
    wise = Hand(strict, "w3", ("new",))
    strict.control.run_now("t00")
    assert wise.claim() == []
    assert hand.task("t00").reason == "limit:stripe"
    clock.advance(200)
    strict.control.run_now("t00")
    strict.connection.call("DEL", strict.keys.types("default", wise.digest), strict.keys.builds("default"))
    stranger = Hand(strict, "w2", ("other",))
    stranger.claim()
    assert hand.status("t00") == "blocked"


# Rates --------------------------------------------------------------------------------------------------


@pytest.mark.both_servers
@pytest.mark.drains
def test_a_rate_lets_so_many_start_and_the_others_exactly_when_there_is_room(hand, store, declare, clock):
    declare(stripe=Numbers(None, 2, 10_000))
    hand.submit(*some(3), limits=STRIPE)
    claims = hand.claim()
    assert ids(claims) == some(2)
    hand.end_all(claims)
    assert hand.claim() == []
    wait_ms = store.schedule.promote("default").next_due_in_ms
    assert 9_000 < wait_ms <= 10_001
    clock.advance((wait_ms - 500) / 1000)
    assert store.schedule.promote("default").moved == 0
    clock.advance(0.6)
    store.schedule.promote("default")
    assert run_one_by_one(hand) == ["t02"]


def test_a_rate_holds_in_every_window(hand, store, declare, clock):
    count, window_ms = 5, 10_000
    declare(stripe=Numbers(None, count, window_ms))
    dice, started = random.Random(7), []
    for number in range(120):
        hand.submit(f"t{number:03}", limits=STRIPE)
        for claim in hand.claim():
            started.append(claim.started_ms)
            hand.end(claim)
        clock.advance(dice.choice((0, 0.1, 0.9, 3, 11)))
        store.schedule.promote("default")
    assert len(started) > 60
    within = [sum(start <= each <= start + window_ms for each in started) for start in started]
    assert max(within) == count


@pytest.mark.drains
def test_no_rate_is_lost_while_tasks_wait(hand, store, declare, clock):
    declare(stripe=Numbers(None, 3, 1_000))
    hand.submit(*some(12), limits=STRIPE)
    started = run_one_by_one(hand)
    for _ in range(3):
        clock.advance(1.1)
        store.schedule.promote("default")
        started += run_one_by_one(hand)
    assert started == some(12)


@pytest.mark.drains
def test_a_clock_that_was_set_back_keeps_nobody_waiting_for_longer_than_a_window(hand, store, declare, clock):
    declare(stripe=Numbers(None, 2, 10_000))
    clock.advance(86_400)
    hand.submit(*some(4), limits=STRIPE)
    hand.end_all(hand.claim())
    clock.advance(-86_400)
    hand.submit("new", limits=STRIPE)
    assert hand.claim() == []
    started: list[str] = []
    for _ in range(2):
        clock.advance(11)
        store.schedule.promote("default")
        started += run_one_by_one(hand)
    assert started == ["new", "t02", "t03"]


@pytest.mark.drains
def test_who_was_called_under_a_rate_has_its_start_kept(hand, store, declare, clock):
    declare(stripe=Numbers(None, 1, 10_000))
    hand.submit(*some(3), limits=STRIPE)
    hand.end_all(hand.claim())
    clock.advance(11)
    store.schedule.promote("default")
    assert [hand.status(each) for each in some(2, 1)] == ["queued", "blocked"]
    store.control.reprioritise("t02", 9)
    assert [hand.status(each) for each in some(2, 1)] == ["queued", "blocked"]
    started = run_one_by_one(hand)
    clock.advance(11)
    store.schedule.promote("default")
    assert started + run_one_by_one(hand) == ["t01", "t02"]


@pytest.mark.drains
def test_who_had_started_waits_past_its_expiry_without_looking_all_the_time(hand, store, declare, clock):
    declare(stripe=Numbers(1))
    hand.submit("t00", limits=STRIPE, expires_in_ms=5_000)
    (claim,) = hand.claim()
    hand.end(claim, Release())
    hand.submit("t01", limits=STRIPE, priority=9)
    (running,) = hand.claim(1)
    assert hand.claim() == []
    clock.advance(3_700)
    assert store.schedule.promote("default").moved == 1
    assert store.schedule.promote("default").next_due_in_ms > 50_000
    hand.end(running)
    assert run_one_by_one(hand) == ["t00"]


# Whole queues -------------------------------------------------------------------------------------------


@pytest.mark.both_servers
@pytest.mark.drains
def test_a_queue_starts_no_more_than_its_limit_allows_and_parks_nobody(hand, store, declare_queue, conn):
    declare_queue(2)
    hand.submit(*some(4))
    reply = hand.ask()
    assert (reply.status, ids(reply.claims), reply.room_in_ms) == (ClaimStatus.LIMITED, some(2), None)
    assert hand.ask() == type(reply)(ClaimStatus.LIMITED)
    assert [hand.status(each) for each in some(2, 2)] == ["queued", "queued"]
    store.connection.call("DEL", store.keys.wake("default"))
    hand.end(reply.claims[0])
    assert store.connection.call("LLEN", store.keys.wake("default")) == 1
    more = hand.claim()
    assert ids(more) == ["t02"]
    hand.end_all([reply.claims[1], *more])
    assert run_one_by_one(hand) == ["t03"]


def test_a_queue_whose_rate_is_used_up_tells_one_worker_when_to_come_again(hand, other, declare_queue, clock):
    declare_queue(starts=2, window_ms=10_000)
    hand.submit(*some(4))
    reply = hand.ask()
    assert ids(reply.claims) == some(2)
    assert reply.status is ClaimStatus.LIMITED
    assert 9_000 < reply.room_in_ms <= 10_001
    assert other.ask().room_in_ms is None
    clock.advance(reply.room_in_ms / 1000)
    assert ids(other.claim()) == some(2, 2)


def test_a_free_slot_wakes_nobody_where_nobody_was_turned_away(hand, store, declare_queue):
    declare_queue(5)
    claim = hand.start("t00")
    store.connection.call("DEL", store.keys.wake("default"))
    hand.end(claim)
    assert store.connection.call("LLEN", store.keys.wake("default")) == 0


def test_what_runs_already_counts_against_a_limit_that_is_new(hand, declare_queue):
    hand.submit(*some(4))
    running = hand.claim(2)
    declare_queue(3)
    assert ids(hand.claim()) == ["t02"]
    hand.end_all(running)
    assert ids(hand.claim()) == ["t03"]


def test_what_a_reaper_holds_counts_against_no_limit_that_is_new(hand, other, declare_queue, clock):
    hand.submit(*some(2))
    hand.claim(1)
    clock.advance(31)
    (taken,) = other.reclaim()
    declare_queue(1)
    assert ids(hand.claim()) == ["t01"]
    other.end(taken, Reschedule(error(), 0))
    assert hand.claim() == []


def test_tasks_with_limits_of_their_own_count_against_their_queue_too(hand, store, declare, declare_queue):
    store.limits.declare(
        "default", Declared((Limit("stripe", Numbers(1)), Limit("*", Numbers(2), "default")), {"stripe": "default"})
    )
    hand.submit(*some(2), limits=STRIPE)
    hand.submit("x", "y")
    claims = hand.claim()
    assert ids(claims) == ["t00", "x"]
    hand.end_all(claims)
    assert sorted(ids(hand.claim())) == ["t01", "y"]


# Numbers that change ------------------------------------------------------------------------------------


@pytest.mark.drains
def test_a_raised_limit_frees_those_who_wait_at_once(hand, declare):
    declare(stripe=Numbers(1))
    hand.submit(*some(5), limits=STRIPE)
    (first,) = hand.claim()
    assert declare(stripe=Numbers(3)) == 1
    more = hand.claim()
    assert ids(more) == ["t01", "t02"]
    hand.end_all([first, *more])
    assert run_one_by_one(hand) == ["t03", "t04"]


@pytest.mark.drains
def test_a_lowered_limit_holds_for_those_who_were_called_too(hand, store, declare):
    declare(stripe=Numbers(3))
    hand.submit(*some(6), limits=STRIPE)
    hand.end_all(hand.claim())
    declare(stripe=Numbers(1))
    assert ids(hand.claim()) == ["t03"]
    assert stands(store) == (1, 2)
    hand.end(claim_again(hand, store, "t03"))
    assert run_one_by_one(hand) == ["t04", "t05"]


def claim_again(hand: Hand, store, task_id: str) -> Claim:
    """The execution of a task that runs, as its worker has it."""
    token = store.connection.call("HGET", store.keys.task("default", task_id), "L").split()[0].decode()
    (claim,) = [claim for claim in hand.claim(token=token) if claim.task_id == task_id]
    return claim


def test_an_old_worker_brings_no_old_numbers_back(store, declare, clock):
    declare(stripe=Numbers(1))
    clock.advance(10)
    declare(stripe=Numbers(5))
    clock.advance(60)
    declare(stripe=Numbers(1))
    assert state(store).numbers == Numbers(5)
    for _ in range(6):
        clock.advance(60)
        declare(stripe=Numbers(1))
    assert state(store).numbers == Numbers(1)


@pytest.mark.drains
def test_a_limit_that_nobody_declares_any_more_is_gone_and_frees_those_who_wait(hand, store, declare, clock):
    declare(stripe=Numbers(1), other=Numbers(2))
    hand.submit(*some(3), limits=STRIPE)
    running = hand.claim()
    clock.advance(LAPSE_MS / 1000 - 1)
    assert declare(other=Numbers(2)) == 0
    clock.advance(2)
    assert store.limits.tidy("default") == 1
    assert [each.name for each in store.limits.list()] == ["other"]
    hand.end_all([*running, *hand.claim()])


def test_a_clock_that_is_put_back_lifts_no_limit(hand, store, declare, clock):
    declare(stripe=Numbers(1), other=Numbers(2))
    clock.advance(-2 * LAPSE_MS / 1000)
    hand.submit("a", "b", limits=STRIPE)
    assert store.limits.tidy("default") == 0
    declare(other=Numbers(2))
    assert [each.task_id for each in hand.claim()] == ["a"]
    # From then on its time runs by the clock as it is now.
    clock.advance(LAPSE_MS / 1000 + 1)
    assert store.limits.tidy("default") == 2


@pytest.mark.drains
def test_thousands_of_keys_are_freed_by_a_limit_that_is_raised(hand, store, declare, clock):
    declare(account=Numbers(1))
    numbers = range(300)
    running: list[Claim] = []
    for _ in range(2):
        for number in numbers:
            hand.submit(f"{len(running)}-{number}", limits=(f"account/{number}",))
        while (reply := hand.ask()).claims or reply.status is ClaimStatus.AGAIN:
            running += reply.claims
    assert len(running) == 300
    declare(account=Numbers(2))
    hand.end_all([*running, *hand.claim(100), *hand.claim(100), *hand.claim(100)])


def test_a_limit_of_more_keys_than_one_call_looks_at_frees_all_who_wait_when_it_is_raised(hand, store, declare):
    declare(account=Numbers(1))
    numbers = range(600)
    for life in ("a", "b"):
        tasks = [NewTask(id=f"{life}-{each}", type="mail", limits=(f"account/{each}",)) for each in numbers]
        store.intake.submit(tasks)
        while hand.ask().status is not ClaimStatus.EMPTY:
            continue
    assert store.inspect.queue("default").blocked == len(numbers)
    declare(account=Numbers(2))
    assert 0 < store.inspect.queue("default").waiting < len(numbers)
    while store.schedule.promote("default").moved:
        continue
    assert store.inspect.queue("default").waiting == len(numbers)


# Operators ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stripe!", "stripe/7", "", "**", "a\nb", "s" * 65], ids=repr)
def test_what_can_be_the_name_of_no_limit_is_not_there(store, declare, name):
    declare(stripe=Numbers(1))
    store.limits.set("default", "stripe", max_running=2)
    for verb in (partial(store.limits.set, max_running=3), store.limits.clear):
        with pytest.raises(LimitNotFound):
            verb("default", name)
    assert [each.name for each in store.limits.list()] == ["stripe"]


def test_an_operator_wins_over_the_code_until_it_is_cleared(hand, store, declare):
    declare(stripe=Numbers(5, 10, 1_000))
    store.limits.set("default", "stripe", max_running=1, actor="ann", reason="they are slow", request="r1")
    found = state(store)
    assert found.numbers == Numbers(1, 10, 1_000)
    assert found.declared == Numbers(5, 10, 1_000)
    assert (found.override.by, found.override.reason) == ("ann", "they are slow")
    declare(stripe=Numbers(7))
    assert state(store).numbers == Numbers(1)
    hand.submit(*some(3), limits=STRIPE)
    assert ids(hand.claim()) == ["t00"]
    store.limits.set("default", "stripe", max_running="none")
    assert ids(hand.claim()) == ["t01", "t02"]
    store.limits.clear("default", "stripe", actor="ann")
    assert state(store).numbers == Numbers(7)
    assert [(entry.action, entry.target, entry.actor) for entry in store.events.audit("default", 3)][::-1] == [
        ("set_limit", "stripe", "ann"),
        ("set_limit", "stripe", ""),
        ("clear_limit", "stripe", "ann"),
    ]


def test_a_queue_gets_a_limit_from_an_operator_alone(hand, store):
    hand.submit(*some(3))
    store.limits.set("default", "*", max_running=2)
    assert ids(hand.claim()) == some(2)
    store.limits.clear("default", "*")
    assert ids(hand.claim()) == ["t02"]
    assert store.limits.list() == []


def test_a_request_that_is_sent_again_does_nothing_more(store, declare):
    declare(stripe=Numbers(5))
    store.limits.set("default", "stripe", max_running=1, request="r1")
    store.limits.set("default", "stripe", max_running=2, request="r2")
    store.limits.set("default", "stripe", max_running=1, request="r1")
    assert state(store).numbers == Numbers(2)
    assert len(store.events.audit("default", 9)) == 2


@pytest.mark.parametrize("numbers", [{"max_running": 0}, {"max_running": True}, {"rate": (1, 0)}, {}], ids=repr)
def test_numbers_that_cannot_be_are_refused(store, declare, numbers):
    declare(stripe=Numbers(5))
    with pytest.raises(InvalidLimit):
        store.limits.set("default", "stripe", **numbers)


def test_a_limit_that_is_not_there_is_told(store, declare):
    declare(stripe=Numbers(5))
    for queue, name in (("default", "strip"), ("nowhere", "stripe"), ("nowhere", "*")):
        with pytest.raises(LimitNotFound, match="dtq limits list"):
            store.limits.set(queue, name, max_running=1)
    for name in ("stripe", "*"):
        with pytest.raises(LimitNotFound, match="is not set"):
            store.limits.clear("default", name)


# Many, and damage ---------------------------------------------------------------------------------------


@pytest.mark.drains
@pytest.mark.timeout(240)
def test_ten_thousand_who_wait_for_one_key_are_called_in_order_at_the_same_cost(hand, store, declare, client):
    declare(account=Numbers(3))
    names = [f"t{number:05}" for number in range(10_000)]
    hand.submit(*names, limits=("account/7",))
    running: list[Claim] = []
    while (reply := hand.ask()).claims or reply.status is ClaimStatus.AGAIN:
        running += reply.claims
    assert stands(store, "account") == (3, 9_997)
    started, costs = ids(running), []
    while running:
        client.config_resetstat()
        hand.end_all(running)
        running = hand.claim()
        costs.append(sum(each["calls"] for each in client.info("commandstats").values()))
        started += ids(running)
        if len(started) in range(300, 310):
            hand.end_all(running)
            store.limits.set("default", "account", max_running=100)
            running = hand.claim()
            started += ids(running)
    assert started == names
    assert max(costs[5:90]) <= min(costs[5:90]) + 10, costs


@pytest.mark.keeps_keys
@pytest.mark.parametrize("kind", ["slots", "line", "starts", "limits", "lines"])
def test_a_key_of_another_type_stops_nobody(hand, store, declare, client, clock, kind):
    declare(stripe=Numbers(2, 3, 1_000))
    hand.submit(*some(6), limits=STRIPE)
    running = hand.claim()
    key = getattr(store.keys, kind)("default", *(["stripe"] if kind in {"slots", "line", "starts"} else []))
    client.delete(key)
    client.rpush(key, "1") if kind != "starts" else client.set(key, "1")
    hand.end_all(running)
    declare(stripe=Numbers(2, 3, 1_000))
    started = []
    for _ in range(5):
        clock.advance(4_000)
        store.schedule.promote("default")
        store.sweep.run()
        started += run_one_by_one(hand)
    assert sorted(started) == some(4, 2)


@pytest.mark.keeps_keys
def test_a_slot_that_nobody_holds_is_freed_when_the_first_in_line_looks(hand, store, declare, client, clock):
    declare(stripe=Numbers(1))
    hand.submit(*some(2), limits=STRIPE)
    hand.claim()
    client.delete(store.keys.task("default", "t00"))
    clock.advance(61)
    store.schedule.promote("default")
    assert ids(hand.claim()) == ["t01"]


def test_sweep_mends_what_limits_depend_on(hand, store, declare, client):
    declare(stripe=Numbers(1))
    hand.submit(*some(2), limits=STRIPE)
    hand.claim()
    client.zadd(store.keys.slots("default", "stripe"), {"gone token": 1, "strange": 1})
    client.zadd(store.keys.line("default", "stripe"), {"gone": 9.9e14})
    assert store.sweep.run() == {"slot_without_task": 2, "line_without_task": 1}
    client.delete(store.keys.slots("default", "stripe"), store.keys.line("default", "stripe"))
    assert store.sweep.run() == {"slot": 1, "line": 1}
    assert stands(store) == (1, 1)
    assert store.sweep.run() == {}


def test_sweep_gives_a_task_that_a_reaper_holds_no_slot_again(hand, other, store, declare, clock):
    declare(stripe=Numbers(1))
    hand.submit(*some(2), limits=STRIPE)
    hand.claim()
    clock.advance(31)
    other.reclaim()
    assert store.sweep.run() == {}
    assert ids(other.claim()) == ["t01"]

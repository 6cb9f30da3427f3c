"""Reclaiming: executions whose worker is gone are handed to a reaper, each to one, and none is forgotten."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dtq_engine.connection import connect
from dtq_engine.ids import new_token
from dtq_engine.model import DeadLetter, LeaseExpired, NewTask, Release, Reschedule, RetryPolicy
from dtq_engine.policy import decide
from dtq_engine.store import Store
from tests.store.hand import Hand, error, ids

both = pytest.mark.both_servers

LEASE_S = 31
UNDECIDED_S = 10.1


def lose(hand: Hand, task_id: str, clock, **fields: object) -> None:
    """A task whose worker died."""
    hand.start(task_id, **fields)
    clock.advance(LEASE_S)


@both
def test_a_lease_that_expired_is_handed_to_the_reaper(hand, other, clock):
    lose(hand, "a", clock)
    assert ids(other.reclaim()) == ["a"]


@both
def test_a_lease_that_has_not_expired_stays_with_its_worker(hand, other, clock):
    hand.start("a")
    clock.advance(29)
    assert other.reclaim() == []


@pytest.mark.keeps_keys
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("w", b"\xff\xfe"),
        ("t", b"\xff\xfe"),
        ("n", b"nan"),
        ("y", b"9" * 5000),
        ("r", b"\xff"),
        ("r", b"5 1795986779688 1 2 3 4 " + b"9" * 5000),
        ("L", b"t " + b"9" * 30 + b" 9 1 30000"),
        ("h", b"\xff"),
        ("h", b'{"a":"\xff"}'),
    ],
)
def test_a_record_that_cannot_be_read_does_not_stop_the_reaper(hand, other, store, client, clock, field, value):
    hand.submit("a", "b", "c")
    hand.claim()
    client.hset(store.keys.task("default", "b"), field, value)
    clock.advance(LEASE_S)
    assert ids(other.reclaim()) == ["a", "b", "c"]


def test_an_empty_queue_has_nothing_to_reclaim(other):
    assert other.reclaim() == []


def test_the_lease_is_what_the_claiming_worker_said_not_the_reaper(make_store, clock):
    patient = Hand(make_store(visibility_timeout_s=120, heartbeat_interval_s=5), "patient")
    hasty = Hand(make_store(visibility_timeout_s=1, heartbeat_interval_s=0.1), "hasty")
    patient.start("a")
    clock.advance(100)
    assert hasty.reclaim() == []
    clock.advance(21)
    assert ids(hasty.reclaim()) == ["a"]


def test_the_reaper_gets_all_it_needs_to_decide(hand, other, clock):
    lose(hand, "a", clock, payload=b'{"n":1}', timeout_ms=5000, headers={"h": "1"}, priority=7)
    (claim,) = other.reclaim()
    assert (claim.type, claim.payload, claim.timeout_ms, claim.headers) == ("mail", b'{"n":1}', 5000, {"h": "1"})
    assert (claim.attempt, claim.restarts, claim.lease_expiries, claim.priority) == (1, 1, 1, 7)


def test_the_reaper_learns_which_worker_was_lost_and_when_it_started(hand, other, clock):
    started = hand.start("a")
    clock.advance(LEASE_S)
    (claim,) = other.reclaim()
    assert (claim.worker, claim.started_ms) == ("w1", started.started_ms)


def test_a_second_reaper_still_learns_which_worker_was_lost(hand, other, store, clock):
    lose(hand, "a", clock)
    other.reclaim()
    clock.advance(UNDECIDED_S)
    assert Hand(store, "w3").reclaim()[0].worker == "w1"


def test_the_dead_letter_of_a_lost_task_names_the_lost_worker(hand, other, store, clock):
    lose(hand, "a", clock)
    other.end(other.reclaim()[0], DeadLetter(error(), "worker_lost"))
    assert store.inspect.dead_letters().items[0].worker == "w1"


@both
def test_reclaiming_fences_the_worker(hand, other, clock):
    claim = hand.start("a")
    clock.advance(LEASE_S)
    (taken,) = other.reclaim()
    assert taken.token != claim.token
    assert taken.fence > claim.fence
    assert (hand.end(claim), other.end(taken)) == ("FENCED", "OK")


def test_a_reclaimed_task_still_runs_until_it_is_decided(hand, other, clock):
    lose(hand, "a", clock)
    other.reclaim()
    assert hand.status("a") == "running"
    assert hand.claim() == []


@both
def test_a_task_comes_back_with_its_history(hand, other, clock):
    hand.end(hand.start("a"), Reschedule(error("first"), 0))
    hand.claim_one("a")
    clock.advance(LEASE_S)
    (taken,) = other.reclaim()
    other.end(taken, decide(taken, LeaseExpired(error("lost")), luck=0, max_lease_expiries=3))
    task = hand.task("a")
    assert (task.status, task.attempt) == ("retrying", 2)
    assert [each.message for each in task.errors] == ["first", "lost"]


def test_a_task_with_one_attempt_is_a_dead_letter_when_its_worker_is_lost(hand, other, clock):
    lose(hand, "a", clock, retry=RetryPolicy(max_attempts=1))
    (taken,) = other.reclaim()
    other.end(taken, decide(taken, LeaseExpired(error()), luck=0, max_lease_expiries=3))
    assert (hand.status("a"), hand.task("a").reason) == ("dead_lettered", "max_attempts")


# Undecided


@both
def test_an_undecided_task_comes_back_after_ten_seconds(hand, other, clock):
    lose(hand, "a", clock)
    other.reclaim()
    clock.advance(9)
    assert hand.reclaim() == []
    clock.advance(UNDECIDED_S - 9)
    assert ids(hand.reclaim()) == ["a"]


def test_an_undecided_task_comes_back_under_a_new_token(hand, other, clock):
    lose(hand, "a", clock)
    (first,) = other.reclaim()
    clock.advance(UNDECIDED_S)
    (second,) = hand.reclaim()
    assert other.end(first, Reschedule(error(), 0)) == "FENCED"
    assert hand.end(second, Reschedule(error(), 0)) == "OK"


def test_only_lost_workers_count_not_lost_reapers(hand, other, clock):
    lose(hand, "a", clock)
    for _ in range(3):
        (taken,) = other.reclaim()
        clock.advance(UNDECIDED_S)
    assert (taken.restarts, taken.lease_expiries) == (1, 1)


@both
def test_each_lost_worker_counts(hand, other, clock):
    hand.submit("a")
    for lost in range(1, 4):
        hand.claim_one("a")
        clock.advance(LEASE_S)
        (taken,) = other.reclaim()
        assert (taken.restarts, taken.lease_expiries) == (lost, lost)
        other.end(taken, Reschedule(error(), 0))


def test_an_outcome_recorded_by_a_worker_forgets_the_lost_ones(hand, other, clock):
    lose(hand, "a", clock)
    other.end(other.reclaim()[0], Reschedule(error(), 0))
    hand.end(hand.claim_one("a"), Reschedule(error(), 0))
    assert (hand.task("a").restarts, hand.task("a").lease_expiries) == (0, 0)


def test_a_release_is_a_restart_but_no_lost_worker(hand, other, clock):
    hand.end(hand.start("a"), Release())
    hand.claim_one("a")
    clock.advance(LEASE_S)
    (taken,) = other.reclaim()
    assert (taken.restarts, taken.lease_expiries) == (2, 1)


def test_a_lost_lease_is_counted(hand, other, store, clock):
    lose(hand, "a", clock)
    other.reclaim()
    assert store.inspect.counters("default")["mail"]["lease_expired"] == 1


# Many


def test_one_call_hands_out_at_most_a_hundred_and_the_next_the_rest(hand, other, clock):
    hand.submit(*[f"t{n:03}" for n in range(130)])
    hand.claim()
    hand.claim()
    clock.advance(LEASE_S)
    assert [len(other.reclaim()) for _ in range(3)] == [100, 30, 0]


def test_expired_leases_behind_pages_of_healthy_ones_are_found(make_store, clock):
    store = make_store(visibility_timeout_s=600, heartbeat_interval_s=5)
    healthy, dying = Hand(store, "healthy"), Hand(make_store(), "dying")
    healthy.submit(*[f"t{n:03}" for n in range(120)])
    for _ in range(2):
        healthy.claim()
    dying.start("lost")
    clock.advance(LEASE_S)
    assert ids(healthy.reclaim()) == ["lost"]


def test_every_band_is_looked_at(hand, other, store, clock):
    store.intake.submit([NewTask(id=f"t{n}", type="mail", priority=n) for n in range(10)])
    hand.claim()
    clock.advance(LEASE_S)
    assert len(other.reclaim()) == 10


def test_eight_reapers_at_once_never_get_the_same_task(hand, store, clock):
    hand.submit(*[f"t{n:03}" for n in range(200)])
    hand.claim()
    hand.claim()
    clock.advance(LEASE_S)

    def reap(number: int) -> list[str]:
        found: list[str] = []
        while part := store.schedule.reclaim("default", reaper=f"r{number}", token=new_token()):
            found += ids(part)
        return found

    with ThreadPoolExecutor(8) as pool:
        taken = [task_id for part in pool.map(reap, range(8)) for task_id in part]
    assert sorted(taken) == [f"t{n:03}" for n in range(200)]


# Strays


@both
def test_a_delivery_of_an_ended_task_is_dropped(hand, other, store, client, clock):
    stream = store.keys.stream("default", 5)
    claim = hand.start("a")
    stray = client.xadd(stream, {"i": "a"})
    client.xreadgroup("workers", "w1", {stream: ">"})
    hand.end(claim)
    clock.advance(LEASE_S)
    assert (other.reclaim(), client.xrange(stream, stray, stray)) == ([], [])
    assert client.xpending(stream, "workers")["pending"] == 0


def test_a_delivery_whose_entry_is_gone_is_dropped(other, hand, store, client, clock):
    stream = store.keys.stream("default", 5)
    hand.end(hand.start("a"))
    stray = client.xadd(stream, {"i": "a"})
    client.xreadgroup("workers", "w1", {stream: ">"})
    client.xdel(stream, stray)
    clock.advance(LEASE_S)
    other.reclaim()
    assert client.xpending(stream, "workers")["pending"] == 0


@both
def test_a_delivery_that_nobody_started_is_available_again(hand, other, store, client, clock):
    hand.end(hand.start("first"))
    hand.submit("a")
    client.xreadgroup("workers", "w1", {store.keys.stream("default", 5): ">"})
    assert hand.claim() == []
    clock.advance(LEASE_S)
    assert other.reclaim() == []
    assert ids(hand.claim()) == ["a"]


# Redis away


def away(store, client, *, seconds: float) -> None:
    """As if Redis had stood still for so long and had just come back."""
    client.set(store.keys.pulse("default"), f"{store.now_ms() - round(seconds * 1000)} 0")


@both
def test_after_redis_was_away_leases_have_their_full_time_again(hand, other, store, client, clock):
    lose(hand, "a", clock)
    away(store, client, seconds=60)
    assert other.reclaim(steady_ms=30_000) == []


def test_a_reaper_that_was_in_contact_all_the_time_knows_that_redis_was_there(hand, other, store, client, clock):
    lose(hand, "a", clock)
    away(store, client, seconds=60)
    assert ids(other.reclaim(steady_ms=70_000)) == ["a"]


def test_a_short_silence_is_no_absence(hand, other, store, client, clock):
    lose(hand, "a", clock)
    away(store, client, seconds=1)
    assert ids(other.reclaim(steady_ms=0)) == ["a"]


def test_half_a_short_lease_is_no_short_silence(make_store, store, client, clock):
    hasty = Hand(make_store(visibility_timeout_s=1, heartbeat_interval_s=0.1), "hasty")
    hasty.start("a")
    clock.advance(1.1)
    away(store, client, seconds=0.6)
    assert hasty.reclaim(steady_ms=500) == []


def test_a_renewal_that_comes_first_does_not_hide_the_absence(hand, other, store, client, clock):
    claim = hand.start("b")
    lose(hand, "a", clock)
    away(store, client, seconds=60)
    store.leases.renew([claim])
    assert other.reclaim(steady_ms=0) == []


def test_the_hold_off_ends(hand, other, store, client, clock):
    lose(hand, "a", clock)
    now = store.now_ms()
    client.set(store.keys.pulse("default"), f"{now} {now - 29_000}")
    assert other.reclaim() == []
    client.set(store.keys.pulse("default"), f"{now} {now - 31_000}")
    assert ids(other.reclaim()) == ["a"]


def test_a_clock_that_was_set_forward_makes_no_lease_look_expired(hand, other, store, client, clock, monkeypatch):
    assert other.reclaim() == []
    lose(hand, "a", clock)
    away(store, client, seconds=3600)
    # To a reaper the server's clock has gone on by an hour at once, while all its exchanges were quick.
    monkeypatch.setattr("dtq_engine.store.schedule.time.monotonic", lambda began=time.monotonic: began() - 3600)
    for _ in range(3):
        assert other.reclaim(steady_ms=10**10) == []
    now = store.now_ms()
    client.set(store.keys.pulse("default"), f"{now} {now - 31_000}")
    assert ids(other.reclaim(steady_ms=10**10)) == ["a"]


def test_a_clock_that_was_set_back_holds_nobody_off(hand, other, store, client, clock):
    lose(hand, "a", clock)
    clock.advance(LEASE_S)
    now = store.now_ms()
    client.set(store.keys.pulse("default"), f"{now + 3_600_000} {now + 3_600_000}")
    assert other.reclaim() == []
    last, resumed = client.get(store.keys.pulse("default")).split()
    assert int(last) == int(resumed) < now + 1000


@pytest.mark.keeps_keys
def test_a_call_that_a_stopped_server_holds_takes_nobodys_task(make_server, settings):
    server = make_server()
    store = Store(connect(replace(settings, redis_url=server.url)), settings)
    hand = Hand(store)
    quick = Hand(Store(store.connection, replace(settings, visibility_timeout_s=1, heartbeat_interval_s=0.1)), "quick")
    quick.start("a")
    assert hand.reclaim() == []
    with ThreadPoolExecutor(1) as pool:
        os.kill(server.pid, signal.SIGSTOP)
        reclaimed = pool.submit(hand.reclaim)
        time.sleep(1.2)
        os.kill(server.pid, signal.SIGCONT)
        assert reclaimed.result(5) == []
    assert ids(hand.reclaim()) == ["a"]
    store.close()


def test_a_round_over_a_thousand_idle_queues_costs_less_than_a_second(store):
    queues = [f"q{number}" for number in range(1000)]
    before = time.process_time()
    for queue in queues:
        assert store.schedule.reclaim(queue, reaper="r", token=new_token(), steady_ms=0) == []
    first = time.process_time() - before
    for queue in queues:
        store.schedule.reclaim(queue, reaper="r", token=new_token(), steady_ms=0)
    assert time.process_time() - before - first < 1, first

"""Periodic tasks in Redis: announced, run once a tick, held, triggered, removed; whoever looks at them, and when."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from dtq_engine.errors import InvalidTransition, PeriodicNotFound, RedisDamaged
from dtq_engine.model import Claim, DeadLetter, Deduplication, SubmitOutcome, Unique
from dtq_engine.periodic import CatchUp, Definition, PeriodicTask, Turn
from dtq_engine.store import Store
from dtq_engine.worker.ticker import Ticker
from tests.store.hand import Hand, error, ids, info
from tests.support.clock import Clock

both = pytest.mark.both_servers

MINUTE_MS = 60_000
MAIL = Definition(name="mail", type="mail", every_ms=MINUTE_MS, payload='{"to":"ann"}')


def replaced(**changes: object) -> Definition:
    """MAIL with changes."""
    return msgspec.structs.replace(MAIL, **changes)


def claimed(hand: Hand) -> list[Claim]:
    """Claim and end all that waits; the claims."""
    claims = hand.claim()
    hand.end_all(claims)
    return claims


class Fleet:
    """Workers that only say what they have, and a leader that looks when told to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ticker = Ticker(store)

    def announce(self, worker: str, *definitions: Definition) -> None:
        """A worker starts, or lives on, with these."""
        self.store.agenda.publish(definitions)
        self.store.workers.beat(info(worker, periodic={each.name: each.digest for each in definitions}), 30)

    def leave(self, worker: str) -> None:
        """A worker ends."""
        self.store.workers.leave(worker)

    def lead(self, queue: str = "default") -> float | None:
        """The leader looks around and deals with what is due."""
        self.ticker.take_over()
        return self.ticker.turn(queue)

    def start(self, *definitions: Definition) -> PeriodicTask:
        """A worker starts with these, and the leader hears of them; the first."""
        self.announce("w1", *definitions)
        self.lead()
        return self.store.periodic.get(definitions[0].name)


@pytest.fixture
def fleet(store: Store) -> Fleet:
    return Fleet(store)


@pytest.fixture
def to_the_tick(store: Store, clock: Clock) -> Callable[[str], int]:
    """Move the clock to the next tick of a periodic task; the tick."""

    def move(name: str = "mail") -> int:
        task = store.periodic.get(name)
        next_ms, now_ms = task.next_ms, store.agenda.of(task.queue).now_ms
        assert next_ms is not None
        clock.advance(max(0, next_ms - now_ms) / 1000)
        return next_ms

    return move


# Ticks


@both
@pytest.mark.drains
def test_a_tick_makes_one_task_at_its_time_however_often_one_looks(fleet, hand, to_the_tick):
    fleet.start(MAIL)
    assert hand.claim() == []
    tick = to_the_tick()
    for _ in range(3):
        fleet.lead()
    (claim,) = hand.claim()
    assert (claim.type, claim.payload) == ("mail", b'{"to":"ann"}')
    assert claim.task_id == MAIL.task_id(tick)
    assert claim.headers["dtq-periodic"] == "mail"
    hand.end(claim)
    known = fleet.store.periodic.get("mail")
    assert (known.last_ms, known.last_task, known.next_ms) == (tick, claim.task_id, tick + MINUTE_MS)


@pytest.mark.drains
def test_leaders_that_are_at_it_together_make_one_task_of_a_tick(fleet, hand, to_the_tick):
    fleet.start(MAIL)
    for _ in range(5):
        to_the_tick()
        leaders = [Fleet(fleet.store) for _ in range(8)]
        gate = threading.Barrier(8)

        def look(leader: Fleet, gate: threading.Barrier = gate) -> None:
            leader.ticker.take_over()
            gate.wait(5)
            leader.ticker.turn("default")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(look, leaders))
        (claim,) = hand.claim()
        hand.end(claim)


@pytest.mark.drains
def test_a_tick_that_is_dealt_with_again_does_nothing(fleet, hand, store, to_the_tick):
    task = fleet.start(MAIL)
    turn = Turn(to_the_tick(), runs=True)
    assert [store.agenda.deal(task, turn) for _ in range(3)] == [True, False, False]
    assert len(claimed(hand)) == 1


@pytest.mark.drains
def test_a_tick_that_has_not_come_is_refused(fleet, hand, store):
    task = fleet.start(MAIL)
    assert task.next_ms is not None
    assert store.agenda.deal(task, Turn(task.next_ms, runs=True)) is False
    assert hand.claim() == []


@pytest.mark.drains
def test_a_tick_that_comes_again_after_hours_finds_its_task(fleet, hand, clock, store, to_the_tick):
    fleet.start(replaced(every_ms=300 * MINUTE_MS))
    to_the_tick()
    fleet.lead()
    (claim,) = claimed(hand)
    clock.advance(-4 * 3600)
    fleet.lead()
    to_the_tick()
    fleet.lead()
    assert hand.claim() == []
    assert store.inspect.get(claim.task_id).status == "succeeded"
    assert store.periodic.get("mail").last_task == claim.task_id


@pytest.mark.drains
def test_a_leader_that_knows_an_old_definition_only_does_nothing_by_it(fleet, hand, store, to_the_tick):
    old = fleet.start(MAIL)
    fleet.start(replaced(payload='{"to":"bob"}'))
    tick = to_the_tick()
    assert store.agenda.deal(old, Turn(tick, runs=True)) is False
    fleet.lead()
    assert [claim.payload for claim in claimed(hand)] == [b'{"to":"bob"}']


def test_what_a_lost_list_of_queues_hides_is_found_again_by_the_leader(fleet, store, client):
    fleet.start(MAIL)
    client.srem(store.keys.queues(), "default")
    assert store.periodic.list() == []
    fleet.lead()
    assert [each.name for each in store.periodic.list()] == ["mail"]


@both
@pytest.mark.drains
def test_each_of_some_ticks_that_are_a_little_late_has_its_task(fleet, hand, clock):
    fleet.start(replaced(every_ms=10_000))
    clock.advance(45)
    fleet.lead()
    assert len(claimed(hand)) in {4, 5}


@pytest.mark.parametrize(("catch_up", "runs"), [(CatchUp.SKIP, 0), (CatchUp.ONCE, 1)])
@pytest.mark.drains
def test_after_an_outage_missed_ticks_are_skipped_or_run_once(fleet, hand, clock, to_the_tick, catch_up, runs):
    fleet.start(replaced(every_ms=60 * MINUTE_MS, catch_up=catch_up))
    to_the_tick()
    clock.advance(5 * 3600 + 120)
    fleet.lead()
    assert len(claimed(hand)) == runs
    to_the_tick()
    fleet.lead()
    assert len(claimed(hand)) == 1


@pytest.mark.drains
def test_a_clock_that_is_put_back_brings_no_tick_again(fleet, hand, clock, to_the_tick):
    fleet.start(MAIL)
    to_the_tick()
    fleet.lead()
    assert len(claimed(hand)) == 1
    clock.advance(-3600)
    fleet.lead()
    clock.advance(3590)
    fleet.lead()
    assert hand.claim() == []


@pytest.mark.drains
def test_a_clock_that_was_a_year_ahead_does_not_stop_the_ticks(fleet, hand, clock, to_the_tick):
    fleet.start(MAIL)
    clock.advance(365 * 86_400)
    fleet.lead()
    claimed(hand)
    clock.advance(-365 * 86_400)
    fleet.lead()
    to_the_tick()
    fleet.lead()
    assert len(claimed(hand)) == 1


@pytest.mark.drains
def test_jitter_delays_the_start_and_not_the_next_tick(fleet, hand, clock, store, to_the_tick):
    fleet.start(replaced(jitter_ms=30_000))
    tick = to_the_tick()
    fleet.lead()
    (task,) = store.inspect.tasks(queue="default").items
    assert task.due_ms is not None
    assert 0 < task.due_ms - tick < 30_000
    clock.advance(30)
    store.schedule.promote("default")
    assert len(claimed(hand)) == 1


def test_a_dead_lettered_tick_does_not_block_the_next(fleet, hand, to_the_tick):
    fleet.start(MAIL)
    for _ in range(2):
        to_the_tick()
        fleet.lead()
        (claim,) = hand.claim()
        hand.end(claim, DeadLetter(error(), "x"))


def test_a_full_queue_does_not_keep_a_tick_out(make_store, hand, clock):
    fleet = Fleet(make_store(max_queue_depth=1))
    fleet.start(MAIL)
    for _ in range(3):
        clock.advance(60)
        fleet.lead()
    assert fleet.store.inspect.queue("default").waiting == 3


@pytest.mark.not_on_a_cluster("the server's limit is set by hand")
def test_on_a_full_server_a_tick_waits_until_there_is_room(make_server, store_at, settings):
    store = store_at(make_server(maxmemory="64mb", maxmemory_policy="noeviction").url)
    fleet, clock = Fleet(store), Clock(store.connection.client, settings)
    fleet.start(MAIL)
    clock.advance(60)
    store.connection.client.config_set("maxmemory", "1mb")
    fleet.ticker.turn("default")
    assert store.inspect.queue("default").waiting == 0
    next_ms = store.periodic.get("mail").next_ms
    assert next_ms is not None
    assert next_ms <= store.agenda.of("default").now_ms
    store.periodic.pause("mail")
    store.periodic.resume("mail")
    store.connection.client.config_set("maxmemory", "64mb")
    clock.advance(60)
    fleet.ticker.turn("default")
    assert store.inspect.queue("default").waiting == 1


@pytest.mark.drains
def test_a_task_that_cannot_be_read_here_does_not_stop_the_others(fleet, hand, client, to_the_tick):
    fleet.start(MAIL, replaced(name="other"), replaced(name="third"))
    client.hset(fleet.store.keys.periodic_task("default", "other"), "definition", "of another release")
    client.set(fleet.store.keys.periodic_task("default", "third"), "a string")
    to_the_tick()
    fleet.ticker.turn("default")
    assert [claim.headers["dtq-periodic"] for claim in claimed(hand)] == ["mail"]
    client.delete(fleet.store.keys.periodic_task("default", "third"))


def test_a_new_leader_takes_over_what_is_sound_beside_a_damaged_one(fleet, hand, store, client, to_the_tick, caplog):
    fleet.start(replaced(name="a"), MAIL)
    client.set(store.keys.periodic_task("default", "a"), "a string")
    to_the_tick()
    next_leader = Ticker(store)
    fleet.announce("w2", replaced(name="a"), MAIL, replaced(name="z"))
    next_leader.take_over()
    next_leader.turn("default")
    assert [claim.headers["dtq-periodic"] for claim in hand.claim()] == ["mail"]
    assert [each.name for each in store.periodic.list()] == ["mail", "z"]
    assert "cannot deal with the periodic task a: " in caplog.text
    client.delete(store.keys.periodic_task("default", "a"))


@pytest.mark.drains
def test_a_new_leader_that_cannot_hear_of_workers_deals_with_the_ticks_all_the_same(
    fleet, hand, store, client, to_the_tick
):
    fleet.start(MAIL)
    client.delete(store.keys.workers())
    client.set(store.keys.workers(), "a string")
    to_the_tick()
    next_leader = Ticker(store)
    with pytest.raises(RedisDamaged):
        next_leader.take_over()
    next_leader.turn("default")
    assert len(claimed(hand)) == 1
    client.delete(store.keys.workers())


@pytest.mark.drains
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at", "nan"),
        ("at", "9" * 300),
        ("at", "-" + "9" * 17),
        ("last", "9" * 40),
        ("task", b"\xff"),
        ("digest", b"\xff"),
        ("definition", "{"),
        ("definition", '{"name":"mail","type":"mail","every_ms":0}'),
        ("removed", "soon"),
    ],
)
def test_a_field_that_cannot_be_read_is_mended_by_the_leader(fleet, hand, store, client, to_the_tick, field, value):
    fleet.start(replaced(every_ms=None, cron="* * * * *"))
    to_the_tick()
    fleet.lead()
    client.hset(store.keys.periodic_task("default", "mail"), field, value)
    fleet.lead()
    to_the_tick()
    fleet.lead()
    assert len(claimed(hand)) == 2
    assert store.periodic.get("mail").last_task == MAIL.task_id(store.periodic.get("mail").at_ms)


def test_what_was_paused_by_a_note_that_nobody_can_read_stays_paused_and_can_be_resumed(fleet, store, client):
    fleet.start(MAIL)
    client.hset(store.keys.periodic_task("default", "mail"), "paused", "by somebody")
    fleet.lead()
    known = store.periodic.get("mail")
    assert (known.is_active, known.paused_ms, known.paused_by) == (False, known.at_ms, "")
    store.periodic.resume("mail")
    assert store.periodic.get("mail").is_active


@pytest.mark.drains
def test_what_is_missed_for_a_moment_does_not_run_and_loses_no_tick(fleet, hand, store, to_the_tick):
    fleet.start(MAIL)
    leader = Ticker(store, patience=3)
    fleet.leave("w1")
    for _ in range(2):
        leader.take_over()
    to_the_tick()
    leader.turn("default")
    assert hand.claim() == []
    assert store.periodic.get("mail").is_active
    fleet.announce("w1", MAIL)
    leader.take_over()
    leader.turn("default")
    assert len(claimed(hand)) == 1
    fleet.leave("w1")
    for removed in (False, False, True):
        leader.take_over()
        assert (store.periodic.get("mail").removed_ms is not None) is removed


def test_a_zone_that_is_unknown_here_stops_only_its_own_task(fleet, hand, to_the_tick):
    fleet.start(MAIL, replaced(name="other", every_ms=None, cron="* * * * *", tz="Moon/Tycho"))
    to_the_tick()
    assert fleet.lead() is not None
    assert len(hand.claim()) == 1
    assert fleet.store.periodic.get("other").next_ms is None


def test_a_damaged_index_is_told(fleet, client):
    fleet.start(MAIL)
    client.set(fleet.store.keys.periodic("default"), "no set")
    with pytest.raises(RedisDamaged):
        fleet.ticker.turn("default")


@pytest.mark.drains
def test_the_next_tick_is_known_to_the_millisecond(fleet, store, hand):
    fleet.start(MAIL)
    wait_s, known = fleet.ticker.turn("default"), store.periodic.get("mail")
    assert wait_s is not None
    assert known.next_ms is not None
    assert abs(store.agenda.of("default").now_ms + wait_s * 1000 - known.next_ms) < 500
    assert fleet.ticker.turn("another") is None


# Definitions


def test_the_newest_definition_wins_and_an_old_one_does_not_come_back_with_its_worker(fleet, store):
    newer = replaced(payload='{"to":"bob"}')
    fleet.announce("old", MAIL)
    fleet.lead()
    fleet.announce("new", newer)
    fleet.lead()
    assert store.periodic.get("mail").digest == newer.digest
    fleet.leave("old")
    fleet.announce("old-again", MAIL)
    fleet.lead()
    assert store.periodic.get("mail").digest == newer.digest
    fleet.leave("new")
    fleet.lead()
    assert store.periodic.get("mail").digest == MAIL.digest


def test_two_leaders_agree_on_the_newest(fleet, store):
    fleet.announce("b", replaced(payload='{"to":"bob"}'))
    fleet.announce("a", MAIL)
    assert store.agenda.announced() == Fleet(store).store.agenda.announced() == {"mail": MAIL}


@pytest.mark.drains
def test_another_schedule_has_missed_nothing_and_other_arguments_miss_nothing(fleet, hand, clock, store, to_the_tick):
    fleet.start(replaced(every_ms=60 * MINUTE_MS, catch_up=CatchUp.ONCE))
    clock.advance(1800)
    before = store.periodic.get("mail").at_ms
    fleet.announce("w1", replaced(every_ms=60 * MINUTE_MS, catch_up=CatchUp.ONCE, payload='{"to":"eve"}'))
    fleet.lead()
    assert store.periodic.get("mail").at_ms in {before, store.periodic.get("mail").last_ms}
    claimed(hand)
    fleet.announce("w1", replaced(every_ms=MINUTE_MS, catch_up=CatchUp.ONCE))
    fleet.lead()
    assert hand.claim() == []


def test_what_no_worker_has_is_removed_and_shown_for_a_day(fleet, hand, store, clock, to_the_tick):
    fleet.start(MAIL)
    to_the_tick()
    fleet.leave("w1")
    fleet.lead()
    known = store.periodic.get("mail")
    assert known.removed_ms is not None
    assert (known.is_active, known.next_ms) == (False, None)
    clock.advance(60)
    fleet.lead()
    assert hand.claim() == []
    for verb in (store.periodic.pause, store.periodic.resume, store.periodic.trigger):
        with pytest.raises(InvalidTransition, match="was removed from the code"):
            verb("mail")
    clock.advance(86_400, ttls=True)
    assert store.periodic.list() == []
    fleet.ticker.turn("default")
    with pytest.raises(PeriodicNotFound):
        store.periodic.get("mail")
    assert store.connection.client.exists(store.keys.periodic("default")) == 0


def test_what_comes_back_within_a_day_is_as_it_was(fleet, hand, store, clock, to_the_tick):
    fleet.start(replaced(catch_up=CatchUp.ONCE))
    store.periodic.pause("mail", actor="ann", reason="too much")
    fleet.leave("w1")
    fleet.lead()
    fleet.announce("w2", replaced(catch_up=CatchUp.ONCE))
    fleet.lead()
    known = store.periodic.get("mail")
    assert (known.removed_ms, known.paused_by, known.pause_reason) == (None, "ann", "too much")
    assert store.connection.client.ttl(store.keys.periodic_task("default", "mail")) == -1


@pytest.mark.drains
def test_one_that_moves_to_another_queue_takes_along_how_far_it_came(fleet, store, clock, to_the_tick):
    fleet.start(MAIL)
    fleet.start(replaced(queue="fast"))
    clock.advance(0)
    store.periodic.pause("mail", actor="ann")
    fleet.start(replaced(queue="slow"))
    by_queue = {each.queue: each for each in store.periodic.list()}
    assert [each for each, task in by_queue.items() if task.removed_ms is None] == ["slow"]
    assert by_queue["slow"].paused_by == "ann"
    assert by_queue["slow"].at_ms == by_queue["fast"].at_ms == by_queue["default"].at_ms
    assert store.periodic.get("mail").queue == "slow"


def test_a_definition_of_a_newer_release_is_left_as_it_is(fleet, store, client):
    fleet.start(MAIL)
    newer = replaced(payload='{"to":"bob"}')
    fleet.announce("w2", newer)
    client.hset(store.keys.definition("mail", newer.digest), "body", '{"from the": "future"}')
    fleet.lead()
    assert store.periodic.get("mail").digest == MAIL.digest
    assert store.periodic.get("mail").is_active


# Verbs


@both
@pytest.mark.drains
def test_what_is_paused_lets_its_ticks_pass_and_goes_on_with_the_next(fleet, hand, store, clock, to_the_tick):
    fleet.start(replaced(catch_up=CatchUp.ONCE))
    store.periodic.pause("mail", actor="ann", reason="why")
    known = store.periodic.get("mail")
    assert (known.is_active, known.paused_by, known.pause_reason, known.next_ms) == (False, "ann", "why", None)
    clock.advance(3600)
    fleet.lead()
    store.periodic.resume("mail", actor="bob")
    fleet.lead()
    assert hand.claim() == []
    to_the_tick()
    fleet.lead()
    assert len(claimed(hand)) == 1
    assert [entry.action for entry in store.events.audit("default", 10)] == ["resume_periodic", "pause_periodic"]


@both
@pytest.mark.drains
def test_trigger_runs_it_now_once_for_a_request_even_while_it_is_paused(fleet, hand, store):
    task = fleet.start(MAIL)
    store.periodic.pause("mail")
    first = store.periodic.trigger("mail", actor="ann", reason="now", request="r1")
    again = store.periodic.trigger("mail", actor="ann", reason="now", request="r1")
    assert (first.id, first.queue) == (again.id, again.queue)
    assert ids(claimed(hand)) == [first.id]
    known = store.periodic.get("mail")
    assert (known.last_task, known.at_ms) == (first.id, task.at_ms)
    (entry, _) = store.events.audit("default", 10)
    assert (entry.action, entry.target, entry.actor) == ("trigger_periodic", "mail", "ann")
    assert (entry.reason, entry.request) == ("now", "r1")


def test_a_request_that_is_sent_again_pauses_nothing_again(fleet, store):
    fleet.start(MAIL)
    store.periodic.pause("mail", request="r1")
    store.periodic.resume("mail", request="r2")
    store.periodic.pause("mail", request="r1")
    assert store.periodic.get("mail").is_active


def test_resuming_what_is_not_paused_loses_no_tick(fleet, hand, store, to_the_tick):
    fleet.start(MAIL)
    to_the_tick()
    store.periodic.resume("mail")
    fleet.lead()
    assert len(hand.claim()) == 1


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "get"])
def test_an_unknown_name_is_told(store, verb):
    with pytest.raises(PeriodicNotFound, match="no periodic task nope"):
        getattr(store.periodic, verb)("nope")


UNIQUE = Deduplication(unique=Unique.UNTIL_DONE)


@both
def test_a_tick_of_a_unique_task_is_absorbed_while_the_last_one_goes_on(fleet, hand, store, to_the_tick):
    fleet.start(replaced(deduplication=UNIQUE))
    first_ms = to_the_tick("mail")
    fleet.lead()
    (running,) = hand.claim()
    second_ms = to_the_tick("mail")
    fleet.lead()
    assert hand.claim() == []
    known = store.periodic.get("mail")
    assert (known.at_ms, known.last_ms, known.last_task) == (second_ms, first_ms, running.task_id)
    hand.end(running)
    to_the_tick("mail")
    fleet.lead()
    assert len(hand.claim()) == 1


def test_a_trigger_of_a_unique_task_is_answered_with_the_one_that_goes_on(fleet, hand, store):
    fleet.start(replaced(deduplication=UNIQUE))
    first = store.periodic.trigger("mail")
    again = store.periodic.trigger("mail", request="r1")
    assert (again.id, again.outcome, again.unique) == (first.id, SubmitOutcome.DUPLICATE, True)
    assert store.periodic.trigger("mail", request="r1") == again
    assert ids(claimed(hand)) == [first.id]


@pytest.mark.keeps_keys
def test_a_tick_whose_unique_key_is_damaged_waits_for_a_repair(fleet, store, client, to_the_tick, caplog):
    fleet.start(replaced(deduplication=UNIQUE))
    store.periodic.trigger("mail")
    (lock,) = client.keys(f"{store.keys.prefix}:unique:*")
    client.delete(lock)
    client.rpush(lock, "junk")
    tick_ms = to_the_tick("mail")
    fleet.lead()
    assert "unique key or throttle of mail" in caplog.text
    assert store.periodic.get("mail").at_ms < tick_ms


def test_a_definition_without_these_options_is_told_from_others_as_before():
    assert b"deduplication" not in msgspec.json.encode(MAIL)

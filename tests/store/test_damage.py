"""Keys that hold something else: a script does all it should or refuses and has written nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import redis

from dtq_engine import Dtq
from dtq_engine.errors import RedisDamaged, TaskNotFound
from dtq_engine.ids import new_token
from dtq_engine.model import (
    FINAL,
    AttemptError,
    Block,
    Cancel,
    DeadLetter,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    Succeed,
    TaskStatus,
    Transition,
)
from dtq_engine.store import Store
from tests.store.hand import QUEUE, Hand, error, ids

pytestmark = pytest.mark.keeps_keys

LONG = b'"' + b"x" * 99 + b'"'


class World:
    """A queue with a task in every state, so that each script has something to do."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.queue = QUEUE
        self.hand = hand = Hand(store)
        hand.end(hand.start("dead", payload=LONG, idempotency_key="dead"), DeadLetter(error(), "permanent"))
        hand.end(hand.start("retrying"), Reschedule(error(), 60_000))
        hand.end(hand.start("retrying-low", priority=2), Reschedule(error(), 60_000))
        hand.submit("blocked", type="unknown")
        hand.submit("pending", delay_ms=60_000, priority=3)
        hand.submit("r1", payload=LONG, priority=9, idempotency_key="r1")
        hand.submit("r2", priority=4)
        self.claims = hand.claim(2)
        hand.submit("queued", payload=LONG, priority=6)

    def make_all_due(self) -> None:
        keys, client = self.store.keys, self.store.connection.client
        for key in (keys.schedule(self.queue), keys.retry_schedule(self.queue), keys.blocked(self.queue)):
            for member in client.zrange(key, 0, -1):
                client.zadd(key, {member: 1})

    def expire_leases(self) -> None:
        client, keys = self.store.connection.client, self.store.keys
        for claim in self.claims:
            stream = keys.stream(self.queue, claim.priority)
            client.xclaim(stream, "workers", "w1", 0, [claim.entry], idle=60_000, justid=True)


def submit(world: World) -> None:
    names = {f"n{priority}": priority for priority in range(10)}
    tasks = [NewTask(id=name, type="mail", queue=world.queue, priority=p, payload=LONG) for name, p in names.items()]
    world.store.intake.submit([*tasks, NewTask(id="later", type="mail", queue=world.queue, delay_ms=1)])


def claim(world: World) -> None:
    world.hand.ask()


def renew(world: World) -> None:
    world.store.leases.renew(world.claims)


def succeed(world: World) -> None:
    world.hand.end_all(world.claims, Succeed(LONG))


def retry(world: World) -> None:
    world.hand.end_all(world.claims, Reschedule(error(), 1000))


def retry_at_once(world: World) -> None:
    world.hand.end_all(world.claims, Reschedule(error(), 0))


def give_up(world: World) -> None:
    world.hand.end_all(world.claims, DeadLetter(AttemptError("E", "m"), "permanent"))


def promote(world: World) -> None:
    world.store.schedule.promote(world.queue)


def reclaim(world: World) -> None:
    world.store.schedule.reclaim(world.queue, reaper="w2", token=new_token())


def cancel_waiting(world: World) -> None:
    world.store.control.cancel("queued", queue=world.queue)


def cancel_delayed(world: World) -> None:
    world.store.control.cancel("pending", queue=world.queue)


def cancel_running(world: World) -> None:
    world.store.control.cancel("r1", queue=world.queue)


def requeue(world: World) -> None:
    world.store.control.requeue("dead", queue=world.queue)


def discard(world: World) -> None:
    world.store.control.discard("dead", queue=world.queue)


def announce(world: World) -> None:
    world.store.workers.announce([world.queue], ["mail"])


def trim(world: World) -> None:
    world.store.schedule.trim(world.queue)


def run_now(world: World) -> None:
    world.store.control.run_now("retrying", queue=world.queue)


def reprioritise(world: World) -> None:
    world.store.control.reprioritise("queued", 2, queue=world.queue)


def sweep(world: World) -> None:
    world.store.sweep.run()


def retire(world: World) -> None:
    world.store.workers.retire(world.queue, idle_ms=0)


def pause(world: World) -> None:
    world.store.control.pause(world.queue)


def resume(world: World) -> None:
    world.store.control.resume(world.queue)


VERBS: list[Callable[[World], None]] = [
    submit,
    claim,
    renew,
    succeed,
    retry,
    retry_at_once,
    give_up,
    promote,
    reclaim,
    cancel_waiting,
    cancel_delayed,
    cancel_running,
    requeue,
    discard,
    announce,
    trim,
    run_now,
    reprioritise,
    sweep,
    retire,
    pause,
    resume,
]


def victims(world: World) -> Iterator[str]:
    """Every key that a script might trip over."""
    keys, queue = world.store.keys, world.queue
    yield from (keys.stream(queue, priority) for priority in (9, 6, 5, 4, 3, 2))
    yield from (keys.schedule(queue), keys.retry_schedule(queue), keys.blocked(queue), keys.dead_letters(queue))
    yield from (keys.index(queue, status) for status in sorted(FINAL))
    yield from (
        keys.counters(queue),
        keys.events(queue),
        keys.audit(queue),
        keys.wake(queue),
        keys.wake_schedule(queue),
    )
    yield from (keys.pulse(queue), keys.types(queue, world.hand.digest))
    yield from (keys.idempotency(queue, "dead"), keys.idempotency(queue, "r1"))
    for task_id in ("queued", "r1", "dead", "pending"):
        yield from (keys.task(queue, task_id), keys.payload(queue, task_id), keys.errors(queue, task_id))
    yield keys.result(queue, "r1")


def harm(client: redis.Redis, key: str) -> None:
    """Put something else under a key."""
    is_text = client.type(key) in {b"string", b"none"} and ":errors:" not in key
    client.delete(key)
    if is_text:
        client.rpush(key, "damaged")
    else:
        client.set(key, "damaged")


Snapshot = dict[bytes, tuple[bytes, int]]


def snapshot(client: redis.Redis, prefix: str) -> Snapshot:
    """All keys: what they hold, and for how long; but not a queue's count, which goes by itself within a second."""
    keys = [key for key in client.scan_iter(match=f"{prefix}:*", count=1000) if b":depth:" not in key]
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.dump(key)
            pipe.pexpiretime(key)
        replies = pipe.execute()
    return dict(zip(keys, zip(replies[::2], replies[1::2], strict=True), strict=True))


def restore(client: redis.Redis, prefix: str, former: Snapshot) -> None:
    now = set(client.scan_iter(match=f"{prefix}:*", count=1000))
    with client.pipeline(transaction=False) as pipe:
        for key in now - former.keys():
            pipe.delete(key)
        for key, (held, until) in former.items():
            pipe.restore(key, max(0, until), held, replace=True, absttl=until > 0)
        pipe.execute()


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_with_a_damaged_key_a_verb_acts_or_refuses_and_writes_nothing(world, client, settings, verb):
    world.make_all_due()
    world.expire_leases()
    intact = snapshot(client, settings.prefix)
    for key in victims(world):
        harm(client, key)
        before = snapshot(client, settings.prefix)
        try:
            verb(world)
        except (RedisDamaged, TaskNotFound):
            assert snapshot(client, settings.prefix) == before, key
        restore(client, settings.prefix, intact)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_in_an_intact_world_each_verb_acts(world, client, settings, verb):
    world.make_all_due()
    world.expire_leases()
    before = snapshot(client, settings.prefix)
    verb(world)
    assert verb in {trim, sweep} or snapshot(client, settings.prefix) != before


# One damaged task does not stop the others


@pytest.mark.parametrize("kind", ["task", "idempotency", "band", "schedule", "holder"])
def test_a_damaged_neighbour_does_not_keep_tasks_from_being_accepted(world, store, client, kind):
    keys = store.keys
    if kind == "holder":
        client.set(keys.idempotency(QUEUE, "k"), "f somebody L")
    named = {"task": keys.task(QUEUE, "n2"), "idempotency": keys.idempotency(QUEUE, "k"), "band": keys.stream(QUEUE, 0)}
    harm(client, (named | {"schedule": keys.schedule(QUEUE), "holder": keys.task(QUEUE, "somebody")})[kind])
    delay_ms = 60_000 if kind == "schedule" else 0
    broken = NewTask(id="n2", type="mail", payload=LONG, idempotency_key="k", priority=0, delay_ms=delay_ms)
    receipts = store.intake.submit([NewTask(id="n1", type="mail"), broken, NewTask(id="n3", type="mail")])
    assert [receipt.outcome.value for receipt in receipts] == ["new", "damaged", "new"]
    assert not receipts[1].accepted
    assert (world.hand.status("n1"), world.hand.status("n3")) == ("queued", "queued")
    assert client.exists(keys.payload(QUEUE, "n2")) == 0


def test_a_damaged_neighbour_has_the_error_for_an_answer(store, settings, client):
    app = Dtq(settings)
    mail = NewTask(id="n1", type="mail")
    client.set(store.keys.task("default", "n2"), "damaged")
    answers = app.submit_many([mail, replace(mail, id="n2"), replace(mail, id="n3")])
    assert [type(each).__name__ for each in answers] == ["Handle", "RedisDamaged", "Handle"]
    with pytest.raises(RedisDamaged, match="n2"):
        app.submit(replace(mail, id="n2"))
    app.close()


def test_an_outcome_needs_only_the_keys_that_it_writes(world, client):
    keys, hand = world.store.keys, world.hand
    index = keys.index(QUEUE, TaskStatus.SUCCEEDED)
    client.set(index, "damaged")
    ends = [(world.claims[0], Succeed(LONG)), (world.claims[1], Reschedule(error(), 1000))]
    assert world.store.leases.finalize(ends) == ["DAMAGED", "OK"]
    assert hand.status("r1") == "running"
    client.delete(index)
    assert world.store.leases.finalize(ends) == ["OK", "DUP"]


ENDS: dict[str, tuple[Transition, set[str]]] = {
    "succeed": (Succeed(None), {"succeeded"}),
    "retry": (Reschedule(error(), 1000), {"retry"}),
    "retry at once": (Reschedule(error(), 0), set[str]()),
    "snooze": (Postpone(1000), {"retry"}),
    "snooze for no time": (Postpone(0), set[str]()),
    "release": (Release(), set[str]()),
    "cancel": (Cancel(error()), {"cancelled"}),
    "die": (DeadLetter(error(), "permanent"), {"dead_lettered", "letters"}),
    "block": (Block("unknown_task_type:mail"), {"blocked", "dead_lettered", "letters"}),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_end_is_refused_for_the_keys_that_it_needs_and_for_no_others(store, client, settings, name):
    hand, keys, (end, needed) = Hand(store), store.keys, ENDS[name]
    claim = hand.start("a")
    shared = {status.value: keys.index(QUEUE, status) for status in FINAL} | {
        "retry": keys.retry_schedule(QUEUE),
        "schedule": keys.schedule(QUEUE),
        "blocked": keys.blocked(QUEUE),
        "letters": keys.dead_letters(QUEUE),
    }
    intact = snapshot(client, settings.prefix)
    for damaged, key in shared.items():
        client.set(key, "damaged")
        before = snapshot(client, settings.prefix)
        assert (hand.end(claim, end) == "DAMAGED") is (damaged in needed), damaged
        assert (snapshot(client, settings.prefix) == before) is (damaged in needed), damaged
        restore(client, settings.prefix, intact)


@pytest.mark.parametrize("broken", ["schedule", "retry", "blocked", "letters", "expired", "band"])
def test_a_damaged_key_keeps_only_those_from_promotion_that_need_it(store, client, clock, broken):
    hand, keys = Hand(store), store.keys
    hand.submit("delayed", delay_ms=1000)
    hand.submit("delayed-low", delay_ms=1000, priority=1)
    hand.end(hand.start("retrying", priority=6), Reschedule(error(), 1000))
    hand.end(hand.start("blocked", priority=7), Block("unknown_task_type:mail"))
    named = {
        "schedule": (keys.schedule(QUEUE), {"delayed", "delayed-low"}),
        "retry": (keys.retry_schedule(QUEUE), {"retrying"}),
        "blocked": (keys.blocked(QUEUE), {"blocked"}),
        "letters": (keys.dead_letters(QUEUE), set[str]()),
        "expired": (keys.index(QUEUE, TaskStatus.EXPIRED), set[str]()),
        "band": (keys.stream(QUEUE, 1), {"delayed-low"}),
    }
    key, kept = named[broken]
    clock.advance(2)
    client.delete(key)
    client.set(key, "damaged")
    promotion = store.schedule.promote(QUEUE)
    tasks = {"delayed", "delayed-low", "retrying", "blocked"}
    assert {name for name in tasks if hand.status(name) != "queued"} == kept
    assert (promotion.damage is not None) is (kept != set())
    assert promotion.damage is None or key in promotion.damage
    assert broken != "band" or client.zscore(keys.schedule(QUEUE), "delayed-low") > store.now_ms()
    client.delete(key)
    store.sweep.run()
    clock.advance(61)
    store.schedule.promote(QUEUE)
    assert {hand.status(name) for name in tasks} == {"queued"}


LAST_ID = "18446744073709551615-18446744073709551615"


def test_a_task_that_its_stream_refuses_waits_and_its_neighbours_are_accepted(store, client, clock):
    hand = Hand(store)
    store.workers.register_queue(QUEUE)
    client.xadd(store.keys.stream(QUEUE, 5), {"i": "last"}, id=LAST_ID)
    named = {"n1": 6, "n2": 5, "n3": 4}
    tasks = [NewTask(id=name, type="mail", payload=LONG, priority=priority) for name, priority in named.items()]
    assert [receipt.outcome.value for receipt in store.intake.submit(tasks)] == ["new"] * 3
    assert ids(hand.claim()) == ["n1", "n3"]
    assert (hand.status("n2"), hand.task("n2").reason) == ("blocked", "stream_refuses")
    clock.advance(61)
    store.schedule.promote(QUEUE)
    assert hand.status("n2") == "blocked"
    client.delete(store.keys.stream(QUEUE, 5))
    clock.advance(61)
    store.schedule.promote(QUEUE)
    assert ids(hand.claim()) == ["n2"]


def test_executions_end_though_the_stream_that_they_go_back_to_refuses_them(store, client, clock):
    hand = Hand(store)
    hand.submit("again", "done")
    claims = hand.claim()
    client.xadd(store.keys.stream(QUEUE, 5), {"i": "last"}, id=LAST_ID)
    ends = [(claims[0], Reschedule(error(), 0)), (claims[1], Succeed(None))]
    assert store.leases.finalize(ends) == ["OK", "OK"]
    assert (hand.status("again"), hand.status("done")) == ("blocked", "succeeded")
    client.delete(store.keys.stream(QUEUE, 5))
    clock.advance(61)
    store.schedule.promote(QUEUE)
    assert [(claim.task_id, claim.attempt) for claim in hand.claim()] == [("again", 2)]


def test_a_damaged_payload_does_not_stop_a_claim(world, client):
    harm(client, world.store.keys.payload("default", "queued"))
    world.hand.submit("next", priority=6)
    assert [(claim.task_id, claim.payload) for claim in world.hand.claim()] == [("queued", b""), ("next", b"{}")]


def test_a_damaged_payload_does_not_stop_a_reaper(world, client):
    harm(client, world.store.keys.payload("default", "r1"))
    world.expire_leases()
    assert ids(world.hand.reclaim()) == ["r1", "r2"]


def test_a_damaged_history_does_not_keep_a_task_from_its_end(world, client):
    harm(client, world.store.keys.errors("default", "r1"))
    assert world.hand.end_all(world.claims, Reschedule(error(), 0)) == ["OK", "OK"]
    assert [each.message for each in world.hand.task("r1").errors] == ["it did not work"]


def test_a_damaged_idempotency_key_does_not_keep_a_task_from_its_end(world, client):
    harm(client, world.store.keys.idempotency("default", "r1"))
    assert world.hand.end_all(world.claims) == ["OK", "OK"]


def test_a_damaged_record_is_gone_and_its_neighbours_end(world, client):
    harm(client, world.store.keys.task("default", "r1"))
    assert world.hand.end_all(world.claims) == ["GONE", "OK"]


def test_a_damaged_pulse_does_not_keep_leases_from_being_renewed(world, client):
    harm(client, world.store.keys.pulse("default"))
    assert world.store.leases.renew(world.claims).lost == set()
    world.expire_leases()
    assert len(world.hand.reclaim()) == 2


def test_a_damaged_band_does_not_stop_the_others(world, client):
    harm(client, world.store.keys.stream("default", 9))
    assert ids(world.hand.claim()) == ["queued"]

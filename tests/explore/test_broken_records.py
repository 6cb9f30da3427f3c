"""Records with a field that cannot be right stop no script, and none of their neighbours."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dtq_engine.errors import DtqError, RedisRefused
from dtq_engine.model import (
    AttemptError,
    Claim,
    DeadLetter,
    Deduplication,
    NewTask,
    Reschedule,
    Succeed,
    TaskStatus,
    Transition,
    Unique,
)
from dtq_engine.store import Store
from tests.explore.snapshot import QUEUE, shift
from tests.explore.world import Server

FIELDS = "vstrLziejwOhxnySFRGKEmPWBNZduUgAc"
BROKEN = [f"broken-{field}-{number}" for number, field in enumerate(FIELDS)]
SOUND = ["sound-before", "sound-after"]
IDS = [SOUND[0], *BROKEN, SOUND[1]]
ERROR = AttemptError("ValueError", "it did not work")
BIG = b'{"n":"%s"}' % (b"x" * 100)
DAY_MS = 86_400_000


def _unique(key: str) -> Deduplication:
    return Deduplication(unique=Unique.UNTIL_DONE, key=key)


class Bench:
    """Tasks that all went the same way so far, in one batch each time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.digest = store.workers.announce([QUEUE], ("a",))
        self.claims: Sequence[Claim] = ()
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def submit(self, type: str = "a", **fields: object) -> None:
        tasks = [NewTask(id=each, type=type, **fields) for each in IDS]  # type: ignore[arg-type]
        self.store.intake.submit([replace(task, deduplication=_unique(task.id)) for task in tasks])

    def claim(self) -> None:
        reply = self.store.leases.claim(QUEUE, worker="w", token=self.name(), limit=100, types_digest=self.digest)
        self.claims = reply.claims

    def reclaim(self) -> None:
        self.claims = self.store.schedule.reclaim(QUEUE, reaper="r", token=self.name())

    def end(self, transition: Transition) -> None:
        self.store.leases.finalize([(claim, transition) for claim in self.claims])
        self.claims = ()

    def pass_time(self, ms: int) -> None:
        shift(self.store.connection.client, self.store.keys, ms)


def pending(bench: Bench) -> None:
    bench.submit(delay_ms=1_000, expires_in_ms=DAY_MS * 30)


def queued(bench: Bench) -> None:
    bench.submit(expires_in_ms=DAY_MS * 30, idempotency_key="k")


def running(bench: Bench) -> None:
    bench.submit(headers={"h": "x" * 100}, payload=BIG)
    bench.claim()


def reaped(bench: Bench) -> None:
    running(bench)
    bench.pass_time(31_000)
    bench.reclaim()


def retrying(bench: Bench) -> None:
    running(bench)
    bench.end(Reschedule(ERROR, 1_000))


def blocked(bench: Bench) -> None:
    bench.submit(type="b")
    bench.claim()


def dead(bench: Bench) -> None:
    running(bench)
    bench.end(DeadLetter(ERROR, "permanent"))


def succeeded(bench: Bench) -> None:
    running(bench)
    bench.end(Succeed(BIG))


WAYS = (pending, queued, running, reaped, retrying, blocked, dead, succeeded)


def work_on(bench: Bench) -> None:
    """Everything that runs by itself, again and again over a few days. None of it may fail."""
    store = bench.store
    for ms in (0, 2_000, 70_000, DAY_MS, 5 * DAY_MS):
        bench.pass_time(ms)
        bench.digest = store.workers.announce([QUEUE], ("a", "b"))
        store.leases.renew(bench.claims)
        store.schedule.promote(QUEUE)
        bench.reclaim()
        bench.end(Reschedule(ERROR, 0))
        bench.claim()
        store.leases.renew(bench.claims)
        bench.end(Succeed(b"1"))
        store.sweep.run()
        store.schedule.trim(QUEUE)


def act_on(store: Store, task_id: str) -> None:
    """Everything that an operator can do to a task. It may be refused, for a reason."""
    control = store.control
    verbs: tuple[Callable[[], object], ...] = (
        lambda: store.inspect.get(task_id, queue=QUEUE),
        lambda: store.leases.watch(task_id, QUEUE, "p"),
        lambda: control.run_now(task_id, queue=QUEUE),
        lambda: control.reprioritise(task_id, 7, queue=QUEUE),
        lambda: control.cancel(task_id, queue=QUEUE),
        lambda: control.requeue(task_id, queue=QUEUE),
        lambda: control.discard(task_id, queue=QUEUE),
    )
    for verb in verbs:
        try:
            verb()
        except RedisRefused:
            raise
        except DtqError:
            continue


HELD_FOR_EVER = "t 1 1 1 " + "9" * 30


@pytest.mark.parametrize(
    "value",
    ["", "x", "-1", "nan", "5 nan", "1 o nan 0", "+ x *", "1e999", "9" * 400, HELD_FOR_EVER, None],
    ids=lambda value: str(value)[:9],
)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_broken_fields_stop_nobody(server: Server, way: Callable[[Bench], None], value: str | None):
    bench = Bench(server.new_world(keep_succeeded=1_000).store)
    way(bench)
    for task_id in BROKEN:
        key, field = bench.store.keys.task(QUEUE, task_id), task_id.split("-")[1]
        if value is None:
            server.client.hdel(key, field)
        elif server.client.exists(key):
            server.client.hset(key, field, value)
    work_on(bench)
    sound = bench.store.inspect.find(SOUND, queue=QUEUE)
    assert {task.status for task in sound if task} <= {TaskStatus.SUCCEEDED, TaskStatus.DEAD_LETTERED}
    for task_id in BROKEN:
        act_on(bench.store, task_id)
    bench.store.control.purge(QUEUE, delayed=True)
    work_on(bench)
    page = bench.store.inspect.tasks(queue=QUEUE, limit=200)
    living = {task.id for task in page.items if not task.status.is_final}
    assert living <= {"broken-v-0"}, "only a record of a newer release is left to that"

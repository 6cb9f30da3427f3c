"""Damage to keys, as by a careless hand or a lost replica: what heals by itself, and what a sweep repairs."""

from collections.abc import Callable, Sequence

from dtq_engine.keys import Keys
from dtq_engine.model import FINAL, TaskStatus
from tests.explore.calls.leases import Renew
from tests.explore.calls.schedule import Sweep
from tests.explore.snapshot import QUEUE
from tests.explore.stage import Stage

SWEPT_WITHIN_MS = 5_000
LONG_AGO_MS = -(10**12)

Damage = Callable[[Stage, Keys], str | None]


def hurt(stage: Stage) -> None:
    """Damage that must heal as the queue is used."""
    _do_one(stage, HEALS_BY_ITSELF)


def harm(stage: Stage) -> None:
    """Damage that a sweep must repair, after a heartbeat or at once."""
    _do_one(stage, NEEDS_A_SWEEP)
    claims = stage.holdings()
    if claims and stage.dice.random() < 0.5:
        stage.world.perform(Renew(tuple(claims)), checked=False)
    stage.world.perform(Sweep())


def _do_one(stage: Stage, kinds: Sequence[Damage]) -> None:
    """Do the first of these damages, in any order, that has something to damage."""
    for damage in stage.dice.sample(kinds, len(kinds)):
        done = damage(stage, stage.world.store.keys)
        if done is not None:
            stage.world.note(f"damage: {done}")
            stage.world.promises.is_damaged = True
            stage.world.refresh()
            return


def _some_stream(stage: Stage, keys: Keys) -> tuple[int, str]:
    band = stage.dice.choice(sorted({entry.band for entry in stage.world.now.entries}) or [5])
    return band, keys.stream(QUEUE, band)


def double_delivery(stage: Stage, keys: Keys) -> str | None:
    """A task gets a second delivery."""
    waiting = [entry.task_id for entry in stage.world.now.startable()]
    task_id = stage.dice.choice(waiting) if waiting else stage.some_task()
    return _stray(stage, keys, stage.dice.randrange(10), "i", task_id or "nobody")


def junk_delivery(stage: Stage, keys: Keys) -> str | None:
    """Something that is no delivery gets into a stream."""
    return _stray(stage, keys, stage.dice.randrange(10), "junk", "\x00")


def _stray(stage: Stage, keys: Keys, band: int, field: str, value: str) -> str:
    stream = keys.stream(QUEUE, band)
    entry = stage.world.client.xadd(stream, {field: value})
    stage.world.promises.strays.add((band, entry))
    return f"XADD {stream} {field} {value!r}"


def double_member(stage: Stage, keys: Keys) -> str | None:
    """A schedule names a task that does not wait there, due at once."""
    task_id = stage.some_task(ended=0.5)
    schedule, status = stage.dice.choice(
        ((keys.schedule(QUEUE), TaskStatus.PENDING), (keys.retry_schedule(QUEUE), TaskStatus.RETRYING))
    )
    if task_id is None or stage.world.promises.tasks[task_id].status is status:
        return None
    stage.world.client.zadd(schedule, {task_id: stage.world.now.now_ms})
    stage.world.promises.stray_members.add((status, task_id))
    return f"ZADD {schedule} {task_id}"


def lost_group(stage: Stage, keys: Keys) -> str | None:
    """A stream loses its group, and with it all leases of its band."""
    band, stream = _some_stream(stage, keys)
    if band not in stage.world.now.delivered:
        return None
    stage.world.client.xgroup_destroy(stream, "workers")
    return f"XGROUP DESTROY {stream}"


def lost_log(stage: Stage, keys: Keys) -> str | None:
    """The event log is gone, or something else is in its place."""
    stage.world.client.delete(keys.events(QUEUE))
    if stage.dice.random() < 0.5:
        stage.world.client.set(keys.events(QUEUE), "not a stream")
    return "lost event log"


def lost_registration(stage: Stage, keys: Keys) -> str | None:
    """The queue is not registered any more, and nobody's types are."""
    stage.world.client.delete(keys.queue(QUEUE), keys.queues(), *map(str, stage.world.client.keys("dtq:types:*")))
    return "lost registration and types"


def flushed_scripts(stage: Stage, keys: Keys) -> str | None:
    """The server forgets all scripts and functions."""
    stage.world.client.script_flush()
    stage.world.client.function_flush()
    return "SCRIPT FLUSH, FUNCTION FLUSH"


def lost_wakes(stage: Stage, keys: Keys) -> str | None:
    """All wake-up tokens are gone."""
    stage.world.client.delete(keys.wake(QUEUE), keys.wake_schedule(QUEUE))
    return "lost wake-ups"


def lost_stream(stage: Stage, keys: Keys) -> str | None:
    """A whole band is gone: deliveries, leases, group."""
    if not stage.world.now.entries:
        return None
    _, stream = _some_stream(stage, keys)
    stage.world.client.delete(stream)
    return f"DEL {stream}"


def lost_delivery(stage: Stage, keys: Keys) -> str | None:
    """One delivery is gone."""
    if not stage.world.now.entries:
        return None
    entry = stage.dice.choice(stage.world.now.entries)
    stage.world.client.xdel(keys.stream(QUEUE, entry.band), entry.id)
    return f"XDEL {entry}"


def skipped_delivery(stage: Stage, keys: Keys) -> str | None:
    """The group goes on without having delivered what waits."""
    band, stream = _some_stream(stage, keys)
    if band not in stage.world.now.delivered:
        return None
    stage.world.client.xgroup_setid(stream, "workers", "$")
    return f"XGROUP SETID {stream} $"


def future_group(stage: Stage, keys: Keys) -> str | None:
    """The group is ahead of its stream, so that it would skip what comes as well."""
    band, stream = _some_stream(stage, keys)
    if band not in stage.world.now.delivered or not stage.world.now.records:
        return None  # Nothing leads to a queue that is not registered and has no tasks.
    stage.world.client.xgroup_setid(stream, "workers", "99999999999999-0")
    return f"XGROUP SETID {stream} 99999999999999-0"


def lost_schedule(stage: Stage, keys: Keys) -> str | None:
    """Delayed, retrying or blocked tasks are not scheduled any more."""
    names = {
        TaskStatus.PENDING: keys.schedule(QUEUE),
        TaskStatus.RETRYING: keys.retry_schedule(QUEUE),
        TaskStatus.BLOCKED: keys.blocked(QUEUE),
    }
    return _delete_one(stage, [names[status] for status, members in stage.world.now.waiting.items() if members])


def lost_limits(stage: Stage, keys: Keys) -> str | None:
    """Who holds slots of a bucket is forgotten, or who waits for it, or somebody stands there who does not exist."""
    now = stage.world.now
    slots, lines = [keys.slots(QUEUE, each) for each in now.slots], [keys.line(QUEUE, each) for each in now.lines]
    if slots and stage.dice.random() < 0.3:
        key = stage.dice.choice(slots + lines)
        stage.world.client.zadd(key, {"nobody token": 1})
        return f"ZADD {key} 'nobody token'"
    return _delete_one(stage, slots + lines)


def lost_index(stage: Stage, keys: Keys) -> str | None:
    """Finished tasks cannot be listed any more."""
    ended = sorted(status for status, members in stage.world.now.ended.items() if members)
    return _delete_one(stage, [keys.index(QUEUE, status) for status in ended])


def _delete_one(stage: Stage, names: list[str]) -> str | None:
    if not names:
        return None
    name = stage.dice.choice(names)
    stage.world.client.delete(name)
    return f"DEL {name}"


def lost_letters(stage: Stage, keys: Keys) -> str | None:
    """The dead letters are gone."""
    if not stage.world.now.letters:
        return None
    stage.world.client.delete(keys.dead_letters(QUEUE))
    return "lost dead letters"


def lost_expiry(stage: Stage, keys: Keys) -> str | None:
    """A finished task would stay for ever."""
    ended = [known.task.id for known in stage.world.promises.tasks.values() if known.status in FINAL]
    if not ended:
        return None
    task_id = stage.dice.choice(ended)
    for key in (keys.task(QUEUE, task_id), *keys.satellites(QUEUE, task_id)):
        stage.world.client.persist(key)
    return f"PERSIST {task_id}"


def stray_member(stage: Stage, keys: Keys) -> str | None:
    """Something that is no task gets into a schedule and an index."""
    if not stage.world.now.records:
        return None  # Nothing leads to a queue that is not registered and has no tasks.
    stage.world.client.zadd(keys.schedule(QUEUE), {"nobody": stage.world.now.now_ms + 99_000})
    stage.world.client.zadd(keys.index(QUEUE, TaskStatus.SUCCEEDED), {"nobody": stage.world.now.now_ms})
    return "members without a record"


def lost_record(stage: Stage, keys: Keys) -> str | None:
    """A living task is gone for good; nothing of it may be left behind."""
    living = [known for known in stage.world.promises.tasks.values() if known.is_living]
    if not living or len(stage.world.now.records) == 1:
        return None  # Nothing leads to a queue that is not registered and has no tasks.
    known = stage.dice.choice(living)
    stage.world.client.delete(keys.task(QUEUE, known.task.id), *keys.satellites(QUEUE, known.task.id))
    known.status, known.token, known.discarded, known.ended_at_ms = None, "", True, LONG_AGO_MS
    promises = stage.world.promises
    promises.strays |= {(each.band, each.id) for each in stage.world.now.entries if each.task_id == known.task.id}
    return f"DEL {known.task.id}"


def lost_unique_key(stage: Stage, keys: Keys) -> str | None:
    """A task loses its unique key, or somebody has it who knows nothing of it."""
    if not stage.world.now.unique:
        return None
    key = keys.unique(QUEUE, stage.dice.choice(sorted(stage.world.now.unique)))
    if stage.dice.random() < 0.5:
        stage.world.client.delete(key)
        return f"DEL {key}"
    stage.world.client.set(key, "nobody")
    return f"SET {key} nobody"


def lost_state(stage: Stage, keys: Keys) -> str | None:
    """Nobody can read where a task is: it may not start any more, and ends of that."""
    promises = stage.world.promises
    usual = [
        known
        for known in promises.tasks.values()
        if known.is_living
        and known.status is not TaskStatus.BLOCKED
        and not (known.cancel_requested or known.is_reaped)
        if not (known.task.limits or known.task.after or known.task.deduplication)
    ]
    if not usual:
        return None
    known = stage.dice.choice(usual)
    task_id, now_ms = known.task.id, stage.world.now.now_ms
    record = keys.task(QUEUE, task_id)
    if stage.dice.random() < 0.3:
        stage.world.client.hdel(record, "s")
    else:
        stage.world.client.hset(record, "s", stage.dice.choice(("Z", "", "queued")))
    promises.strays |= {(each.band, each.id) for each in stage.world.now.entries if each.task_id == task_id}
    if known.status in {TaskStatus.PENDING, TaskStatus.RETRYING}:
        promises.stray_members.add((known.status, task_id))
    known.status, known.token, known.is_unreadable = TaskStatus.BLOCKED, "", True
    known.blocked_ms = (now_ms, now_ms + SWEPT_WITHIN_MS)
    return f"lost state of {task_id}"


HEALS_BY_ITSELF: tuple[Damage, ...] = (
    double_delivery,
    double_delivery,
    junk_delivery,
    double_member,
    lost_group,
    lost_group,
    lost_log,
    lost_registration,
    flushed_scripts,
    lost_wakes,
)
NEEDS_A_SWEEP: tuple[Damage, ...] = (
    lost_stream,
    lost_stream,
    lost_delivery,
    skipped_delivery,
    future_group,
    lost_schedule,
    lost_limits,
    lost_limits,
    lost_index,
    lost_letters,
    lost_expiry,
    stray_member,
    lost_record,
    lost_state,
    lost_unique_key,
)

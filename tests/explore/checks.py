"""The invariants: what must hold in Redis after every call, whatever happened before it."""

from collections import Counter

from dtq_engine.model import FINAL, TaskStatus, Unique
from tests.explore.family import check_families
from tests.explore.limit_checks import check_limits
from tests.explore.promises import SLACK_MS, Known, Promises, expect
from tests.explore.snapshot import LETTERS, Entry, Record, Snapshot

STATUS_OF = {letter: status for status, letter in LETTERS.items()}
DAY_MS = 86_400_000
COUNTED = {
    "submitted",
    "started",
    "retried",
    "attempts_failed",
    "lease_expired",
    "requeued",
    "discarded",
    "unique",
    "throttled",
    "replaced",
    *(status.value for status in FINAL),
}
LOGGED = {
    "TASK_QUEUED",
    "TASK_STARTED",
    "TASK_RETRY_SCHEDULED",
    "TASK_RETRIED",
    "TASK_FENCED",
    "TASK_DUPLICATE_ABSORBED",
    "WORKER_STARTED",
    "WORKER_STOPPED",
    "WORKER_STALE",
    "CONFIGURATION_CHANGED",
    *(f"TASK_{status.name}" for status in FINAL),
}


def check(now: Snapshot, promises: Promises, log: Counter[str]) -> None:
    """Raise Violation unless every invariant holds. `log`: kinds of all events that were logged so far."""
    expect(not now.strange, "no key is left behind", now.strange)
    _check_existence(now, promises)
    for task_id, record in now.records.items():
        known = promises.tasks[task_id]
        _check_numbers(task_id, record, known)
        _check_satellites(task_id, record, now)
        _check_reports(task_id, record, known, now)
        _check_place(task_id, record, known, now, promises)
        _check_key(task_id, record, known, now, promises)
        _check_unique(task_id, record, known, now, promises)
    _check_entries(now, promises)
    _check_unique_keys(now)
    _check_orphans(now)
    _check_members(now, promises)
    _check_dead_letters(now, promises)
    _check_counters(now, promises, log)
    _check_wakes(now, promises)
    check_families(now, promises)
    _check_periodic(now, promises)
    check_limits(now, promises)
    expect(now.crew == promises.crew, "a queue knows the workers that serve it", now.crew, promises.crew)


def _check_existence(now: Snapshot, promises: Promises) -> None:
    """accepted = terminal + living + gone."""
    expect(now.records.keys() <= promises.tasks.keys(), "nothing exists that was not accepted", *now.records)
    living = sum(known.is_living for known in promises.tasks.values())
    ended = sum(known.status is not None and not known.is_living for known in promises.tasks.values())
    gone = sum(known.status is None for known in promises.tasks.values()) + promises.forgotten
    expect(promises.accepted == living + ended + gone, "accepted = living + ended + gone", living, ended, gone)
    expect(len(now.records) == living + ended, "each task that is not gone has its record", living, ended)


def _check_numbers(task_id: str, record: Record, known: Known) -> None:
    """The record counts as was answered, and holds exactly one live token while it runs."""
    written = [int(record.get(letter) or 0) for letter in "anyfP"]
    counted = [known.attempt, known.restarts, known.expiries, known.fence, known.previous_attempts]
    expect(written == counted, "attempt, restarts, expiries, fence and earlier attempts", task_id, written, counted)
    expect(record.get("p") == str(known.priority), "the priority stays as it was given", task_id, record.get("p"))
    if known.is_living:
        expect(record.get("k", "") == known.token, "one live token", task_id, record.get("k"), known.token)
        expect((record.get("x") == "1") == known.cancel_requested, "a cancel is remembered", task_id)
        stale = [letter for letter in "FRGE" if letter in record]
        expect(not stale, "a living task has no end", task_id, stale)
        blocked = known.status is TaskStatus.BLOCKED
        expect(not blocked or bool(record.get("m")), "a blocked task says why", task_id)
    elif record.get("F"):
        expect(int(record["F"]) == known.ended_ms, "an end is never rewritten", task_id, record["F"], known.ended_ms)


def _check_satellites(task_id: str, record: Record, now: Snapshot) -> None:
    """The record names the satellites that exist; they live as long as it does."""
    there = {letter for letter, members in now.satellites.items() if task_id in members}
    expect(there == set(record.get("S", "")), "a record names its satellites", task_id, there, record.get("S"))
    ttls = [now.ttl[task_id], *(now.satellites[letter][task_id] for letter in there)]
    is_final = STATUS_OF[record["s"]] in FINAL
    right = all(ttl > 0 for ttl in ttls) if is_final else all(ttl == -1 for ttl in ttls)
    expect(right, "what has ended expires, what lives does not", task_id, record["s"], ttls)
    expect(max(ttls) - min(ttls) < 100, "a record and its satellites expire together", task_id, ttls)


def _check_reports(task_id: str, record: Record, known: Known, now: Snapshot) -> None:
    """What its holders said and saved is there, bounded, and nothing else."""
    expect(
        record.get("g") == known.progress, "progress is what its holder said", task_id, record.get("g"), known.progress
    )
    lines, saved = now.logged.get(task_id, []), now.saved.get(task_id, {})
    expect(lines == known.lines, "the latest lines are kept, each once", task_id, lines, known.lines)
    expect(saved == known.saved, "what its holders saved is kept", task_id, saved, known.saved)


def _check_place(task_id: str, record: Record, known: Known, now: Snapshot, promises: Promises) -> None:
    """A task is in exactly the place that its status calls for."""
    status = known.status
    homes = {
        each
        for each, members in now.waiting.items()
        if task_id in members and (each, task_id) not in promises.stray_members
    }
    expect(homes == {status} & now.waiting.keys(), "what is not yet due waits in its schedule", task_id, homes)
    indexes = {each for each, members in now.ended.items() if task_id in members}
    expect(indexes == {status} & FINAL, "an ended task is in the index of its end", task_id, status, indexes)
    if status in FINAL:
        expect(now.ended[status][task_id] == int(record["F"]), "an index sorts by the end", task_id)
    entries = [entry for entry in now.entries if entry.task_id == task_id and not _is_stray(entry, promises)]
    if status not in {TaskStatus.QUEUED, TaskStatus.RUNNING}:
        expect(not entries, "a task that neither waits nor runs has no delivery", task_id, status, entries)
        return
    expect(len(entries) == 1, "a task that waits or runs has one delivery", task_id, status, entries)
    expect(entries[0].id == record["e"], "the record names its delivery", task_id, entries[0].id, record["e"])
    expect(entries[0].band == known.priority, "a delivery is in the band of its priority", task_id, entries[0])
    _check_delivery(status, entries[0], known, now, promises)


def _check_delivery(status: TaskStatus | None, entry: Entry, known: Known, now: Snapshot, promises: Promises) -> None:
    lease = now.leases.get((entry.band, entry.id))
    if status is TaskStatus.QUEUED:
        expect(lease is None, "a waiting task has no lease", entry, lease)
        expect(now.is_undelivered(entry), "a waiting task will be delivered", entry)
        return
    expect(bool(known.token), "a running task has a live token", entry)
    if promises.is_damaged and lease is None:
        # The lease went with its group; the entry is delivered again, and is a lease again then.
        expect(now.is_undelivered(entry), "a running task will be looked at again", entry)
    else:
        expect(lease is not None, "a running task has a lease", entry)


def _check_key(task_id: str, record: Record, known: Known, now: Snapshot, promises: Promises) -> None:
    """An idempotency key says what became of its task, and outlives it for a time."""
    name = record.get("i")
    key = promises.keys.get(name or "")
    if name is None or key is None or key.task_id != task_id or key.lent_ms is not None:
        return
    held = now.idempotency[name]
    state = "L" if known.is_living else record["s"]
    expect((held.task_id, held.state) == (task_id, state), "an idempotency key follows its task", name, held, state)
    ttl = now.ttl[f"idempotency {name}"]
    expect((ttl == -1) == known.is_living, "an idempotency key expires after its task's end", name, ttl)


def _check_unique(task_id: str, record: Record, known: Known, now: Snapshot, promises: Promises) -> None:
    """A task holds its unique key for as long as it says; one that has waited too long may have lost it."""
    wanted = known.task.deduplication
    letters = {} if wanted is None else {Unique.WAITING: "w", Unique.UNTIL_DONE: "d", None: "b"}
    expected = letters.get(wanted.unique, "") if wanted is not None and known.unique_key else ""
    expect(record.get("u", "")[:1] == expected, "a task says how it is unique", task_id, record.get("u"), expected)
    if not expected:
        return
    holder = now.unique.get(record["u"][1:])
    expires = not known.started and "z" in record and (int(record["z"]) <= now.now_ms or promises.went_back)
    right = holder == task_id if known.is_holding and not expires else known.is_holding or holder != task_id
    expect(right, "a unique key is held as long as its task says", task_id, record["u"], holder, known.status)


def _check_unique_keys(now: Snapshot) -> None:
    """No unique key is left over, and none goes by itself."""
    for digest, task_id in now.unique.items():
        is_held = now.records.get(task_id, {}).get("u", "")[1:] == digest
        expect(is_held, "a unique key is its holder's", digest, task_id)
        expect(now.ttl[f"unique {digest}"] == -1, "a unique key does not expire", digest)


def _is_stray(entry: Entry, promises: Promises) -> bool:
    return (entry.band, entry.id) in promises.strays


def _check_entries(now: Snapshot, promises: Promises) -> None:
    """Each delivery leads to a task that waits or runs on it; each lease is on a delivery that is there."""
    there = set[tuple[int, str]]()
    for entry in now.entries:
        there.add((entry.band, entry.id))
        if not _is_stray(entry, promises):
            record = now.records.get(entry.task_id, {})
            expect(record.get("s") in {"Q", "R"} and record.get("e") == entry.id, "no delivery is left over", entry)
    expect(promises.is_damaged or now.leases.keys() <= there, "no lease is left over", now.leases.keys() - there)


def _check_orphans(now: Snapshot) -> None:
    """No satellite without its record."""
    for letter, members in now.satellites.items():
        orphans = members.keys() - now.records.keys()
        expect(not orphans, "satellites go with their record", letter, orphans)


def _check_members(now: Snapshot, promises: Promises) -> None:
    """Each member of a schedule or index is a task of that status; an index may outlast records that expired."""
    for status, members in (now.waiting | now.ended).items():
        for task_id in members:
            if (status, task_id) in promises.stray_members:
                continue
            actual = now.status(task_id)
            if actual is None and status in FINAL:
                known = promises.tasks.get(task_id)
                expired = known is not None and known.outcome is status and not known.discarded
                expect(expired, "an index leads to tasks", status, task_id)
            else:
                expect(actual is status, "no member is left over", status, task_id, actual)


def _check_dead_letters(now: Snapshot, promises: Promises) -> None:
    """A dead letter and its task live and go together."""
    of_tasks = {record.get("E", ""): task_id for task_id, record in now.records.items() if record["s"] == "D"}
    for entry, letter in now.letters.items():
        known = promises.tasks[letter["i"]]
        outlived = letter["i"] if known.status is None and not known.discarded else None
        expect(of_tasks.pop(entry, outlived) == letter["i"], "a dead letter has its task", letter)
    expect(not of_tasks, "a dead-lettered task has its letter", of_tasks)


def _check_counters(now: Snapshot, promises: Promises, log: Counter[str]) -> None:
    """Counters and events say what happened, no more and no less."""
    counted = {name: number for name, number in now.counters.items() if name.partition(" ")[2] in COUNTED}
    expected = {name: number for name, number in promises.counts.items() if number}
    wrong = {name: (counted.get(name), expected.get(name)) for name in counted.keys() | expected.keys()}
    wrong = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
    expect(not wrong, "counters show each transition once (counted, happened)", wrong)
    waits = sum(number for name, number in now.counters.items() if name.partition(" ")[2].startswith("wait "))
    started = sum(number for name, number in expected.items() if name.endswith(" started"))
    expect(waits == started, "each start is one observation of waiting", waits, started)
    unlike = {kind: (log[kind], promises.events[kind]) for kind in LOGGED if log[kind] != promises.events[kind]}
    expect(not unlike, "events show each transition once (logged, happened)", unlike)


def _check_periodic(now: Snapshot, promises: Promises) -> None:
    """The periodic task is as it was left, and stays for a day once it was removed."""
    known, fields = promises.periodic, now.periodic.get("beat")
    if fields is None and known is not None and known.removed:
        age_ms = promises.elapsed_ms - known.removed_at_ms + SLACK_MS
        expect(age_ms >= DAY_MS, "what was removed is shown for a day", age_ms)
        promises.periodic = None
        return
    expect((fields is None) == (known is None), "a periodic task is there while it is wanted", fields, known)
    if fields is not None and known is not None:
        written = (int(fields["at"]), "paused" in fields, "removed" in fields, fields["digest"])
        promised = (known.at_ms, known.paused, known.removed, known.definition.digest)
        expect(written == promised, "a periodic task is as it was left", written, promised)
        ttl = now.ttl["periodic beat"]
        expect((ttl > 0) == known.removed, "only what was removed expires", ttl)


def _check_wakes(now: Snapshot, promises: Promises) -> None:
    """Where something can be started, a worker is woken; where something comes due earlier, the scheduler is."""
    expect(now.wakes <= 64 and now.schedule_wakes <= 64, "wake-up tokens are few", now.wakes, now.schedule_wakes)
    if not (now.paused or promises.pause_ran_out or promises.is_damaged):
        expect(not now.startable() or now.wakes > 0, "a worker is woken for what waits", now.startable())
    due = [due_ms for members in now.waiting.values() for due_ms in members.values()]
    if due and min(due) < promises.leader_looks_ms and not promises.is_damaged:
        expect(now.schedule_wakes > 0, "the scheduler is woken for what is due earlier", min(due))

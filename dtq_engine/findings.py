"""What is wrong with a deployment: what `dtq doctor` and the page on the system look at, one function for each kind."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dtq_engine.config import Settings
from dtq_engine.harmless import safe
from dtq_engine.model import QueueStats, WorkerInfo
from dtq_engine.refusals import READ_ONLY
from dtq_engine.store import Store
from dtq_engine.store.shared_keys import WrongType
from dtq_engine.words import plural, span
from dtq_engine.worker import checks
from dtq_engine.worker.server import look

CLOCK_S = 2.0
OVERDUE_MS = 10_000
LEADER_S = 5.0
NEARLY_FULL = 0.9
BLOCKED_LOOKS = 100
OTHERWISE_BLOCKED = frozenset({"stream_refuses", "undecodable_record", "limit", "waits_for_parents"})
"""Reasons of blocked tasks for which no worker lacks a handler."""
MENDED = "the leading worker mends it within an hour, and dtq doctor --repair at once."
DAMAGE: Mapping[str, str] = {
    "delivery": "a waiting task without a delivery, so that no worker is given it",
    "lease": "a running task without a lease, so that nobody notices if its worker dies",
    "state": "a task whose state nobody can read, so that nobody starts it",
    "schedule": "a task that waits for its time without a place in the schedule",
    "index": "a finished task that no list has",
    "dead_letter": "a dead-lettered task without a dead letter",
    "time_to_live": "a finished task that would be kept for ever",
    "member_without_record": "a place in a schedule or list without a task",
    "stray_delivery": "a delivery that leads to no task, and that no worker gets",
    "wrong_type": "a key of another type than what belongs there",
    "band": "a band that takes no more tasks, as its last id is the largest there is",
    "group": "a band whose group is ahead of it, so that no worker is given what comes",
    "letter_without_task": "a dead letter without its task",
    "idempotency_key": "an idempotency key without a task",
    "queue": "a queue that the list of queues lacks",
}
"""What a repair is for, by the name that the sweep gives it."""


class Level(StrEnum):
    """How bad a finding is: errors keep tasks from being done, warnings endanger them."""

    ERROR = "error"
    WARNING = "warning"
    REPAIRED = "repaired"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a sentence that says what to do."""

    level: Level
    message: str


Check = Callable[[Store, Settings], Iterator[Finding]]


def server(store: Store, settings: Settings) -> Iterator[Finding]:
    """Its version, its eviction policy, and whether it keeps what it acknowledged."""
    facts = look(store.connection)
    if facts.is_read_only:
        yield Finding(Level.ERROR, READ_ONLY)
    for problem in checks.problems(facts, settings):
        yield Finding(Level.ERROR, problem)
    for warning in checks.warnings(facts):
        yield _warning(f"{warning[0].upper()}{warning[1:].removesuffix('.')}.")


def clock(store: Store, _settings: Settings) -> Iterator[Finding]:
    """Whether its clock and ours agree."""
    began = time.time()
    ahead_s = store.now_ms() / 1000 - (began + time.time()) / 2
    if abs(ahead_s) > CLOCK_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        yield _warning(
            f"Redis' clock is {span(abs(ahead_s) * 1000)} {direction} this machine's, and decides when tasks are due: "
            "set both by NTP."
        )


def memory(store: Store, settings: Settings) -> Iterator[Finding]:
    """Whether new tasks are, or soon will be, refused for want of memory."""
    for node in store.connection.nodes():
        numbers = node.info("memory")
        limit, used = int(numbers.get("maxmemory", 0)), int(numbers.get("used_memory", 0))
        percent = used * 100 // limit if limit else 0
        if percent >= settings.admit_memory_percent * NEARLY_FULL:
            yield _warning(
                f"Redis uses {percent} % of its maxmemory, and refuses new tasks at {settings.admit_memory_percent} %: "
                "raise maxmemory, or keep finished tasks for a shorter time (DTQ_TASK_RETENTION_S, DTQ_KEEP_SUCCEEDED)."
            )


def keys(store: Store, _settings: Settings) -> Iterator[Finding]:
    """Whether the keys that tasks or queues share are what they must be."""
    wrong_globals = store.health.wrong_globals()
    for wrong in wrong_globals:
        yield Finding(Level.ERROR, f"{_named(wrong)}: {_mend(wrong)}")
    if any(wrong.key == store.keys.queues() for wrong in wrong_globals):
        return
    for queue in store.inspect.queues():
        for wrong in store.health.wrong_types(queue):
            todo = f"{'may be' if wrong.is_passing else 'is'} held up: {_mend(wrong)}"
            if wrong.key == store.keys.paused(queue):
                todo = f"is paused until dtq resume {safe(queue)}."
            yield Finding(Level.ERROR, f"{_named(wrong)}, so that queue {safe(queue)} {todo}")


def _named(wrong: WrongType) -> str:
    return f"The key {safe(wrong.key)} is a {safe(wrong.found)}, not a {wrong.wanted}"


def _mend(wrong: WrongType) -> str:
    if wrong.is_passing:
        return "dtq doctor --repair takes it away."
    return "rename or delete it, then run dtq doctor --repair."


def tasks(store: Store, _settings: Settings) -> Iterator[Finding]:
    """Whether all tasks can be found where their records say."""
    for what, number in sorted(store.health.damage().items()):
        yield Finding(Level.ERROR, f"{damaged(what, number)}: {MENDED}")


def damaged(what: str, number: int) -> str:
    """What is damaged, and how often: `3 × a waiting task without a delivery, …`."""
    return f"{number:,} × {DAMAGE.get(what, safe(what))}"


def workers(store: Store, settings: Settings) -> Iterator[Finding]:
    """Whether those on the list are still there, and one of them leads."""
    alive, now_ms = store.workers.list(), store.now_ms()
    for info in alive:
        if now_ms - info.seen_ms > 3 * settings.heartbeat_interval_s * 1000:
            yield _warning(
                f"Worker {safe(info.id)} on {safe(info.host)} was last heard of {span(now_ms - info.seen_ms)} ago: see "
                "whether it still runs; what it was doing is taken over by the others."
            )
    if alive and not _is_led(store):
        yield Finding(
            Level.ERROR,
            "No worker leads, so that delayed tasks and retries do not start: see the workers' logs, and restart them.",
        )


def _is_led(store: Store) -> bool:
    """Whether a worker leads; where one has just stopped, another is given the time to begin."""
    deadline = time.monotonic() + LEADER_S
    while not store.health.has_leader():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.2)
    return True


def queues(store: Store, settings: Settings) -> Iterator[Finding]:
    """Whether each queue with tasks is served, and has room."""
    alive = store.workers.list()
    serving = Counter(queue for worker in alive for queue in worker.queues)
    for name in store.inspect.queues():
        stats = store.inspect.queue(name)
        yield from _unserved(stats, serving[name])
        yield from _standing(store, stats, alive)
        yield from _crowded(stats, settings)


def _unserved(stats: QueueStats, workers: int) -> Iterator[Finding]:
    if stats.depth and not workers:
        yield Finding(
            Level.ERROR,
            f"Queue {safe(stats.queue)} has {plural(stats.depth, 'task')} and no worker: start one that serves it, "
            f"dtq worker --queues {safe(stats.queue)}.",
        )


def _standing(store: Store, stats: QueueStats, alive: "list[WorkerInfo]") -> Iterator[Finding]:
    """What keeps tasks from starting although there are workers."""
    name = safe(stats.queue)
    if stats.paused and stats.waiting:
        why = f" ({safe(stats.pause_reason)})" if stats.pause_reason else ""
        yield _warning(
            f"Queue {name} is paused{why} with {plural(stats.waiting, 'task')} waiting: if it may go on, "
            f"dtq resume {name}."
        )
    if alive and (late_ms := store.health.overdue_ms(stats.queue)) > OVERDUE_MS:
        yield Finding(
            Level.ERROR,
            f"Tasks of queue {name} have been due for {span(late_ms)} and do not start: see the log of the worker that "
            "leads, and restart it.",
        )
    if stats.blocked:
        yield from _blocked(store, stats)


def _blocked(store: Store, stats: QueueStats) -> Iterator[Finding]:
    """What keeps blocked tasks from starting, as those say that are looked at next."""
    name = safe(stats.queue)
    see = f"see what they are with dtq list --queue {name} --status blocked"
    found = store.inspect.blocked_reasons(stats.queue, BLOCKED_LOOKS)
    said = Counter(reason.partition(":")[0] for reason in found)
    if said["stream_refuses"]:
        yield Finding(
            Level.ERROR,
            f"Queue {name} has tasks whose band takes no more of them, as its last id is the largest there is: "
            "dtq doctor --repair mends the band, and they start within a minute.",
        )
    if said["undecodable_record"]:
        yield _warning(f"Queue {name} has tasks whose records are damaged and that end as undecodable_record: {see}.")
    if stuck := sum(number for reason, number in said.items() if reason not in OTHERWISE_BLOCKED):
        least = "at least " if stats.blocked > len(found) else ""
        yield _warning(
            f"Queue {name} has {least}{plural(stuck, 'task')} that no worker there can run: start a worker that has "
            f"their handlers, or {see}."
        )


def _crowded(stats: QueueStats, settings: Settings) -> Iterator[Finding]:
    name = safe(stats.queue)
    if settings.max_queue_depth and stats.depth >= settings.max_queue_depth * NEARLY_FULL:
        yield _warning(
            f"Queue {name} has {plural(stats.depth, 'task')} and refuses more at {settings.max_queue_depth:,}: start "
            "more workers, or raise DTQ_MAX_QUEUE_DEPTH."
        )
    if stats.dead_lettered >= settings.dlq_maxlen * NEARLY_FULL:
        yield _warning(
            f"Queue {name} has {plural(stats.dead_lettered, 'dead letter')}, and at {settings.dlq_maxlen:,} the oldest "
            "go: requeue or discard them, or raise DTQ_DLQ_MAXLEN."
        )


def _warning(message: str) -> Finding:
    return Finding(Level.WARNING, message)


CHECKS: Mapping[str, Check] = {
    "server": server,
    "clock": clock,
    "memory": memory,
    "keys": keys,
    "tasks": tasks,
    "workers": workers,
    "queues": queues,
}
"""All that is looked at, in this order; before them come the settings."""

QUICK = ("server", "clock", "memory")
"""What does not depend on the tasks there are."""

"""The same drain with little around it and with much: waiting tasks, queues, delayed tasks, dead letters."""

from collections.abc import Callable, Sequence
from time import perf_counter

from benchmarks import stage
from benchmarks.drain import drained
from benchmarks.figures import Figure
from benchmarks.run import Plan
from benchmarks.tasks import app, dies, noop_async
from dtq_engine import AttemptError, new_id
from dtq_engine.model import DeadLetter

SAMPLE = 20_000
QUEUE = "default"
DAY_MS = 86_400_000
KEPT = {"dlq_maxlen": 1_000_000}
MANY_QUEUES = tuple(f"q{number}" for number in range(99))


def backlog(plan: Plan) -> tuple[Figure, ...]:
    """Many waiting: a part of them is run, and then the next."""
    count = sample(plan)
    with stage.server() as server:
        stage.attach(server.url)
        with stage.worker(server.url) as process:
            few = drains(plan, process.pid, count)
            app.store.control.pause(QUEUE)
            stage.fill(noop_async.name, plan.tasks)
            many = tuple(part(count) for _ in range(plan.runs))
        app.close()
    return compared("waiting", few, many)


def part(count: int) -> float:
    """Tasks per second of the next `count` that wait; then the queue is paused again."""
    done, began = stage.succeeded(noop_async.name) + count, perf_counter()
    app.store.control.resume(QUEUE)
    stage.until(lambda: stage.succeeded(noop_async.name) >= done)
    seconds = perf_counter() - began
    surplus = stage.succeeded(noop_async.name) - done
    app.store.control.pause(QUEUE)
    return (count + surplus) / seconds


def queues(plan: Plan) -> tuple[Figure, ...]:
    """A worker of 100 queues, of which the last is busy, beside a worker of that one."""
    count = sample(plan)
    rates: list[tuple[float, ...]] = []
    for served in ((QUEUE,), (*MANY_QUEUES, QUEUE)):
        with stage.server() as server:
            stage.attach(server.url)
            with stage.worker(server.url, queues=served) as process:
                rates.append(drains(plan, process.pid, count))
            app.close()
    one, hundred = rates
    return Figure("drain, one queue", "tasks/s", one), Figure("drain, 100 queues", "tasks/s", hundred, one)


def delayed(plan: Plan) -> tuple[Figure, ...]:
    """Many that are due tomorrow."""
    return crowded(plan, "delayed", lambda: stage.fill(noop_async.name, plan.tasks, delay_ms=DAY_MS))


def dead(plan: Plan) -> tuple[Figure, ...]:
    """Many dead letters in the same queue."""
    return crowded(plan, "dead letters", lambda: bury(plan.tasks // 10))


def bury(count: int) -> None:
    """Let so many tasks fail for good, by the calls that a worker makes."""
    store = app.store
    digest = store.workers.announce([QUEUE], [dies.name])
    stage.fill(dies.name, count)
    error = AttemptError("ValueError", "meant to fail")
    while claims := store.leases.claim(QUEUE, worker="digger", token=new_id(), limit=100, types_digest=digest).claims:
        store.leases.finalize([(claim, DeadLetter(error, "attempts_exhausted")) for claim in claims])


def crowded(plan: Plan, what: str, crowd: Callable[[], None]) -> tuple[Figure, ...]:
    """The drain without and with a crowd in the same queue."""
    count = sample(plan)
    with stage.server() as server:
        stage.attach(server.url, **KEPT)
        with stage.worker(server.url, settings=KEPT) as process:
            few = drains(plan, process.pid, count)
        crowd()
        with stage.worker(server.url, settings=KEPT) as process:
            many = drains(plan, process.pid, count)
        app.close()
    return compared(what, few, many)


def drains(plan: Plan, pid: int, count: int) -> tuple[float, ...]:
    """Tasks per second of some drains by a worker that is warm."""
    drained(noop_async, count // 10, pid)
    return tuple(drained(noop_async, count, pid).rate for _ in range(plan.runs))


def compared(what: str, few: Sequence[float], many: Sequence[float]) -> tuple[Figure, ...]:
    """The two figures."""
    return (
        Figure(f"drain, no {what}" if what != "waiting" else "drain, few waiting", "tasks/s", tuple(few)),
        Figure(f"drain, many {what}", "tasks/s", tuple(many), tuple(few)),
    )


def sample(plan: Plan) -> int:
    """How many tasks one drain has, so that those of all runs are less than half of the crowd."""
    return max(100, min(SAMPLE, plan.tasks // (2 * plan.runs + 2)))

"""Which tasks a worker claims, in which order, and at what cost."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dtq_engine import Dtq, RedisUnavailable, Settings, TaskContext, TaskStatus
from dtq_engine.store.leases import Leases
from dtq_engine.worker import Worker
from dtq_engine.worker import poll as poll_module
from dtq_engine.worker.poll import ASK_S, FULL_BATCH
from tests.support.waiting import wait_until

Start = Callable[..., Worker]

pytestmark = pytest.mark.alone


def calls(client: Any, command: str) -> int:
    """How often the server has run a command."""
    return int(client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


def blocked(client: Any) -> int:
    """How many connections wait for a wake-up."""
    return sum("b" in each["flags"] for each in client.client_list())


def test_tasks_start_by_priority_and_then_in_the_order_they_came(app: Dtq, start: Start) -> None:
    seen: list[str] = []

    @app.task("note")
    def note(name: str) -> None:
        seen.append(name)

    for priority in (0, 5, 9, 5, 0, 9):
        note.options(priority=priority).submit(f"p{priority}")
    note.options(priority=9).submit("last p9")
    start(worker_concurrency=1)
    wait_until(lambda: len(seen) == 7)
    assert seen == ["p9", "p9", "last p9", "p5", "p5", "p0", "p0"]


def test_queues_are_served_strictly_in_the_order_given(app: Dtq, start: Start) -> None:
    seen: list[str] = []

    @app.task("note")
    def note(name: str) -> None:
        seen.append(name)

    for queue in ("low", "mid", "top", "low", "mid", "top"):
        note.options(queue=queue, priority=9 if queue == "low" else 0).submit(queue)
    start(worker_concurrency=1, worker_queues=("top", "mid", "low"))
    wait_until(lambda: len(seen) == 6)
    assert seen == ["top", "top", "mid", "mid", "low", "low"]


def test_a_task_of_an_earlier_queue_overtakes_those_already_waiting_in_a_later_one(app: Dtq, start: Start) -> None:
    seen: list[str] = []

    @app.task("note")
    def note(name: str) -> None:
        if name == "low 0":
            note.options(queue="top").submit("top")
        seen.append(name)

    for number in range(4):
        note.options(queue="low").submit(f"low {number}")
    start(worker_concurrency=1, worker_queues=("top", "low"))
    wait_until(lambda: len(seen) == 5)
    assert seen[:2] == ["low 0", "top"]


def test_a_worker_never_holds_more_tasks_than_it_has_slots(
    app: Dtq, start: Start, gate: threading.Event, ended: Any
) -> None:
    @app.task("wait")
    def wait() -> None:
        gate.wait(10)

    handles = [wait.submit() for _ in range(7)]
    worker = start(worker_concurrency=3)
    wait_until(lambda: worker.parts.inflight.taken == 3)
    time.sleep(0.2)
    stats = app.store.inspect.queue("default")
    assert (stats.running, stats.waiting) == (3, 4)
    gate.set()
    assert {ended(each).status for each in handles} == {TaskStatus.SUCCEEDED}


def test_a_free_slot_is_filled_although_the_others_stay_taken(
    app: Dtq, start: Start, gate: threading.Event, ended: Any
) -> None:
    @app.task("wait")
    def wait() -> None:
        gate.wait(10)

    @app.task("quick")
    def quick() -> None: ...

    for _ in range(7):
        wait.submit()
    worker = start(worker_concurrency=8)
    wait_until(lambda: worker.parts.inflight.taken == 7)
    handles = [quick.submit() for _ in range(20)]
    assert {ended(each).status for each in handles} == {TaskStatus.SUCCEEDED}


@pytest.mark.not_on_a_cluster("BLPOP over slots is refused there: see tests/servers/test_cluster.py")
def test_an_idle_worker_starts_a_task_of_any_band_of_its_last_queue_within_milliseconds(app: Dtq, start: Start) -> None:
    started = threading.Event()

    @app.task("go")
    def go() -> None:
        started.set()

    queues = tuple(f"q{number}" for number in range(10))
    start(worker_queues=queues)
    delays: list[float] = []
    for priority in (0, 3, 5, 9):
        wait_until_idle(app, queues)
        started.clear()
        before = time.perf_counter()
        go.options(queue="q9", priority=priority).submit()
        assert started.wait(5)
        delays.append(time.perf_counter() - before)
    assert min(delays) < 0.02
    assert max(delays) < 0.2


def wait_until_idle(app: Dtq, queues: tuple[str, ...]) -> None:
    client = app.connection.client
    keys = [app.store.keys.wake(queue) for queue in queues]
    wait_until(lambda: blocked(client) and not client.exists(*keys))


def test_fifty_idle_workers_and_one_task_cost_a_few_claims(
    app: Dtq, quick: Settings, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each worker looks anyway after a block of 5 s; none of these looks may fall into the count.
    monkeypatch.setattr(poll_module, "BLOCK_S", 60.0)
    started = threading.Event()

    @app.task("go")
    def go() -> None:
        started.set()

    go.submit()
    workers = [Worker(app, replace(quick, worker_concurrency=1)) for _ in range(50)]
    polls = [worker.parts.poll for worker in workers]
    try:
        for worker, poll in zip(workers, polls, strict=True):
            worker.parts.executor.start()
            worker.parts.finalizer.start()
            poll.start()
        assert started.wait(10)
        wait_until(lambda: blocked(client) == 50, 10)
        started.clear()
        before = calls(client, "fcall")
        go.submit()
        assert started.wait(5)
        wait_until(lambda: app.store.inspect.queue("default").succeeded == 2)
        wait_until(lambda: blocked(client) == 50, 10)
        assert calls(client, "fcall") - before <= 10
    finally:
        for worker in workers:
            for loop in (worker.parts.poll, worker.parts.finalizer):
                loop.stop()
            worker.parts.waiting.close()
            worker.parts.poll.join(5)
            worker.parts.finalizer.join(5)
            worker.parts.executor.stop()
            worker.parts.connection.close()


def test_an_idle_worker_sends_nothing_while_it_waits(app: Dtq, quick: Settings, client: Any) -> None:
    @app.task("go")
    def go() -> None: ...

    worker = Worker(app, quick)
    poll = worker.parts.poll
    for _ in range(2):
        poll.step()
        if not poll._hot:
            break
    before = calls(client, "fcall")
    thread = threading.Thread(target=poll.step)
    thread.start()
    wait_until(lambda: blocked(client) == 1)
    time.sleep(0.3)
    assert calls(client, "fcall") == before
    handle = go.submit()
    thread.join(5)
    assert handle.status() is TaskStatus.RUNNING
    worker.parts.waiting.close()
    worker.parts.connection.close()


def test_a_worker_of_many_queues_that_is_woken_claims_at_once(app: Dtq, quick: Settings, client: Any, log: Any) -> None:
    @app.task("go", queue="last")
    def go() -> None: ...

    worker = Worker(app, replace(quick, worker_queues=("first", "second", "last")))
    poll = worker.parts.poll
    while poll._hot:
        poll.step()
    handle = go.submit()
    before = calls(client, "fcall"), calls(client, "lmpop"), calls(client, "blpop")
    poll.step()
    after = calls(client, "fcall"), calls(client, "lmpop"), calls(client, "blpop")
    assert handle.status() is TaskStatus.RUNNING
    assert [late - early for late, early in zip(after, before, strict=True)] == [1, 0, 1]
    worker.parts.waiting.close()
    worker.parts.connection.close()


def test_a_paused_queue_wakes_nobody_and_its_tasks_start_when_it_resumes(app: Dtq, start: Start, ended: Any) -> None:
    @app.task("go")
    def go() -> None: ...

    worker = start()
    wait_until_idle(app, ("default",))
    app.store.control.pause("default", reason="maintenance")
    handle = go.submit()
    assert not app.connection.client.exists(app.store.keys.wake("default"))
    time.sleep(0.3)
    assert app.store.inspect.get(handle.id).status is TaskStatus.QUEUED
    assert worker.parts.inflight.taken == 0
    app.store.control.resume("default")
    assert ended(handle).status is TaskStatus.SUCCEEDED


@pytest.mark.drains
def test_a_claim_whose_answer_was_lost_is_asked_for_again_under_its_token(
    app: Dtq, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    @app.task("go")
    def go(ctx: TaskContext) -> int:
        runs.append(ctx.attempt)
        return ctx.attempt

    tokens: list[str] = []
    claim = Leases.claim

    def lose_the_first(leases: Leases, queue: str, **how: Any) -> Any:
        reply = claim(leases, queue, **how)
        tokens.append(how["token"])
        if len(tokens) == 1:
            raise RedisUnavailable("the answer was lost", may_have_run=True)
        return reply

    monkeypatch.setattr(Leases, "claim", lose_the_first)
    handle = go.submit()
    start()
    assert handle.result(timeout=5) == 1
    assert runs == [1]
    assert tokens[0] == tokens[1]


def test_what_a_claim_without_an_answer_brought_is_not_lost_when_the_worker_leaves(
    app: Dtq, quick: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task("go")
    def go(ctx: TaskContext) -> int:
        return ctx.attempt

    claim = Leases.claim

    def lose(leases: Leases, queue: str, **how: Any) -> Any:
        claim(leases, queue, **how)
        raise RedisUnavailable("the answer was lost", may_have_run=True)

    handle = go.submit()
    worker = Worker(app, quick)
    worker.parts.executor.start()
    worker.parts.finalizer.start()
    with monkeypatch.context() as patched:
        patched.setattr(Leases, "claim", lose)
        with pytest.raises(RedisUnavailable):
            worker.parts.poll.step()
    assert handle.status() is TaskStatus.RUNNING
    worker.parts.poll.halt(1)
    assert handle.result(timeout=5) == 1
    worker.parts.finalizer.stop()
    worker.parts.waiting.close()
    worker.parts.connection.close()


def test_a_wake_up_that_led_to_no_claim_is_given_to_other_workers(
    app: Dtq, quick: Settings, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task("go")
    def go() -> None: ...

    worker = Worker(app, quick)
    poll = worker.parts.poll
    poll.step()
    handle = go.submit()
    leave = iter([True, False])  # it is withdrawn while the worker waits to be woken
    monkeypatch.setattr(poll, "_may_claim", lambda: next(leave))
    poll.step()
    assert not client.exists(app.store.keys.wake("default"))
    assert handle.status() is TaskStatus.QUEUED
    poll.finish()
    assert client.llen(app.store.keys.wake("default")) == 1
    worker.parts.waiting.close()
    worker.parts.connection.close()
    app.store.control.cancel(handle.id)


def test_a_worker_of_many_slots_asks_earlier_queues_fifty_times_a_second_at_most(
    app: Dtq, quick: Settings, client: Any, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And finds what has come there since when it asks."""

    @app.task("go")
    def go() -> None: ...

    now = 1000.0
    monkeypatch.setattr("dtq_engine.worker.poll.time", SimpleNamespace(monotonic=lambda: now))
    worker = Worker(app, replace(quick, worker_queues=("top", "low"), worker_concurrency=FULL_BATCH))
    poll, claimed = worker.parts.poll, list[str]()
    poll._run_claims = lambda claims: claimed.extend({claim.queue for claim in claims})
    while poll._hot:
        poll.step()
    now += 2 * ASK_S
    app.submit_many([go.options(queue="low").prepare() for _ in range(5 * FULL_BATCH)])
    before = calls(client, "lmpop")
    for _ in range(3):
        poll.step()
    assert calls(client, "lmpop") == before + 1
    go.options(queue="top").submit()
    poll.step()
    now += 2 * ASK_S
    poll.step()
    assert claimed == ["low"] * 4 + ["top"]
    worker.parts.waiting.close()
    worker.parts.connection.close()

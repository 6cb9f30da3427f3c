"""The hooks of an app, as its workers call them."""

import asyncio
import contextvars
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq, Failure, HookFailed, Retry, Settings, Snooze, Task, TaskContext, WorkerInfo
from dtq_engine.model import DeadLetter, Settled
from dtq_engine.worker import Worker
from dtq_engine.worker.event_loop import EventLoop
from dtq_engine.worker.failures import ROOM, Failures
from tests.store.hand import Hand, error
from tests.support.waiting import wait_until
from tests.worker.processes import WorkerProcess

Start = Callable[..., Worker]
Ended = Callable[..., Task]
Spawn = Callable[..., WorkerProcess]

request_id = contextvars.ContextVar("request_id", default="none")


# Around tasks


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_hooks_run_around_each_attempt_and_see_its_facts(app: Dtq, start: Start, ended: Ended, kind: str) -> None:
    seen: list[str] = []

    @app.around_task
    def watch(task: TaskContext) -> Iterator[None]:
        facts = f"{task.type} {task.attempt}/{task.max_attempts} of {task.queue} {task.headers['who']}"
        try:
            yield
        except ValueError as error:
            seen.append(f"{facts}: {error}")
            raise
        seen.append(f"{facts}: done")

    def flaky(fail_until: int, attempts: list[int] = []) -> str:  # noqa: B006 - it counts
        attempts.append(1)
        if len(attempts) < fail_until:
            raise ValueError("again")
        return "done"

    async def flaky_async(fail_until: int) -> str:
        return flaky(fail_until)

    task = app.task("flaky", max_attempts=3)(flaky if kind == "sync" else flaky_async)
    start()
    assert task.options(headers={"who": "ann"}).submit(2).result(timeout=10) == "done"
    assert seen == ["flaky 1/3 of default ann: again", "flaky 2/3 of default ann: done"]


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_context_variables_flow_from_hook_to_handler_and_not_to_the_next_task(
    app: Dtq, start: Start, kind: str
) -> None:
    @app.around_task
    def carry(task: TaskContext) -> Iterator[None]:
        if "request-id" in task.headers:
            request_id.set(task.headers["request-id"])
        yield

    def show() -> str:
        return request_id.get()

    async def show_async() -> str:
        await asyncio.sleep(0)
        return request_id.get()

    task = app.task("show")(show if kind == "sync" else show_async)
    start(worker_concurrency=1)
    assert task.options(headers={"request-id": "r-7"}).submit().result(timeout=10) == "r-7"
    assert task.submit().result(timeout=10) == "none"


@pytest.mark.drains
def test_a_context_variable_travels_from_submit_to_handler_through_two_hooks(app: Dtq, start: Start) -> None:
    @app.around_submit
    def send(tasks: list[Any]) -> Iterator[list[Any]]:
        yield [task.with_headers({"request-id": request_id.get()}) for task in tasks]

    @app.around_task
    def receive(task: TaskContext) -> Iterator[None]:
        request_id.set(task.headers["request-id"])
        yield

    @app.task("show")
    def show() -> str:
        return request_id.get()

    async def submit() -> str:
        request_id.set("r-8")
        return (await show.submit_async()).id

    start()
    assert app.handle(asyncio.run(submit())).result(timeout=10) == "r-8"
    for answer in contextvars.copy_context().run(lambda: app.submit_many([show.prepare(), show.prepare()])):
        assert app.handle(answer.id).result(timeout=10) == "none"


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_a_hook_raises_fails_the_attempt(app: Dtq, start: Start, ended: Ended, kind: str) -> None:
    @app.around_task
    def commit(task: TaskContext) -> Iterator[None]:
        yield
        raise OSError("the commit failed")

    def handle() -> int:
        return 5

    async def handle_async() -> int:
        return 5

    task = app.task("handle", max_attempts=2)(handle if kind == "sync" else handle_async)
    start()
    end = ended(task.submit())
    assert (end.status, end.attempt, end.result) == ("dead_lettered", 2, None)
    assert [(error.type, error.message) for error in end.errors] == [("OSError", "the commit failed")] * 2


@pytest.mark.drains
def test_a_hook_may_send_a_task_back_without_an_attempt(app: Dtq, start: Start) -> None:
    turns: list[int] = []

    @app.around_task
    def limit(task: TaskContext) -> Iterator[None]:
        turns.append(task.attempt)
        if len(turns) == 1:
            raise Snooze(0)
        yield

    @app.task("limited")
    def limited(ctx: TaskContext) -> int:
        return ctx.attempt

    start()
    assert limited.submit().result(timeout=10) == 1
    assert turns == [1, 1]


@pytest.mark.drains
def test_hooks_wrap_the_checks_of_payload_and_result_as_well(app: Dtq, start: Start, ended: Ended) -> None:
    seen: list[str] = []

    @app.around_task
    def session(task: TaskContext) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    @app.task("bad.result")
    def bad_result(wanted: int) -> object:
        return object()

    start()
    assert ended(bad_result.submit(1)).status == "dead_lettered"
    stranger = Dtq(app.settings)
    assert ended(stranger.named("bad.result").submit(wanted="x")).status == "dead_lettered"
    stranger.close()
    assert seen == ["BadResult", "BadPayload"]


@pytest.mark.drains
def test_a_cancelled_handler_leaves_its_hooks(app: Dtq, start: Start, ended: Ended) -> None:
    left, begun = threading.Event(), threading.Event()

    @app.around_task
    async def session(task: TaskContext) -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.set()

    @app.task("long")
    async def long() -> None:
        begun.set()
        await asyncio.sleep(60)

    start()
    handle = long.submit()
    assert begun.wait(10)
    handle.cancel()
    assert ended(handle).status == "cancelled"
    assert left.wait(10)


@pytest.mark.drains
def test_a_hook_sees_that_the_time_of_a_thread_is_over(
    app: Dtq, start: Start, ended: Ended, gate: threading.Event
) -> None:
    seen: list[bool] = []

    @app.around_task
    def session(task: TaskContext) -> Iterator[None]:
        yield
        seen.append(task.cancelled)

    @app.task("slow", timeout=0.3, max_attempts=1)
    def slow() -> None:
        gate.wait(10)

    worker = start()
    handle = slow.submit()
    wait_until(lambda: any(each.overdue_since for each in worker.parts.inflight.running()))
    gate.set()
    assert ended(handle).errors[0].type == "TimedOut"
    assert wait_until(lambda: seen) == [True]


# Failures


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_each_failed_attempt_is_told_with_its_exception_and_the_last_one_as_final(
    app: Dtq, start: Start, ended: Ended, kind: str
) -> None:
    told: list[Failure] = []
    app.on_failure(told.append)

    def broken() -> None:
        raise ValueError("no")

    async def broken_async() -> None:
        raise ValueError("no")

    task = app.task("broken", max_attempts=2)(broken if kind == "sync" else broken_async)
    start()
    handle = task.options(headers={"who": "ann"}).submit()
    assert ended(handle).status == "dead_lettered"
    first, last = wait_until(lambda: told if len(told) == 2 else [])
    assert (first.task_id, first.type, first.queue, first.headers) == (handle.id, "broken", "default", {"who": "ann"})
    assert (first.attempt, first.max_attempts, first.final, first.reason, first.retry_in_s) == (1, 2, False, None, 0)
    assert (last.attempt, last.final, last.reason, last.retry_in_s) == (2, True, "max_attempts", None)
    assert [(each.error.type, repr(each.exception)) for each in told] == [("ValueError", "ValueError('no')")] * 2


@pytest.mark.drains
def test_retries_that_are_asked_for_are_told_and_snoozes_and_cancels_are_not(
    app: Dtq, start: Start, ended: Ended
) -> None:
    told: list[Failure] = []
    turns: list[int] = []
    app.on_failure(told.append)

    @app.task("polite")
    def polite() -> str:
        turns.append(1)
        match len(turns):
            case 1:
                raise Snooze(0)
            case 2:
                raise Retry(0.01, "busy")
            case _:
                return "done"

    @app.task("long")
    async def long() -> None:
        await asyncio.sleep(60)

    start()
    handle = long.submit()
    wait_until(lambda: handle.status() == "running")
    handle.cancel()
    assert ended(handle).status == "cancelled"
    assert polite.submit().result(timeout=10) == "done"
    [failure] = wait_until(lambda: told)
    assert (failure.attempt, failure.final, failure.retry_in_s) == (1, False, 0.01)
    assert isinstance(failure.exception, Retry)


@pytest.mark.drains
def test_the_say_of_a_retry_callback_is_told(app: Dtq, start: Start, ended: Ended) -> None:
    told: list[Failure] = []
    app.on_failure(told.append)

    @app.task("given.up", retry=lambda error, attempt: None)
    def given_up() -> None:
        raise ValueError("no")

    start()
    assert ended(given_up.submit()).reason == "permanent"
    [failure] = wait_until(lambda: told)
    assert (failure.final, failure.reason, repr(failure.exception)) == (True, "permanent", "ValueError('no')")


@pytest.mark.drains
def test_a_timeout_is_told_without_an_exception(app: Dtq, start: Start, ended: Ended) -> None:
    told: list[Failure] = []
    app.on_failure(told.append)

    @app.task("slow", timeout=0.2, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    start()
    ended(slow.submit())
    [failure] = wait_until(lambda: told)
    assert (failure.error.type, failure.exception, failure.final) == ("TimedOut", None, True)


@pytest.mark.drains
def test_the_loss_of_a_worker_is_told_by_the_one_that_finds_it(app: Dtq, start: Start, clock: Any) -> None:
    told: list[Failure] = []
    app.on_failure(told.append)

    @app.task("mail", max_attempts=1)
    def mail() -> None: ...

    dead = Hand(app.store, "dead")
    mail.submit()
    dead.claim_one()
    clock.advance(60)
    start()
    [failure] = wait_until(lambda: told, 15)
    assert (failure.error.type, failure.exception, failure.final) == ("LeaseExpired", None, True)


@pytest.mark.drains
def test_a_failing_failure_hook_is_logged_and_the_others_are_told(
    app: Dtq, start: Start, ended: Ended, log: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    @app.on_failure
    def broken_hook(failure: Failure) -> None:
        raise OSError("the chat is away")

    @app.on_failure
    async def other(failure: Failure) -> None:
        told.append(threading.current_thread().name)

    @app.task("broken", max_attempts=1)
    def broken() -> None:
        raise ValueError("no")

    start()
    assert ended(broken.submit()).reason == "max_attempts"
    assert wait_until(lambda: told) == ["dtq-event-loop"]
    assert "broken_hook" in log.text
    assert "the chat is away" in log.text


@pytest.mark.drains
def test_a_leaving_worker_tells_of_its_last_failure_first(app: Dtq, start: Start, gate: threading.Event) -> None:
    told: list[Failure] = []
    begun = threading.Event()
    app.on_failure(lambda failure: (time.sleep(0.2), told.append(failure)))

    @app.task("broken", max_attempts=1)
    def broken() -> None:
        begun.set()
        gate.wait(10)
        raise ValueError("no")

    worker = start()
    broken.submit()
    assert begun.wait(10)
    worker.stop()
    gate.set()
    assert worker.join(10) == 0
    assert len(told) == 1


@pytest.mark.drains
def test_exceptions_are_kept_no_longer_than_they_are_told(app: Dtq, start: Start, ended: Ended) -> None:
    told: list[str] = []
    app.on_failure(lambda failure: told.append(failure.task_id))

    @app.task("broken", max_attempts=2)
    def broken() -> None:
        raise ValueError("no")

    worker = start()
    handles = [broken.submit() for _ in range(20)]
    for handle in handles:
        ended(handle)
    wait_until(lambda: len(told) == 40)
    wait_until(lambda: worker.parts.inflight.taken == 0)
    assert worker.parts.inflight.raised == {}


def test_hooks_that_are_too_slow_lose_failures_and_that_is_logged(
    store: Any, app: Dtq, log: pytest.LogCaptureFixture, gate: threading.Event
) -> None:
    begun = threading.Event()

    @app.on_failure
    def slow(failure: Failure) -> None:
        begun.set()
        gate.wait(10)

    hand = Hand(store)
    claim = hand.start("t-1")
    transition = DeadLetter(error("no"), "max_attempts")
    failures = Failures(app.registry.hooks, EventLoop())
    failures.tell(claim, transition, Settled.OK)
    assert begun.wait(10)
    for _ in range(ROOM + 4):
        failures.tell(claim, transition, Settled.OK)
    assert "the hook on_failure tests.worker.test_hooks." in log.text
    assert "slow for mail t-1 (attempt 1) is too slow: 1 failures were not told" in log.text
    failures.tell(claim, transition, Settled.FENCED)
    failures.close(0.1)
    assert "the last failures were not told" in log.text


@pytest.mark.drains
def test_hooks_around_a_task_with_a_process_of_its_own_run_there_and_failures_are_told_here(
    app: Dtq, spawn: Spawn, ended: Ended
) -> None:
    process = spawn(ISOLATED)
    handle = app.named("isolated").submit(fail=False)
    around, handler = handle.result(timeout=20)
    assert around == handler != process.pid
    assert ended(app.named("isolated").options(max_attempts=1).submit(fail=True), 20).reason == "max_attempts"
    wait_until(lambda: f"told in {process.pid}: ValueError no, None" in process.log)


ISOLATED = """
from contextvars import ContextVar
around = ContextVar("around")

@app.around_task
def watch(task):
    around.set(os.getpid())
    yield

@app.on_failure
def tell(failure):
    print(f"told in {os.getpid()}: {failure.error.type} {failure.error.message}, {failure.exception}", flush=True)

@app.task("isolated", process=True)
def isolated(fail: bool) -> list[int]:
    if fail:
        raise ValueError("no")
    return [around.get(), os.getpid()]
"""


# The life of a worker


@pytest.mark.drains
def test_start_hooks_come_before_the_first_task_and_stop_hooks_after_the_last_in_reverse(
    app: Dtq, start: Start
) -> None:
    seen: list[str] = []

    @app.on_worker_start
    def first(worker: WorkerInfo) -> None:
        assert app.store.workers.list() == []
        seen.append(f"start {worker.id} {','.join(worker.queues)} {','.join(worker.types)}")

    @app.on_worker_start
    async def second(worker: WorkerInfo) -> None:
        await asyncio.sleep(0)
        seen.append(f"start on {threading.current_thread().name}")

    @app.on_worker_stop
    def last(worker: WorkerInfo) -> None:
        seen.append("stop last")

    @app.on_worker_stop
    async def first_to_stop(worker: WorkerInfo) -> None:
        seen.append(f"stop on {threading.current_thread().name}")

    @app.task("job")
    def job() -> None:
        seen.append("task")

    job.submit()
    worker = start(worker_id="w-1")
    wait_until(lambda: "task" in seen)
    worker.stop()
    assert worker.join(10) == 0
    assert seen == [
        "start w-1 default job",
        "start on dtq-event-loop",
        "task",
        "stop on dtq-event-loop",
        "stop last",
    ]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_start_hook_that_raises_stops_the_worker_with_a_sentence(
    app: Dtq, quick: Settings, log: pytest.LogCaptureFixture, kind: str
) -> None:
    stopped: list[WorkerInfo] = []
    app.on_worker_stop(stopped.append)

    def connect(worker: WorkerInfo) -> None:
        raise ConnectionError("no route to the database")

    async def connect_async(worker: WorkerInfo) -> None:
        raise ConnectionError("no route to the database")

    app.on_worker_start(connect if kind == "sync" else connect_async)
    app.task("job")(lambda: None)
    worker = Worker(app, quick)
    log.set_level("DEBUG", "dtq.worker")
    with pytest.raises(HookFailed, match=r"cannot start because its hook .*connect.* no route to the database"):
        worker.run()
    assert worker.join(1) == 0
    assert "Traceback" in log.text
    assert app.store.workers.list() == []
    assert stopped == []


def test_a_worker_process_whose_start_hook_raises_exits_with_the_sentence(spawn: Spawn) -> None:
    process = spawn(
        """
@app.on_worker_start
def connect(worker):
    raise ConnectionError("no route to the database")

@app.task("job")
def job(): ...
""",
        ready=False,
    )
    assert process.wait() == 1
    assert process.log.splitlines()[-1] == (
        "The worker cannot start because its hook on_worker_start jobs.connect raised ConnectionError: "
        "no route to the database; give it what it needs, or mend it (DTQ_LOG_LEVEL=DEBUG shows where it failed)."
    )
    assert "Traceback" not in process.log


def test_an_async_start_hook_that_never_ends_is_cut_short_by_a_signal(spawn: Spawn, tmp_path: Any) -> None:
    process = spawn(
        """
@app.on_worker_start
async def hang(worker):
    print("waits", flush=True)
    await asyncio.sleep(3600)

@app.on_worker_stop
def stop(worker):
    print("never printed", flush=True)

@app.task("job")
def job(): ...
""",
        ready=False,
    )
    wait_until(lambda: "waits" in process.log, 15)
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert "never printed" not in process.log


@pytest.mark.drains
def test_stop_hooks_that_raise_or_hang_do_not_keep_a_worker(
    app: Dtq, start: Start, log: pytest.LogCaptureFixture, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtq_engine.worker.lifetime.STOP_S", 0.5)
    app.on_worker_stop(lambda worker: gate.wait(10))

    @app.on_worker_stop
    def broken(worker: WorkerInfo) -> None:
        raise OSError("already closed")

    app.task("job")(lambda: None)
    worker = start()
    worker.stop()
    assert worker.join(10) == 0
    assert "already closed" in log.text
    assert "left behind" in log.text


@pytest.mark.drains
def test_a_slow_stop_hook_is_named_and_leaves_the_others_their_time(
    app: Dtq, start: Start, log: pytest.LogCaptureFixture, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtq_engine.worker.lifetime.STOP_S", 1.0)
    done: list[str] = []

    @app.on_worker_stop
    async def last(worker: WorkerInfo) -> None:
        await asyncio.sleep(0.01)
        done.append("last")

    @app.on_worker_stop
    def hangs(worker: WorkerInfo) -> None:
        gate.wait(10)

    @app.on_worker_stop
    def slow(worker: WorkerInfo) -> None:
        gate.wait(0.5)
        done.append("slow")

    @app.on_worker_stop
    def first(worker: WorkerInfo) -> None:
        done.append("first")

    app.task("job")(lambda: None)
    worker = start()
    worker.stop()
    assert worker.join(10) == 0
    assert sorted(done) == ["first", "last", "slow"]
    assert done[0] == "first"
    (line,) = [record.getMessage() for record in log.records if "left behind" in record.getMessage()]
    assert line.startswith("the hook on_worker_stop tests.worker.test_hooks.")
    assert "hangs took too long" in line


@pytest.mark.drains
def test_a_worker_without_hooks_starts_no_thread_for_them(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("broken", max_attempts=1)
    def broken() -> None:
        raise ValueError("no")

    worker = start()
    assert ended(broken.submit()).status == "dead_lettered"
    assert "dtq-failures" not in {thread.name for thread in threading.enumerate()}
    assert worker.parts.inflight.raised == {}


# Submits


def test_hooks_around_submits_see_single_tasks_and_batches(app: Dtq) -> None:
    seen: list[list[str]] = []

    @app.around_submit
    def stamp(tasks: list[Any]) -> Iterator[list[Any]]:
        seen.append([task.type for task in tasks])
        yield [replace(task, priority=9) for task in tasks]

    @app.task("job")
    def job() -> None: ...

    handle = job.submit()
    answers = app.submit_many([job.prepare(), job.prepare()])
    assert app.submit_many([]) == []
    assert seen == [["job"], ["job", "job"]]
    assert handle.info().priority == 9
    for answer in answers:
        assert app.handle(answer.id).info().priority == 9


def test_what_a_hook_makes_of_a_task_is_checked_as_any_task_is(app: Dtq) -> None:
    @app.around_submit
    def spoil(tasks: list[Any]) -> Iterator[list[Any]]:
        yield [task.with_headers({"big": "x" * 5000}) for task in tasks]

    @app.task("job")
    def job() -> None: ...

    with pytest.raises(Exception, match="headers take") as refused:
        job.submit()
    assert type(refused.value).__name__ == "PayloadTooLarge"
    [answer] = app.submit_many([job.prepare()])
    assert "headers take" in str(answer)

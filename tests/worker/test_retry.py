"""How often and how soon a failed task is tried again."""

import threading
import time
from collections.abc import Callable

import msgspec
import pytest

from dtq_engine import Dtq, PermanentError, Retry, Snooze, Task, TaskContext, TaskStatus
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until

Start = Callable[..., Worker]
Ended = Callable[..., Task]


@pytest.mark.drains
def test_a_task_is_tried_again_until_it_succeeds_and_remembers_each_failure(
    app: Dtq, start: Start, ended: Ended
) -> None:
    @app.task("flaky", max_attempts=5, retry_base_delay=0.05, retry_max_delay=1, retry_jitter=0)
    def flaky(ctx: TaskContext) -> int:
        if ctx.attempt < 3:
            raise ValueError(f"attempt {ctx.attempt}")
        return ctx.attempt

    handle = flaky.submit()
    worker = start()
    assert handle.result(timeout=10) == 3
    task = ended(handle)
    assert [(error.type, error.message, error.attempt) for error in task.errors] == [
        ("ValueError", "attempt 1", 1),
        ("ValueError", "attempt 2", 2),
    ]
    assert {error.worker for error in task.errors} == {worker.id}
    assert all("raise ValueError" in error.traceback for error in task.errors)
    assert all(0 < error.started_ms <= error.ended_ms for error in task.errors)


@pytest.mark.drains
def test_with_zero_delays_all_attempts_follow_each_other_at_once(app: Dtq, start: Start, ended: Ended) -> None:
    @app.task("fail", max_attempts=10, retry_base_delay=0, retry_max_delay=0)
    def fail() -> None:
        raise ValueError

    handle = fail.submit()
    before = time.monotonic()
    start()
    task = ended(handle)
    assert (task.status, task.reason, task.attempt) == (TaskStatus.DEAD_LETTERED, "max_attempts", 10)
    assert time.monotonic() - before < 5


@pytest.mark.drains
def test_a_task_with_one_attempt_runs_once(app: Dtq, start: Start, ended: Ended) -> None:
    runs: list[int] = []

    @app.task("fail", max_attempts=1)
    def fail() -> None:
        runs.append(1)
        raise ValueError

    handle = fail.submit()
    start()
    assert ended(handle).status is TaskStatus.DEAD_LETTERED
    assert runs == [1]


@pytest.mark.drains
def test_a_handler_may_ask_for_another_attempt_after_a_delay_of_its_own(app: Dtq, start: Start, ended: Ended) -> None:
    times: list[float] = []

    @app.task("ask", max_attempts=3, retry_base_delay=100, retry_max_delay=100)
    def ask(ctx: TaskContext) -> int:
        times.append(time.monotonic())
        if ctx.attempt == 1:
            raise Retry(0.3)
        return ctx.attempt

    handle = ask.submit()
    start()
    assert handle.result(timeout=10) == 2
    assert 0.28 <= times[1] - times[0] < 0.5
    assert [error.type for error in ended(handle).errors] == ["Retry"]


@pytest.mark.drains
def test_a_snooze_does_not_count_as_an_attempt(app: Dtq, start: Start, ended: Ended) -> None:
    attempts: list[int] = []

    @app.task("sleepy", max_attempts=2)
    async def sleepy(ctx: TaskContext) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) <= 4:
            raise Snooze(0.02)

    handle = sleepy.submit()
    start()
    assert ended(handle).status is TaskStatus.SUCCEEDED
    assert attempts == [1] * 5


@pytest.mark.drains
@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "soon", None, True])
def test_a_wrong_delay_in_a_retry_is_an_ordinary_failure(app: Dtq, start: Start, ended: Ended, delay: object) -> None:
    @app.task("ask", max_attempts=2)
    def ask() -> None:
        raise Retry(delay)  # type: ignore[arg-type]

    handle = ask.submit()
    start()
    task = ended(handle)
    assert (task.status, task.attempt) == (TaskStatus.DEAD_LETTERED, 2)


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_retry_callback_decides_the_delay_and_when_to_give_up(
    app: Dtq, start: Start, ended: Ended, kind: str
) -> None:
    asked: list[tuple[str, int]] = []

    def callback(error: BaseException, attempt: int) -> float | None:
        asked.append((type(error).__name__, attempt))
        return 0.01 if attempt < 3 else None

    if kind == "sync":

        @app.task("fail", max_attempts=9, retry=callback, retry_base_delay=100, retry_max_delay=100)
        def fail() -> None:
            raise LookupError
    else:

        @app.task("fail", max_attempts=9, retry=callback, retry_base_delay=100, retry_max_delay=100)
        async def fail() -> None:
            raise LookupError

    handle = fail.submit()
    start()
    task = ended(handle)
    assert (task.status, task.reason, task.attempt) == (TaskStatus.DEAD_LETTERED, "permanent", 3)
    assert asked == [("LookupError", 1), ("LookupError", 2), ("LookupError", 3)]


@pytest.mark.drains
@pytest.mark.parametrize("answer", [ZeroDivisionError(), -1.0, float("nan"), "soon"])
def test_a_retry_callback_that_fails_leaves_the_decision_to_the_numbers(
    app: Dtq, start: Start, ended: Ended, answer: object
) -> None:
    def callback(error: BaseException, attempt: int) -> float | None:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    @app.task("fail", max_attempts=2, retry=callback)
    def fail() -> None:
        raise LookupError

    handle = fail.submit()
    start()
    task = ended(handle)
    assert (task.reason, task.attempt) == ("max_attempts", 2)


@pytest.mark.drains
def test_a_retry_callback_that_hangs_is_given_a_second_and_holds_up_nobody(
    app: Dtq, start: Start, ended: Ended, gate: threading.Event
) -> None:
    def callback(error: BaseException, attempt: int) -> float | None:
        gate.wait(10)
        return 100

    @app.task("fail", max_attempts=2, retry=callback)
    async def fail() -> None:
        raise LookupError

    @app.task("quick")
    async def quick() -> str:
        return "done"

    handle = fail.submit()
    start(worker_concurrency=2)
    before = time.monotonic()
    assert quick.submit().result(timeout=10) == "done"
    assert time.monotonic() - before < 5
    assert ended(handle).attempt == 2


@pytest.mark.drains
def test_a_retry_callback_is_not_asked_about_a_permanent_error(app: Dtq, start: Start, ended: Ended) -> None:
    asked: list[int] = []

    def callback(error: BaseException, attempt: int) -> float | None:
        asked.append(attempt)
        return 0

    @app.task("fail", max_attempts=2, retry=callback)
    def fail() -> None:
        raise PermanentError

    handle = fail.submit()
    start()
    assert ended(handle).attempt == 1
    assert asked == []


@pytest.mark.drains
@pytest.mark.parametrize("exception", [Retry, Snooze])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_delay_of_four_hundred_digits_is_an_error_like_any_that_is_too_large(
    app: Dtq, start: Start, ended: Ended, exception: type[Retry | Snooze], is_async: bool
) -> None:
    def ask() -> None:
        raise exception(10**400)

    async def ask_async() -> None:
        ask()

    task = app.task("ask", max_attempts=1)(ask_async if is_async else ask)
    handle = task.submit()
    start()
    assert [error.type for error in ended(handle).errors] == [exception.__name__]


@pytest.mark.drains
def test_an_exception_that_cannot_be_looked_at_ends_its_attempt_all_the_same(
    app: Dtq, start: Start, ended: Ended
) -> None:
    class Sly(Retry):
        @property
        def delay(self) -> float:
            raise LookupError("no delay")

        @delay.setter
        def delay(self, value: float) -> None: ...

    @app.task("ask", max_attempts=1)
    def ask() -> None:
        raise Sly(1)

    handle = ask.submit()
    start()
    assert [error.type for error in ended(handle).errors] == ["LookupError"]


@pytest.mark.keeps_keys
def test_a_claim_that_cannot_be_run_costs_those_beside_it_nothing(app: Dtq, start: Start, ended: Ended) -> None:
    ran: list[int] = []

    @app.task("note", max_attempts=3)
    def note(number: int) -> None:
        ran.append(number)

    worker = start(worker_queues=("elsewhere",))
    handles = [note.submit(number) for number in range(3)]
    store = app.store
    digest = store.workers.announce(["default"], ["note"])
    claims = list(store.leases.claim("default", worker="w", token="x" * 22, limit=3, types_digest=digest).claims)
    claims[1] = msgspec.structs.replace(claims[1], timeout_ms=10**400)
    worker.parts.executor.run(claims)
    tasks = [ended(handle) for handle in handles]
    assert [task.status for task in tasks] == ["succeeded", "dead_lettered", "succeeded"]
    assert tasks[1].errors[0].type == "BadRecord"
    assert sorted(ran) == [0, 2]
    wait_until(lambda: worker.parts.inflight.taken == 0)

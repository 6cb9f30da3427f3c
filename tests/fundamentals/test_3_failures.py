"""Chapter 3: what happens when a handler fails."""

import pytest

from dtq_engine import PermanentError, Retry, Snooze, TaskContext, TaskFailed, TaskStatus


def test_a_task_that_fails_is_tried_again(app, start_worker):
    @app.task("flaky", retry_base_delay=0)
    def flaky(ctx: TaskContext) -> int:
        if ctx.attempt < 3:
            raise ConnectionError(f"attempt {ctx.attempt} found nobody")
        return ctx.attempt

    handle = flaky.submit()
    start_worker()
    assert handle.result(timeout=10) == 3
    assert [(error.attempt, error.message) for error in handle.info().errors] == [
        (1, "attempt 1 found nobody"),
        (2, "attempt 2 found nobody"),
    ]


def test_a_task_that_fails_each_time_becomes_a_dead_letter(app, start_worker):
    @app.task("hopeless", max_attempts=2, retry_base_delay=0)
    def hopeless() -> None:
        raise ValueError("no such account")

    handle = hopeless.submit()
    start_worker()
    with pytest.raises(TaskFailed, match="ValueError: no such account") as failed:
        handle.result(timeout=10)
    assert failed.value.status == TaskStatus.DEAD_LETTERED
    (letter,) = app.store.inspect.dead_letters(queue="default").items
    assert (letter.task_id, letter.reason, letter.attempts) == (handle.id, "max_attempts", 2)


def test_a_dead_letter_can_be_given_a_new_life(app, start_worker):
    repaired = False

    @app.task("hopeless", max_attempts=1)
    def hopeless() -> str:
        if not repaired:
            raise ValueError("no such account")
        return "done"

    handle = hopeless.submit()
    start_worker()
    with pytest.raises(TaskFailed):
        handle.result(timeout=10)

    repaired = True
    app.store.control.requeue(handle.id, queue=handle.queue)
    assert handle.result(timeout=10) == "done"


def test_a_permanent_error_is_not_tried_again(app, start_worker):
    @app.task("closed", permanent=(LookupError,))
    def closed(by_class: bool) -> None:
        raise PermanentError("the account is closed") if not by_class else KeyError("account")

    said, listed = closed.submit(by_class=False), closed.submit(by_class=True)
    start_worker()
    for handle in (said, listed):
        with pytest.raises(TaskFailed, match="permanent"):
            handle.result(timeout=10)
        assert handle.info().attempt == 1


def test_a_handler_can_say_when_to_try_again(app, start_worker):
    @app.task("busy")
    def busy(ctx: TaskContext) -> int:
        if ctx.attempt == 1:
            raise Retry(delay=0, reason="the service said 429")
        return ctx.attempt

    handle = busy.submit()
    start_worker()
    assert handle.result(timeout=10) == 2


def test_a_handler_can_be_called_again_later_without_using_up_an_attempt(app, start_worker):
    calls = []

    @app.task("poll", max_attempts=1)
    def poll() -> int:
        calls.append(1)
        if len(calls) < 4:
            raise Snooze(delay=0)
        return len(calls)

    handle = poll.submit()
    start_worker()
    assert handle.result(timeout=10) == 4
    assert handle.info().attempt == 1


def test_a_task_type_can_decide_by_the_error(app, start_worker):
    def patience(error: BaseException, attempt: int) -> float | None:
        return 0 if isinstance(error, ConnectionError) else None

    @app.task("picky", retry=patience)
    def picky(ctx: TaskContext) -> None:
        raise ConnectionError if ctx.attempt == 1 else ValueError("wrong")

    handle = picky.submit()
    start_worker()
    with pytest.raises(TaskFailed, match="ValueError: wrong"):
        handle.result(timeout=10)
    assert handle.info().attempt == 2

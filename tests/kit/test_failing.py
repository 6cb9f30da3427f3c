"""Tasks that fail: what the test sees of it, and what is recorded."""

import asyncio
import traceback

import pytest

from dtq_engine import PermanentError, Retry, Snooze, TaskContext, TaskFailed, TaskStatus
from dtq_engine.testing import HandlerFailed


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("inline", [False, True])
def test_the_error_leads_into_the_handler(dtq, dtq_app, inline, is_async):
    @dtq_app.task("sync", max_attempts=2)
    def sync() -> None:
        raise LookupError("no such thing")

    @dtq_app.task("async", max_attempts=2)
    async def asynchronous() -> None:
        await asyncio.sleep(0)
        raise LookupError("no such thing")

    dtq.inline = inline
    task = asynchronous if is_async else sync
    with pytest.raises(HandlerFailed) as failed:  # noqa: PT012 - whichever of the two comes first
        task.submit()
        dtq.run_all()
    assert str(failed.value).startswith(
        f"{task.name} failed in attempt 1 of 2, to be tried again in 5 s: LookupError: no such thing (task "
    )
    cause = failed.value.__cause__
    assert isinstance(cause, LookupError)
    assert traceback.extract_tb(cause.__traceback__)[0].name in {"sync", "asynchronous"}
    assert dtq_app.handle(failed.value.task_id).status() == TaskStatus.RETRYING


def test_the_tasks_after_it_can_still_be_run(dtq, dtq_app):
    @dtq_app.task("picky")
    def picky(number: int) -> None:
        assert number != 1, "not this one"

    handles = [picky.submit(number) for number in range(3)]
    with pytest.raises(HandlerFailed, match="not this one"):
        dtq.run_all()
    assert [each.attempt for each in dtq.run_all()] == [1]
    assert [handle.status() for handle in handles] == ["succeeded", "retrying", "succeeded"]


def test_a_failure_within_a_task_of_a_task_comes_out_of_the_submit_when_inline(dtq, dtq_app):
    @dtq_app.task("child")
    def child() -> None:
        raise ValueError("deep down")

    @dtq_app.task("parent")
    def parent() -> str:
        child.submit()
        return "unharmed"

    dtq.inline = True
    with pytest.raises(HandlerFailed, match=r"child failed .*deep down"):
        parent.submit()
    (submitted,) = dtq.submitted(parent)
    assert submitted.handle.result() == "unharmed"


def test_retry_and_snooze_are_no_failures_until_the_attempts_are_used_up(dtq, dtq_app):
    @dtq_app.task("busy", max_attempts=2)
    def busy() -> None:
        raise Retry(10, "the service said 429")

    @dtq_app.task("poll", max_attempts=1)
    def poll(ctx: TaskContext) -> int:
        if ctx.fence < 3:
            raise Snooze(10)
        return ctx.attempt

    waiting, polling = busy.submit(), poll.submit()
    dtq.run_all()
    assert (waiting.status(), polling.status()) == (TaskStatus.RETRYING, TaskStatus.RETRYING)
    dtq.advance(10)
    with pytest.raises(HandlerFailed, match=r"busy failed in attempt 2 of 2, for good \(max_attempts\): .*429"):
        dtq.run_to_end()
    dtq.run_to_end()
    assert polling.result() == 1


def test_a_result_that_is_no_json_and_a_payload_that_does_not_fit_fail_as_in_production(dtq, dtq_app):
    @dtq_app.task("odd", max_attempts=1)
    def odd(number: int) -> object:
        return {1, 2}

    odd.submit(1)
    with pytest.raises(HandlerFailed, match="the result of the task odd cannot be kept: the result is of type set"):
        dtq.run_all()
    dtq_app.submit(odd.prepare(1).__class__(id="x", type="odd", payload=b'{"number": "seven"}'))
    with pytest.raises(HandlerFailed, match=r"for good \(permanent\).*does not fit the task odd"):
        dtq.run_all()


def test_dead_letters_can_be_looked_at_and_requeued(dtq, dtq_app):
    broken = True

    @dtq_app.task("mend", retry_base_delay=3600)
    def mend() -> str:
        if broken:
            raise OSError("broken")
        return "whole"

    handle = mend.options(max_attempts=3).submit()
    ran = dtq.run_to_end(raise_failures=False)
    assert [(each.attempt, each.status) for each in ran] == [(1, "retrying"), (2, "retrying"), (3, "dead_lettered")]
    (letter,) = dtq_app.store.inspect.dead_letters(queue="default").items
    assert (letter.task_id, letter.reason) == (handle.id, "max_attempts")

    broken = False
    dtq_app.store.control.requeue(handle.id, queue="default")
    dtq.run_all()
    assert handle.result() == "whole"


def test_the_retry_callback_and_the_list_of_permanent_errors_are_asked(dtq, dtq_app):
    def patience(error: BaseException, attempt: int) -> float | None:
        return 7 if isinstance(error, OSError) else None

    @dtq_app.task("picky", retry=patience, permanent=(KeyError,))
    def picky(kind: str) -> None:
        raise {"os": OSError, "key": KeyError, "value": ValueError}[kind]("no")

    retried, listed, refused = (picky.submit(kind) for kind in ("os", "key", "value"))
    dtq.run_all(raise_failures=False)
    assert [each.status() for each in (retried, listed, refused)] == ["retrying", "dead_lettered", "dead_lettered"]
    dtq.advance(4)
    assert dtq.run_all() == []
    dtq.advance(3)
    assert len(dtq.run_all(raise_failures=False)) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.fail.Exception, pytest.skip.Exception])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_concerns_the_test_goes_through_whatever_raise_failures_says(dtq, dtq_app, error, is_async):
    @dtq_app.task("sync", max_attempts=1)
    def sync() -> None:
        raise error("stop")

    @dtq_app.task("async", max_attempts=1)
    async def asynchronous() -> None:
        raise error("stop")

    handle = (asynchronous if is_async else sync).submit()
    with pytest.raises(error):
        dtq.run_all(raise_failures=False)
    assert handle.status() == TaskStatus.DEAD_LETTERED


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, GeneratorExit])
def test_other_exits_are_failures_of_the_task(dtq, dtq_app, error):
    @dtq_app.task("exit", max_attempts=1)
    def leave() -> None:
        raise error

    handle = leave.submit()
    with pytest.raises(HandlerFailed):
        dtq.run_all()
    with pytest.raises(TaskFailed):
        handle.result()


def test_hooks_hear_of_failures_before_the_run_goes_on(dtq, dtq_app):
    heard = []

    @dtq_app.on_failure
    async def report(failure) -> None:
        await asyncio.sleep(0)
        heard.append((failure.type, failure.reason, repr(failure.exception)))

    @dtq_app.task("closed")
    def closed() -> None:
        raise PermanentError("closed")

    closed.submit()
    dtq.run_all(raise_failures=False)
    assert heard == [("closed", "permanent", "PermanentError('closed')")]


def test_hooks_of_a_worker_are_called_at_the_first_run_and_at_the_end(dtq, dtq_app):
    steps = []
    dtq_app.on_worker_start(lambda info: steps.append(f"start {info.id}"))

    @dtq_app.on_worker_stop
    async def stop(info) -> None:
        await asyncio.sleep(0)
        steps.append("stop")

    @dtq_app.around_task
    def wrap(ctx):
        steps.append(f"before attempt {ctx.attempt}")
        yield
        steps.append("after")

    @dtq_app.task("note")
    def note() -> None:
        steps.append("note")

    note.submit()
    assert steps == []
    dtq.run_all()
    dtq.run_all()
    dtq.__exit__(None, None, None)
    assert steps == ["start dtq-test", "before attempt 1", "note", "after", "stop"]

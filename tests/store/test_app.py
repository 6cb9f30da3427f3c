"""The app over a real server: what submitting answers, and what it leaves alone."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dtq_engine import (
    Dtq,
    Handle,
    IdempotencyConflict,
    IdempotencyMismatch,
    InvalidTask,
    NewTask,
    PayloadTooLarge,
    QueueFull,
    RedisUnavailable,
    SubmitUncertain,
    TaskNotFound,
    TaskStatus,
)
from dtq_engine.errors import MemoryFull


@pytest.fixture
def app(settings):
    made = Dtq(replace(settings, max_queue_depth=5, max_payload_bytes=1000))

    @made.task("mail")
    def mail(to: str, text: str = "") -> None: ...

    yield made
    made.close()


@pytest.fixture
def mail(app):
    return app.named("mail")


def cancel_all(handles):
    for handle in handles:
        handle.cancel()


def test_a_submitted_task_waits_in_its_queue(app, mail):
    handle = mail.submit(to="a")
    assert (handle.queue, handle.status(), handle.duplicate) == ("default", TaskStatus.QUEUED, False)
    assert handle.info().payload == b'{"to":"a"}'
    handle.cancel()


def test_a_handle_is_found_again_by_its_id_alone(app, mail):
    handle = mail.options(queue="other").submit(to="a")
    found = app.handle(handle.id)
    assert (found.queue, found.status()) == ("other", TaskStatus.QUEUED)
    assert app.handle(handle.id, "other").info().type == "mail"
    handle.cancel()


def test_an_unknown_task_is_not_found(app):
    for ask in (Handle.status, Handle.info, Handle.result, Handle.cancel, lambda handle: handle.queue):
        with pytest.raises(TaskNotFound):
            ask(app.handle("nothing"))
    with pytest.raises(TaskNotFound):
        app.handle("nothing", "default").result(timeout=1)


def test_a_wrong_id_is_refused_before_anything_is_asked(app):
    with pytest.raises(InvalidTask, match="id cannot be"):
        app.handle("a b")


def test_the_same_id_twice_is_one_task(app, mail):
    first = mail.options(id="t-1").submit(to="a")
    again = mail.options(id="t-1").submit(to="a")
    assert (again.id, again.duplicate) == (first.id, True)
    assert app.store.inspect.queue("default").waiting == 1
    first.cancel()


def test_a_repeated_idempotency_key_returns_the_earlier_task(app, mail):
    first = mail.options(idempotency_key="k").submit(to="a", text="b")
    again = mail.options(idempotency_key="k").submit(text="b", to="a")
    assert (again.id, again.duplicate, first.duplicate) == (first.id, True, False)
    first.cancel()


def test_a_repeated_idempotency_key_is_rejected_if_the_settings_say_so(app, mail):
    app.configure(replace(app.settings, idem_conflict="reject"))
    first = mail.options(idempotency_key="k").submit(to="a")
    with pytest.raises(IdempotencyConflict, match=first.id):
        mail.options(idempotency_key="k").submit(to="a")
    first.cancel()


def test_an_idempotency_key_of_another_call_is_a_mismatch(app, mail):
    first = mail.options(idempotency_key="k").submit(to="a")
    with pytest.raises(IdempotencyMismatch, match=first.id):
        mail.options(idempotency_key="k").submit(to="b")
    first.cancel()


def test_a_full_queue_refuses_and_says_so(app, mail):
    accepted = [mail.submit(to=str(number)) for number in range(5)]
    with pytest.raises(QueueFull, match="holds 5 tasks"):
        mail.submit(to="x")
    cancel_all(accepted)


def test_a_payload_over_the_limit_is_refused(mail):
    with pytest.raises(PayloadTooLarge, match="1000 are allowed"):
        mail.submit(to="x" * 1000)


def test_one_bad_item_does_not_stop_the_others(app, mail):
    first = mail.options(idempotency_key="k").prepare(to="a")
    items = [
        first,
        NewTask(id="bad id", type="mail"),
        mail.options(idempotency_key="k").prepare(to="b"),
        mail.options(queue="other").prepare(to="c"),
        NewTask(id="big", type="mail", payload=b'{"to":"' + b"x" * 1000 + b'"}'),
        mail.options(idempotency_key="k").prepare(to="a"),
        None,
        mail.prepare(to="d"),
    ]
    answers = app.submit_many(iter(items))
    assert [type(each).__name__ for each in answers] == [
        "Handle",
        "InvalidTask",
        "IdempotencyMismatch",
        "Handle",
        "PayloadTooLarge",
        "Handle",
        "InvalidTask",
        "Handle",
    ]
    assert answers[5].id == first.id
    assert answers[5].duplicate
    assert [answers[at].status() for at in (0, 3, 7)] == [TaskStatus.QUEUED] * 3
    assert answers[3].queue == "other"
    cancel_all(answers[at] for at in (0, 3, 7))


def test_a_full_queue_refuses_only_what_does_not_fit(app, mail):
    answers = app.submit_many([mail.prepare(to=str(number)) for number in range(8)])
    assert [isinstance(each, Handle) for each in answers] == [True] * 5 + [False] * 3
    assert all(isinstance(each, QueueFull) for each in answers[5:])
    cancel_all(answers[:5])


def test_thousands_are_accepted_in_order(app, mail):
    app.configure(replace(app.settings, max_queue_depth=0))
    tasks = [mail.options(queue=f"q{number % 3}").prepare(to=str(number)) for number in range(3000)]
    answers = app.submit_many(tasks)
    assert [(each.id, each.queue) for each in answers] == [(task.id, task.queue) for task in tasks]
    assert [app.store.inspect.queue(f"q{number}").waiting for number in range(3)] == [1000] * 3


def test_nothing_to_submit_is_no_call(settings):
    assert Dtq(replace(settings, redis_url="redis://127.0.0.1:1/0")).submit_many([]) == []


@pytest.mark.alone
def test_redis_away_is_said_within_two_seconds(settings):
    away = Dtq(replace(settings, redis_url="redis://127.0.0.1:1/0"))
    task = away.named("mail").prepare()
    for attempt in (lambda: away.submit(task), lambda: away.submit_many([task])):
        start = time.monotonic()
        with pytest.raises(RedisUnavailable):
            attempt()
        assert time.monotonic() - start < 2


class Failing:
    """An intake that accepts some batches and then fails."""

    def __init__(self, intake, error, good=2):
        self.intake, self.error, self.good, self.calls = intake, error, good, 0

    def pack(self, queue, tasks):
        return self.intake.pack(queue, tasks)

    def send(self, parcel):
        self.calls += 1
        if self.calls > self.good:
            raise self.error
        return self.intake.send(parcel)


@pytest.mark.parametrize(
    ("error", "failed", "unsent"),
    [
        (RedisUnavailable("gone"), RedisUnavailable, RedisUnavailable),
        (SubmitUncertain("x"), SubmitUncertain, RedisUnavailable),
        (MemoryFull("full"), MemoryFull, MemoryFull),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_was_accepted_before_redis_went_away_is_not_hidden(app, mail, monkeypatch, error, failed, unsent):
    app.configure(replace(app.settings, max_queue_depth=0))
    intake = Failing(app.store.intake, error)
    monkeypatch.setattr(app.store, "intake", intake)
    tasks = [mail.prepare(to=str(number)) for number in range(1900)]
    answers = app.submit_many(tasks)
    assert all(isinstance(each, Handle) for each in answers[:1000])
    assert all(isinstance(each, failed) for each in answers[1000:1500])
    assert all(isinstance(each, unsent) for each in answers[1500:])
    assert intake.calls == 3
    if failed is SubmitUncertain:
        assert [each.task_id for each in answers[1000:1500]] == [task.id for task in tasks[1000:1500]]


def test_what_is_wrong_with_tasks_that_are_not_sent_is_said_too(app, mail, monkeypatch):
    app.configure(replace(app.settings, max_queue_depth=0))
    monkeypatch.setattr(app.store, "intake", Failing(app.store.intake, RedisUnavailable("gone")))
    tasks = [mail.prepare(to=str(number)) for number in range(2600)]
    tasks[2590] = replace(tasks[2590], queue="No Queue")
    answers = app.submit_many(tasks)
    assert isinstance(answers[2590], InvalidTask)
    assert sum(isinstance(each, RedisUnavailable) for each in answers) == 1599


def test_tasks_of_many_queues_are_accepted_in_order_in_as_few_calls_as_there_may_be(app, store, monkeypatch):
    app.configure(replace(app.settings, max_queue_depth=0))
    intake = Failing(app.store.intake, AssertionError("too many calls"), good=6)
    monkeypatch.setattr(app.store, "intake", intake)
    tasks = [NewTask(id=f"m{n:04}", type="t", queue=f"q{n % 3}") for n in range(1600)]
    answers = app.submit_many(tasks)
    assert [each.id for each in answers] == [task.id for task in tasks]
    assert intake.calls == 6
    entries = app.connection.client.xrange(store.keys.stream("q1", 5))
    assert [fields[b"i"].decode() for _, fields in entries] == [task.id for task in tasks if task.queue == "q1"]
    cancel_all(answers)


def test_submitting_does_not_block_the_event_loop(app, mail):
    async def submit_many_at_once() -> list[Handle[None]]:
        return list(await asyncio.gather(*(mail.submit_async(to=str(number)) for number in range(5))))

    handles = asyncio.run(submit_many_at_once())
    assert len({handle.id for handle in handles}) == 5
    cancel_all(handles)


def test_cancelling_an_awaited_submit_leaves_a_task_or_none(app, mail):
    async def give_up() -> str:
        prepared = asyncio.create_task(mail.options(id="given-up").submit_async(to="a"))
        await asyncio.sleep(0)
        prepared.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prepared
        return "given-up"

    handle = app.handle(asyncio.run(give_up()), "default")  # asyncio.run waits for the thread
    try:
        assert handle.status() is TaskStatus.QUEUED
    except TaskNotFound:
        return
    handle.cancel()


def test_threads_share_an_app(app, mail):
    app.configure(replace(app.settings, max_queue_depth=0))
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda number: mail.submit(to=str(number)), range(80)))
    assert len({handle.id for handle in handles}) == 80
    assert app.store.inspect.queue("default").waiting == 80


def test_an_app_survives_a_fork(app, mail):
    before = mail.submit(to="parent")
    child = os.fork()
    if child == 0:
        try:
            after = mail.options(id="of-the-child").submit(to="child")
            os._exit(0 if after.status() is TaskStatus.QUEUED and before.status() is TaskStatus.QUEUED else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert app.handle("of-the-child").status() is TaskStatus.QUEUED
    assert before.status() is TaskStatus.QUEUED
    cancel_all([before, app.handle("of-the-child")])


def test_a_closed_app_opens_again_when_it_is_needed(app, mail):
    handle = mail.submit(to="a")
    app.close()
    app.close()
    assert handle.status() is TaskStatus.QUEUED
    handle.cancel()

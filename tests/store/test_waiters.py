"""Waiting for results: at once, by one subscription, and never for ever."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dtq_engine import (
    Dtq,
    InvalidTask,
    RedisUnavailable,
    ResultNotReady,
    ResultTruncated,
    TaskFailed,
    TaskNotFound,
    TaskStatus,
    waiters,
)
from dtq_engine.ids import new_token
from dtq_engine.model import Cancel, DeadLetter, Reschedule, Succeed
from tests.store.hand import Hand, error
from tests.support.waiting import wait_until


@pytest.fixture
def app(settings):
    made = Dtq(settings)
    yield made
    made.close()


@pytest.fixture
def mail(app):
    return app.named("mail")


@pytest.fixture
def later():
    """Run something in a thread; its outcome is asked for by `.result()`."""
    with ThreadPoolExecutor(64) as pool:
        yield pool.submit


def listeners(client, settings):
    return [number for _, number in client.pubsub_numsub(*client.pubsub_channels("*:done:*"))]


def wait_for_waiters(app, number):
    wait_until(lambda: sum(len(bells) for bells in app.waiters._bells.values()) == number and app.waiters._subscribed)


@pytest.mark.alone
def test_a_result_arrives_as_soon_as_it_is_there(app, mail, hand, later):
    handle = mail.submit()
    claim = hand.claim_one(handle.id)
    waiting = later(handle.result, 30)
    wait_for_waiters(app, 1)
    start = time.monotonic()
    hand.end(claim, Succeed(b'{"pages":3}'))
    assert waiting.result() == {"pages": 3}
    assert time.monotonic() - start < 0.5


def test_a_result_that_is_there_needs_no_subscription(app, mail, hand, client, settings):
    handle = mail.submit()
    hand.end(hand.claim_one(handle.id), Succeed(None))
    assert handle.result() is None
    assert app.waiters._listener is None


def test_fifty_threads_share_one_subscription(app, mail, hand, client, settings, later):
    handles = [mail.submit(number=number) for number in range(25)]
    claims = {claim.task_id: claim for claim in hand.claim(25)}
    waiting = [later(handle.result, 30) for handle in handles for _ in range(2)]
    wait_for_waiters(app, 50)
    assert listeners(client, settings) == [1, 1]  # its own channel and the shared one
    assert len([thread for thread in threading.enumerate() if thread.name == "dtq-waiters"]) == 1
    for number, handle in enumerate(handles):
        hand.end(claims[handle.id], Succeed(str(number).encode()))
    assert [each.result() for each in waiting] == [number for number in range(25) for _ in range(2)]


@pytest.mark.alone
def test_waiting_ends_at_the_timeout(mail):
    handle = mail.submit()
    start = time.monotonic()
    with pytest.raises(ResultNotReady, match=r"within 0\.2 s"):
        handle.result(timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 1
    with pytest.raises(ResultNotReady):
        handle.result(timeout=0)
    handle.cancel()


@pytest.mark.parametrize("bad", [-1, float("nan"), "5", True])
def test_a_wrong_timeout_is_refused(mail, bad):
    handle = mail.submit()
    with pytest.raises(InvalidTask, match="timeout cannot be"):
        handle.result(timeout=bad)
    handle.cancel()


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (DeadLetter(error("boom"), "max_attempts"), TaskStatus.DEAD_LETTERED),
        (Cancel(error("gave way")), TaskStatus.CANCELLED),
    ],
    ids=str,
)
def test_a_task_that_ends_without_result_is_told_to_its_waiter(app, mail, hand, later, end, status):
    handle = mail.submit()
    claim = hand.claim_one(handle.id)
    waiting = later(handle.result, 30)
    wait_for_waiters(app, 1)
    hand.end(claim, end)
    with pytest.raises(TaskFailed, match="ValueError") as failed:
        waiting.result()
    assert (failed.value.task_id, failed.value.status) == (handle.id, status)


def test_a_waiting_task_that_is_cancelled_is_told_to_its_waiter(app, mail, later):
    handle = mail.submit()
    waiting = later(handle.result)
    wait_for_waiters(app, 1)
    handle.cancel("not needed")
    with pytest.raises(TaskFailed, match="cancelled"):
        waiting.result()


def test_a_retry_is_waited_out(app, mail, hand, later):
    handle = mail.submit()
    first = hand.claim_one(handle.id)
    waiting = later(handle.result, 30)
    wait_for_waiters(app, 1)
    hand.end(first, Reschedule(error(), 0))
    hand.end(hand.claim_one(handle.id), Succeed(b"2"))
    assert waiting.result() == 2


def test_a_result_of_which_only_a_preview_was_kept_is_not_returned(mail, hand):
    handle = mail.submit()
    hand.end(hand.claim_one(handle.id), Succeed(b'"xxx', 5000))
    with pytest.raises(ResultTruncated, match="5000 bytes"):
        handle.result()


def test_a_broken_subscription_is_made_anew_and_nothing_is_missed(app, mail, hand, client, later, monkeypatch):
    monkeypatch.setattr(waiters, "POLL_S", 0.1)
    handle = mail.submit()
    claim = hand.claim_one(handle.id)
    waiting = later(handle.result, 30)
    wait_for_waiters(app, 1)
    client.client_kill_filter(_type="pubsub")
    hand.end(claim, Succeed(b"1"))
    assert waiting.result() == 1


def test_without_a_subscription_the_record_is_looked_at(app, mail, hand, later, monkeypatch):
    monkeypatch.setattr(waiters, "POLL_S", 0.05)

    def refuse(channels):
        raise RedisUnavailable("no more connections")

    monkeypatch.setattr(app.connection, "listen", refuse)
    handle = mail.submit()
    claim = hand.claim_one(handle.id)
    waiting = later(handle.result, 30)
    wait_until(lambda: app.waiters._bells)
    hand.end(claim, Succeed(b"1"))
    assert waiting.result() == 1


def test_the_subscription_ends_some_time_after_the_last_waiter(app, mail, client, settings, monkeypatch):
    monkeypatch.setattr(waiters, "LINGER_S", 0.1)
    handle = mail.submit()
    with pytest.raises(ResultNotReady):
        handle.result(timeout=0.1)
    wait_until(lambda: app.waiters._listener is None)
    assert app.waiters._bells == {}
    with pytest.raises(ResultNotReady):
        handle.result(timeout=0.1)
    handle.cancel()


def test_waiting_for_a_task_whose_record_went_away_ends(app, mail, hand, later, monkeypatch):
    monkeypatch.setattr(waiters, "LOOK_S", 0.1)
    handle = mail.submit()
    hand.end(hand.claim_one(handle.id), DeadLetter(error(), "permanent"))
    hand.store.control.requeue(handle.id, queue="default")
    waiting = later(handle.result, 30)
    wait_for_waiters(app, 1)
    hand.end(hand.claim_one(handle.id), DeadLetter(error(), "permanent"))
    hand.store.control.discard(handle.id, queue="default")
    with pytest.raises((TaskFailed, TaskNotFound)):
        waiting.result()


def test_more_than_sixteen_processes_may_wait_for_one_task(settings, mail, hand, later):
    handle = mail.submit()
    claim = hand.claim_one(handle.id)
    apps = [Dtq(settings) for _ in range(18)]  # each counts as a process of its own
    waiting = [later(each.handle(handle.id, "default").result, 30) for each in apps]
    for each in apps:
        wait_for_waiters(each, 1)
    hand.end(claim, Succeed(b"1"))
    assert [each.result() for each in waiting] == [1] * 18
    for each in apps:
        each.close()


def test_an_outage_in_between_is_waited_out(settings, make_server, later, monkeypatch):
    monkeypatch.setattr(waiters, "POLL_S", 0.1)
    server = make_server(appendonly="yes")
    app = Dtq(replace(settings, redis_url=server.url))
    hand = Hand(app.store)
    handle = app.named("mail").submit()
    claim = hand.claim_one(handle.id)
    waiting = later(handle.result, 30)
    wait_for_waiters(app, 1)
    server.stop()
    wait_until(lambda: not app.waiters._subscribed)
    server.start()
    wait_until(lambda: hand.store.leases.finalize([(claim, Succeed(b"1"))]))
    assert waiting.result() == 1
    app.close()


def test_redis_away_at_the_start_is_said(settings):
    app = Dtq(replace(settings, redis_url="redis://127.0.0.1:1/0"))
    with pytest.raises(RedisUnavailable):
        app.handle(new_token(), "default").result(timeout=5)

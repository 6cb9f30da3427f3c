"""Redis away, frozen, full, emptied or read-only: a clear error in time, and never a task twice."""

import os
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError, NoScriptError, ResponseError

from dtq_engine import connection, scripts
from dtq_engine.connection import Connection, Patience
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import RedisUnavailable, SubmitUncertain
from dtq_engine.ids import new_token
from dtq_engine.links import NotSent, ReplyLost
from dtq_engine.model import Cancel, DeadLetter, Reschedule, SubmitOutcome, Succeed
from dtq_engine.store import Store, intake
from tests.store.hand import Hand, error, ids
from tests.store.proxy import Proxy, proxied
from tests.support.servers import plain
from tests.support.waiting import wait_until

StoreAt = Callable[..., Store]


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    with proxied(redis_url) as each:
        yield each


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies are waited for a tenth of a second, submits resent for four tenths."""
    monkeypatch.setattr(connection, "REPLY_TIMEOUT_S", 0.1)
    monkeypatch.setattr(intake, "PATIENCE", Patience(unsent_s=0.2, sent_s=0.4))
    monkeypatch.setattr(Patience, "__init__", _short(Patience.__init__))


def _short(make: Callable[..., None]) -> Callable[..., None]:
    def short(self: Patience, unsent_s: float = 0.2, sent_s: float = 0.4) -> None:
        make(self, unsent_s, sent_s)

    return short


@pytest.fixture
def far(proxy: Proxy, store_at: StoreAt, impatient: None) -> Store:
    """A store behind the proxy, with little patience."""
    return store_at(proxy.url)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


# Down


def test_a_server_that_is_not_there_is_unavailable_within_two_seconds(store_at):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    store = store_at(f"redis://127.0.0.1:{port}/0")
    with within(2), pytest.raises(RedisUnavailable, match="check that it runs and DTQ_REDIS_URL") as caught:
        Hand(store, announced=False).submit("a")
    assert not caught.value.may_have_run


def test_a_server_that_does_not_answer_is_unavailable_within_two_seconds(store_at):
    with socket.create_server(("127.0.0.1", 0), backlog=5) as listener:
        store = store_at(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        with within(2), pytest.raises(RedisUnavailable):
            Hand(store, announced=False).submit("a")


def test_a_frozen_server_that_comes_back_in_time_costs_nothing(own_server, store_at):
    hand = Hand(store_at(own_server.url))
    hand.submit("a")
    os.kill(own_server.pid, signal.SIGSTOP)
    timer = threading.Timer(0.3, os.kill, (own_server.pid, signal.SIGCONT))
    timer.start()
    assert hand.submit("b")[0].accepted
    timer.join()
    assert ids(hand.claim()) == ["a", "b"]


def test_a_restarted_server_is_used_again(own_server, store_at):
    hand = Hand(store_at(own_server.url))
    hand.submit("a")
    own_server.stop()
    own_server.start()
    assert hand.submit("b")[0].accepted
    assert ids(Hand(hand.store).claim()) == ["a", "b"]


def test_an_emptied_server_is_filled_anew(own_server, store_at):
    hand = Hand(store_at(own_server.url))
    hand.submit("a")
    hand.store.connection.client.flushall()
    assert hand.submit("b")[0].outcome is SubmitOutcome.NEW
    assert hand.store.inspect.queues() == ["default"]
    assert ids(Hand(hand.store).claim()) == ["b"]


@pytest.mark.not_on_a_cluster("REPLICAOF is refused there")
def test_a_read_only_server_is_unavailable_not_an_unknown_error(own_server, store_at, impatient):
    hand = Hand(store_at(own_server.url))
    hand.store.connection.client.replicaof("127.0.0.1", "1")
    with pytest.raises(RedisUnavailable, match="read-only replica") as caught:
        hand.submit("a")
    assert not caught.value.may_have_run


def test_a_server_busy_with_a_script_is_unavailable_not_an_unknown_error(make_server, store_at, impatient):
    server = make_server(busy_reply_threshold="1")
    hand = Hand(store_at(server.url))
    slow = threading.Thread(target=_run_forever, args=(server,))
    slow.start()
    try:
        with pytest.raises(RedisUnavailable):
            wait_until(lambda: not hand.submit("a")[0].accepted)
    finally:
        _end_script(server)
        slow.join()
    assert hand.submit("after")[0].accepted


def client_of(server: EmbeddedValkey) -> redis.Redis:
    return redis.Redis.from_url(plain(server.url), protocol=2, socket_timeout=30)


def _run_forever(server: EmbeddedValkey) -> None:
    with (
        client_of(server) as client,
        pytest.raises(redis.ResponseError),
    ):
        client.eval("while true do end", 0)


def _end_script(server: EmbeddedValkey) -> None:
    with client_of(server) as client:
        client.script_kill()


def test_a_wrong_password_says_so(make_server, store_at):
    server = make_server()
    store_at(server.url).connection.client.config_set("requirepass", "secret")
    with within(2), pytest.raises(RedisUnavailable, match="password"):
        Hand(store_at(server.url), announced=False).submit("a")


@pytest.fixture(params=[b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff\x13garbage\r\n", b"hello\r\n"])
def no_redis(request):
    """The address of something that answers, but is no Redis."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(4096)
            self.request.sendall(request.param)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_something_that_is_no_redis_is_as_good_as_none(no_redis, store_at):
    with pytest.raises(RedisUnavailable):
        store_at(no_redis).inspect.queues()
    with pytest.raises(RedisUnavailable):
        Hand(store_at(no_redis), announced=False).submit("a")


# Lost replies


def test_a_submit_whose_replies_are_all_lost_is_uncertain_and_names_its_tasks(far, proxy):
    hand = Hand(far)
    hand.submit("registered")
    proxy.lose_replies()
    with pytest.raises(SubmitUncertain) as caught:
        hand.submit("a", "b")
    assert (caught.value.task_id, caught.value.task_ids) == ("a", ("a", "b"))


def test_a_submit_that_was_not_sent_yet_is_not_uncertain(far, proxy, hand):
    proxy.lose_replies()
    with pytest.raises(RedisUnavailable) as caught:
        Hand(far, announced=False).submit("a")
    assert not caught.value.may_have_run
    assert hand.claim() == []


def test_an_uncertain_submit_that_arrived_is_one_task(far, proxy, hand):
    Hand(far).submit("registered")
    proxy.lose_replies()
    with pytest.raises(SubmitUncertain):
        Hand(far, announced=False).submit("a")
    assert hand.submit("a")[0].outcome is SubmitOutcome.EXISTS
    assert ids(hand.claim()) == ["registered", "a"]


@pytest.mark.parametrize("loss", ["lose_replies", "cut_replies"])
def test_a_submit_whose_reply_was_lost_once_is_sent_again_and_accepted_once(far, proxy, loss):
    hand = Hand(far)
    hand.submit("registered")
    getattr(proxy, loss)(1)
    assert hand.submit("a")[0].accepted
    assert ids(hand.claim()) == ["registered", "a"]


class LosesOneReply:
    """A link whose first reply is lost, and that answers with these errors from then on, the last one for ever."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = [ReplyLost("cut"), *errors]

    def exchange(self, command, timeout_s):
        raise self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]

    def nodes(self):
        return [self]


def test_what_may_have_been_done_before_it_was_refused_may_still_have_been_done():
    link: Any = LosesOneReply(NoPermissionError("no rights"))
    with pytest.raises(RedisUnavailable, match="no rights") as caught:
        Connection(link, 0).call("EVALSHA")
    assert caught.value.may_have_run


@pytest.mark.parametrize("script", ["claim", "beat"])
def test_that_a_script_is_missing_by_now_does_not_hide_that_it_may_have_run(script):
    not_loaded = [ResponseError("Function not found"), ResponseError("it cannot be loaded")]
    link: Any = LosesOneReply(*not_loaded if script in scripts.KEPT else (), NoScriptError(), NotSent("gone"))
    with pytest.raises(RedisUnavailable) as caught:
        scripts.run(Connection(link, 0), script, "key", (), Patience(0.05, 0.05))
    assert caught.value.may_have_run


def test_a_duplicate_whose_reply_was_lost_is_still_a_duplicate(far, proxy):
    hand = Hand(far)
    hand.submit("first", idempotency_key="k")
    proxy.cut_replies(1)
    assert hand.submit("second", idempotency_key="k")[0].id == "first"


def test_a_claim_whose_reply_was_lost_is_sent_again_under_its_token(far, proxy):
    hand = Hand(far)
    hand.submit("a", "b")
    proxy.cut_replies(1)
    claims = hand.claim()
    assert ids(claims) == ["a", "b"]
    assert [hand.task(task_id).attempt for task_id in "ab"] == [1, 1]


def test_a_claim_that_was_given_up_can_be_asked_again_under_its_token(far, proxy):
    hand = Hand(far)
    hand.submit("a")
    token = new_token()
    proxy.lose_replies()
    with pytest.raises(RedisUnavailable) as caught:
        hand.claim(1, token)
    assert caught.value.may_have_run
    proxy.mend()
    assert ids(hand.claim(1, token)) == ["a"]
    assert hand.task("a").attempt == 1


@pytest.mark.parametrize("end", [Succeed(b"1"), Reschedule(error(), 0), DeadLetter(error(), "x")])
def test_a_finalize_whose_reply_was_lost_is_recorded_once(far, proxy, end):
    hand = Hand(far)
    hand.end(hand.start("loads-the-script"), Cancel(error()))
    claim = hand.start("a")
    proxy.cut_replies(1)
    assert hand.end(claim, end) == "DUP"
    counted = far.inspect.counters("default")["mail"]
    assert sum(counted.get(name, 0) for name in ("succeeded", "retried", "dead_lettered")) == 1


def test_an_operators_verb_whose_reply_was_lost_acts_once(far, proxy):
    hand = Hand(far)
    hand.submit("a")
    proxy.cut_replies(1)
    assert far.control.cancel("a", queue="default") == "cancelled"
    assert len(far.events.audit("default", 9)) == 1


def test_a_renewal_whose_reply_was_lost_is_sent_again(far, proxy):
    claim = Hand(far).start("a")
    far.leases.renew([claim])
    proxy.cut_replies(1)
    assert far.leases.renew([claim]).lost == set()


def test_a_blocking_wait_that_is_cut_is_unavailable(far, proxy):
    keys = [far.keys.wake("default")]
    threading.Timer(0.1, proxy.close).start()
    with within(2), pytest.raises(RedisUnavailable):
        far.connection.blpop(keys, 1)


def test_a_subscription_that_is_cut_is_unavailable(far, proxy):
    with far.connection.listen(["somewhere"]) as messages:
        proxy.close()
        with pytest.raises(RedisUnavailable):
            wait_until(lambda: messages.get(0.1))

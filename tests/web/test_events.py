"""`/ws/events` on real gunicorn: nothing missing, nothing twice, and nobody harmed by anybody."""

import itertools
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from dtq_engine import Settings
from dtq_engine.connection import connect
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.store import Store
from tests.store.hand import Hand
from tests.support.waiting import wait_until
from tests.web.conftest import KEYS
from tests.web.reader import Closed, Reader, Refused
from tests.web.web_process import WebProcess

pytestmark = pytest.mark.timeout(120)

Serve = Callable[..., WebProcess]


@pytest.fixture
def serve(web_settings: Settings, tmp_path: Path) -> Iterator[Serve]:
    """Start web processes: `serve(web_threads=24)` changes settings; the key is a viewer's."""
    with ExitStack() as stack:

        def start(*, workers: int = 1, role: str = "viewer", **changes: object) -> WebProcess:
            settings = replace(web_settings, **changes)  # type: ignore[arg-type]
            return stack.enter_context(WebProcess(tmp_path, settings, workers=workers, key=KEYS[role]))

        yield start


@pytest.fixture
def process(serve: Serve) -> WebProcess:
    """A web process."""
    return serve()


@pytest.fixture(scope="module")
def door(real_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """A web process for those who do not get in."""
    settings = Settings(redis_url=real_url, prefix="door", api_keys=(f"reader:viewer:{KEYS['viewer']}",), web_threads=8)
    with WebProcess(tmp_path_factory.mktemp("door"), settings, key=KEYS["viewer"]) as process:
        yield process


@pytest.fixture
def hand(store: Store) -> Hand:
    """A worker that moves only when told to."""
    return Hand(store)


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["event_id"] for event in events]


def names(events: list[dict[str, Any]]) -> list[str]:
    return [f"{event['queue']}:{event['event_id']}" for event in events]


# What is told


def test_the_life_of_a_task_is_told_as_it_happens(process: WebProcess, hand: Hand) -> None:
    reader = process.socket()
    assert reader.receive() == {"type": "HELLO", "event_ids": []}
    hand.submit("a")
    hand.end(hand.claim_one("a"))
    told = reader.events(3)
    assert [(event["type"], event["task_id"], event["worker_id"]) for event in told] == [
        ("TASK_QUEUED", "a", None),
        ("TASK_STARTED", "a", "w1"),
        ("TASK_SUCCEEDED", "a", "w1"),
    ]
    assert names(told) == ["default:1", "default:2", "default:3"]


def test_filters_let_only_through_what_fits(process: WebProcess, store: Store) -> None:
    default, mails = Hand(store, types=("mail", "post")), Hand(store, queue="mails")
    ends = process.socket("?event=TASK_SUCCEEDED,TASK_FAILED&queue=default")
    posts = process.socket("?type=post")
    one = process.socket("?task_id=c")
    for reader in (ends, posts, one):
        assert reader.receive()["type"] == "HELLO"
    default.submit("a")
    default.submit("b", type="post")
    mails.submit("c")
    for claim in default.claim() + mails.claim():
        default.end(claim)
    assert [event["task_id"] for event in ends.events(2)] == ["a", "b"]
    assert [event["type"] for event in posts.events(3)] == ["TASK_QUEUED", "TASK_STARTED", "TASK_SUCCEEDED"]
    assert [event["queue"] for event in one.events(3)] == ["mails"] * 3


def test_a_digest_says_what_has_changed_once_a_second(process: WebProcess, hand: Hand) -> None:
    reader = process.socket("?mode=digest")
    assert reader.receive()["type"] == "HELLO"
    came: list[tuple[float, dict[str, Any]]] = []
    began = time.monotonic()
    for n in range(60):
        hand.submit(f"t{n}")
    while sum(digest["many"] for _, digest in came) < 60:
        came.append((time.monotonic() - began, reader.receive()))
    assert {digest["type"] for _, digest in came} == {"DIGEST"}
    assert {tuple(digest["queues"]) for _, digest in came} == {("default",)}
    apart = [later[0] - earlier[0] for earlier, later in itertools.pairwise(came)]
    assert all(seconds > 0.8 for seconds in apart)


# Going on where one was


def test_since_tells_what_was_missed_and_then_what_comes(process: WebProcess, hand: Hand) -> None:
    hand.submit("a", "b", "c")
    reader = process.socket("?since=default:1")
    assert reader.receive() == {"type": "HELLO", "event_ids": ["default:1"]}
    assert numbers(reader.events(2)) == [2, 3]
    hand.submit("d")
    assert numbers(reader.events(1)) == [4]


def test_a_queue_that_since_does_not_name_is_told_from_its_first_event(process: WebProcess, store: Store) -> None:
    default, mails = Hand(store), Hand(store, queue="mails")
    default.submit("a")
    reader = process.socket("?since=default:1")
    assert reader.receive()["type"] == "HELLO"
    mails.submit("b", "c")
    assert names(reader.events(2)) == ["mails:1", "mails:2"]
    again = process.socket("?since=default:1")
    assert again.receive()["event_ids"] == ["default:1", "mails:0"]
    assert names(again.events(2)) == ["mails:1", "mails:2"]


def test_from_before_the_log_a_replay_begins_with_one_gap(
    process: WebProcess, hand: Hand, store: Store, client: redis.Redis
) -> None:
    for n in range(9):
        hand.submit(f"t{n}")
    client.xtrim(store.keys.events("default"), minid="6-0", approximate=False)
    reader = process.socket("?since=default:2&event=TASK_SUCCEEDED")
    assert reader.receive()["type"] == "HELLO"
    gap = reader.receive()
    assert (gap["type"], gap["queue"], gap["event_id"], gap["missing"]) == ("GAP", "default", 5, 3)
    hand.end(hand.claim(1)[0])
    assert reader.receive()["type"] == "TASK_SUCCEEDED"


def test_from_beyond_the_log_there_is_a_gap_too(process: WebProcess, hand: Hand) -> None:
    hand.submit("a")
    reader = process.socket("?since=default:500")
    assert reader.receive()["type"] == "HELLO"
    gap = reader.receive()
    assert (gap["type"], gap["event_id"], gap["missing"]) == ("GAP", 1, None)
    hand.submit("b")
    assert numbers(reader.events(1)) == [2]


def test_readers_who_come_and_go_under_fire_miss_nothing_and_hear_nothing_twice(
    process: WebProcess, store: Store
) -> None:
    hands = [Hand(store, queue=queue) for queue in ("a", "b", "c")]
    for hand in hands:
        hand.submit(f"{hand.queue}-first")
    rounds = 150

    def fire() -> None:
        for n in range(rounds):
            for hand in hands:
                hand.submit(*[f"{hand.queue}-{n}-{k}" for k in range(3)])

    source = threading.Thread(target=fire)
    source.start()
    seen: dict[str, int] = {"a": 0, "b": 0, "c": 0}
    wanted = 1 + 3 * rounds
    connects = 0
    while set(seen.values()) != {wanted}:
        since = ",".join(f"{queue}:{number}" for queue, number in seen.items())
        with process.socket(f"?since={since}") as reader:
            connects += 1
            assert reader.receive()["type"] == "HELLO"
            for _ in range(min(60, 3 * wanted - sum(seen.values()))):
                event = reader.receive()
                assert event["type"] == "TASK_QUEUED"
                assert event["event_id"] == seen[event["queue"]] + 1
                seen[event["queue"]] += 1
    source.join()
    assert connects >= 10


def test_two_readers_of_different_processes_hear_the_same(serve: Serve, hand: Hand) -> None:
    process = serve(workers=2)
    readers = [process.socket() for _ in range(8)]
    for reader in readers:
        assert reader.receive()["type"] == "HELLO"
    hand.submit("a", "b")
    hand.end_all(hand.claim())
    assert [numbers(reader.events(6)) for reader in readers] == [[1, 2, 3, 4, 5, 6]] * 8


# Redis goes away


def test_sockets_outlive_an_outage_of_redis_and_are_told_what_they_missed(
    serve: Serve, make_server: Callable[..., EmbeddedValkey], settings: Settings
) -> None:
    server = make_server()
    changed = replace(settings, redis_url=server.url)
    store = Store(connect(changed), changed)
    hand = Hand(store)
    process = serve(redis_url=server.url)
    reader, digest = process.socket(), process.socket("?mode=digest")
    hand.submit("a")
    assert [each["type"] for each in reader.events(2)] == ["HELLO", "TASK_QUEUED"]
    store.close()
    server.stop()
    assert reader.receive() == {"type": "REDIS_AWAY"}
    with pytest.raises(Refused) as refused:
        process.socket()
    assert (refused.value.status, json.loads(refused.value.body)["code"]) == (503, "REDIS_UNAVAILABLE")
    server.start()
    hand.submit("b")
    hand.submit("c")
    told = reader.until("TASK_QUEUED") + reader.events(1)
    assert [each["type"] for each in told] == ["REDIS_BACK", "TASK_QUEUED", "TASK_QUEUED"]
    assert numbers(told[1:]) == [2, 3]
    kinds = {each["type"] for each in digest.until("REDIS_BACK")}
    assert {"HELLO", "REDIS_AWAY", "REDIS_BACK"} <= kinds
    assert digest.until("DIGEST")[-1]["queues"] == ["default"]
    store.close()


# Who may


@pytest.mark.parametrize(("role", "status"), [("submit", 403), ("metrics", 403)])
def test_other_roles_are_refused_before_the_handshake(serve: Serve, role: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        serve(role=role).socket()
    assert refused.value.status == status
    assert json.loads(refused.value.body)["code"] == "FORBIDDEN"


def test_strangers_and_other_sites_are_refused_before_the_handshake(serve: Serve) -> None:
    process = serve(open=True)
    here = f"http://127.0.0.1:{process.port}"
    process.key = ""
    process.socket(Origin=here).close()
    process.socket().close()
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{process.port}", f"{here}.evil.example"):
        with pytest.raises(Refused) as refused:
            process.socket(Origin=origin)
        assert (refused.value.status, json.loads(refused.value.body)["code"]) == (403, "CROSS_SITE")
    closed = serve()
    closed.key = ""
    with pytest.raises(Refused) as refused:
        closed.socket()
    assert refused.value.status == 401


@pytest.mark.parametrize("query", ["?queues=a", "?event=NONE", "?since=12", "?mode=x", "?queue=%00", "?queue=%ff"])
def test_what_cannot_be_asked_for_is_refused_before_the_handshake(door: WebProcess, query: str) -> None:
    with pytest.raises(Refused) as refused:
        door.socket(query)
    assert refused.value.status == 400
    problem = json.loads(refused.value.body)
    assert (problem["code"], "parameter" in problem) == ("INVALID_PARAMETER", True)


GOOD = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 101),
        ({"Upgrade": None}, 426),
        ({"Connection": None}, 426),
        ({"Connection": "keep-alive, Upgrade"}, 101),
        ({"Sec-WebSocket-Version": None}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": None}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Key": "ü" * 24}, 400),
        ({"Sec-WebSocket-Protocol": "a, b"}, 101),
        ({"Sec-WebSocket-Extensions": "permessage-deflate"}, 101),
        ({"Sec-WebSocket-Extensions": "\x7f;;;="}, (101, 400)),
        ({"X-Odd": "ünï\u00ff"}, (101, 400)),
    ],
)
def test_a_handshake_is_right_or_is_refused(
    door: WebProcess, changed: dict[str, str | None], status: int | tuple[int, ...]
) -> None:
    headers = GOOD | {"Authorization": f"Bearer {door.key}"} | changed
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as raw:
        raw.sendall("\r\n".join(["GET /ws/events HTTP/1.1", *lines, "", ""]).encode("latin-1"))
        answer = raw.recv(4096)
    assert int(answer.split(b" ")[1]) in (status if isinstance(status, tuple) else (status,))
    assert b"permessage-deflate" not in answer.lower()
    assert "Traceback" not in door.log


# Caps


def test_beyond_the_cap_a_socket_is_refused_and_one_that_ends_makes_room(serve: Serve) -> None:
    process = serve(web_threads=8)
    first, second = process.socket(), process.socket()
    for reader in (first, second):
        assert reader.receive()["type"] == "HELLO"
    with pytest.raises(Refused) as refused:
        process.socket()
    assert refused.value.status == 503
    assert int(refused.value.headers["retry-after"]) > 0
    assert json.loads(refused.value.body)["code"] == "TOO_MANY_SOCKETS"
    assert process.get("/health")[0] == 200
    first.close()
    wait_until(lambda: opens(process), 5)
    second.raw.close()  # without a word
    wait_until(lambda: opens(process), 5)


def opens(process: WebProcess) -> bool:
    try:
        process.socket().close()
    except Refused:
        return False
    return True


def test_refused_handshakes_take_no_room(door: WebProcess) -> None:
    for _ in range(10):
        with pytest.raises(Refused):
            door.socket("?queues=a")
        with pytest.raises(Refused):
            door.socket(Authorization="Bearer wrong")
    assert opens(door)


def test_many_sockets_share_one_subscription(process: WebProcess, hand: Hand, client: redis.Redis) -> None:
    readers = [process.socket() for _ in range(20)]
    hand.submit("a")
    for reader in readers:
        assert [each["type"] for each in reader.events(2)] == ["HELLO", "TASK_QUEUED"]
    pattern = f"{hand.store.keys.channels()}:events:*"
    assert client.execute_command("PUBSUB", "CHANNELS", pattern)
    assert client.execute_command("PUBSUB", "NUMSUB", hand.store.keys.events_channel("default"))[1] == 1


# Bad readers


def test_a_reader_who_says_something_is_closed(process: WebProcess) -> None:
    reader = process.socket()
    reader.send("hello?")
    with pytest.raises(Closed, match="1008"):
        reader.until("never")


def test_a_reader_who_says_too_much_is_closed(process: WebProcess) -> None:
    reader = process.socket()
    with suppress(OSError):
        reader.send("x" * 100_000)
    with pytest.raises(Closed, match=r"1009|1006"):
        reader.until("never")
    assert opens(process)


def flood(client: redis.Redis, store: Store, many: int) -> None:
    """Let as many events happen, 500 at a time as a large batch has them, without any tasks behind them."""
    keys, now_ms = store.keys, store.now_ms()
    for _ in range(many // 500):
        last = client.hincrby(keys.counters("default"), "_events", 500)
        lines = "\n".join(f"TASK_QUEUED flood-{last - n} {'mail' * 20} 0 - -" for n in range(500))
        client.xadd(
            keys.events("default"),
            {"t": now_ms, "d": lines},
            id=f"{last}-0",
            minid=max(0, last - 10_000),
            approximate=False,
        )
        client.publish(keys.events_channel("default"), f"{last} {now_ms}\n{lines}")


def stuck_reader(process: WebProcess) -> Reader:
    """One whose system keeps little for it."""
    reader = process.socket(buffer=4096)
    assert reader.receive()["type"] == "HELLO"
    return reader


def test_a_reader_who_is_too_slow_is_closed_with_1013(
    process: WebProcess, hand: Hand, store: Store, client: redis.Redis
) -> None:
    hand.submit("a")
    slow = stuck_reader(process)

    def closed() -> int | None:
        flood(client, store, 500)
        try:
            slow.events(10, 5)
        except Closed as error:
            return error.code
        return None

    assert wait_until(closed, 60, interval=0.05) == 1013
    assert opens(process)


@pytest.mark.alone
def test_a_reader_who_never_reads_harms_nobody_and_is_broken_off(
    process: WebProcess, hand: Hand, store: Store, client: redis.Redis
) -> None:
    hand.submit("a")
    stuck = stuck_reader(process)
    reader = process.socket("?event=TASK_CANCELLED")
    assert reader.receive()["type"] == "HELLO"

    def broken_off() -> bool:
        flood(client, store, 500)
        began = time.monotonic()
        assert process.get("/health")[0] == 200
        assert time.monotonic() - began < 2
        return not is_connected(stuck)

    wait_until(broken_off, 60, interval=0.05)
    hand.store.control.cancel("a")
    assert reader.until("TASK_CANCELLED")[-1]["task_id"] == "a"


def is_connected(reader: Reader) -> bool:
    """Whether the server has not given this connection up, seen without reading from it."""
    established = 1
    return reader.raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == established


# The end


@pytest.mark.alone
def test_sigterm_closes_all_sockets_with_1012_and_the_process_is_gone_within_2_s(
    serve: Serve, hand: Hand, store: Store, client: redis.Redis
) -> None:
    process, idle = serve(), serve()
    hand.submit("a")
    # They read little, so that what is measured is not how fast this process reads.
    readers = [process.socket("?event=TASK_CANCELLED") for _ in range(15)]
    readers += [process.socket("?mode=digest") for _ in range(5)]
    stuck_reader(process)

    def close_code(reader: Reader) -> int:
        with pytest.raises(Closed) as closed:
            reader.until("never", 30)
        return closed.value.code

    with ThreadPoolExecutor(len(readers)) as threads:
        codes = [threads.submit(close_code, reader) for reader in readers]
        flood(client, store, 1000)
        seconds = process.terminate()
        assert {code.result() for code in codes} == {1012}
    # Gunicorn itself takes about 0.5 s, and longer where the machine has much to do.
    assert seconds < idle.terminate() + 1.5


@pytest.mark.alone
def test_sigterm_without_redis_takes_no_longer(serve: Serve, make_server: Callable[..., EmbeddedValkey]) -> None:
    server = make_server()
    process, idle = serve(redis_url=server.url), serve()
    reader = process.socket()
    assert reader.receive()["type"] == "HELLO"
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert reader.until("REDIS_AWAY", 20)
        assert process.terminate() < idle.terminate() + 1.5
    finally:
        os.kill(server.pid, signal.SIGCONT)
    with pytest.raises(Closed, match="1012"):
        reader.until("never")

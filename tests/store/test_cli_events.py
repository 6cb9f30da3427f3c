"""`dtq events`: what happened, and what happens."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dtq_engine.model import DeadLetter
from tests.store.hand import Hand, error
from tests.support.environ import environ_of
from tests.support.waiting import wait_until


@pytest.fixture
def night(store) -> Hand:
    """The hand of another queue."""
    return Hand(store, "w2", queue="night")


def told(ran) -> list[tuple[str, str | None]]:
    return [(line["type"], line["task_id"]) for line in ran.lines]


def test_events_are_told_oldest_first_over_all_queues(dtq, hand, night):
    hand.end(hand.start("m-1"))
    ended_ms = hand.store.now_ms()
    wait_until(lambda: hand.store.now_ms() > ended_ms)  # events of one millisecond have no order over queues
    night.submit("n-1")
    assert told(dtq("events", "--json")) == [
        ("TASK_QUEUED", "m-1"),
        ("TASK_STARTED", "m-1"),
        ("TASK_SUCCEEDED", "m-1"),
        ("TASK_QUEUED", "n-1"),
    ]
    assert told(dtq("events", "--json", "--limit", "2"))[0] == ("TASK_SUCCEEDED", "m-1")
    assert dtq("events", "--limit", "0", "--json").out == ""


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--queue", "night"], [("TASK_QUEUED", "n-1")]),
        (["--event", "task_dead_lettered"], [("TASK_DEAD_LETTERED", "m-1")]),
        (["--event", "TASK_STARTED", "--event", "TASK_DEAD_LETTERED"],
         [("TASK_STARTED", "m-1"), ("TASK_DEAD_LETTERED", "m-1")]),
        (["--type", "report"], [("TASK_QUEUED", "n-1")]),
        (["--id", "n-1"], [("TASK_QUEUED", "n-1")]),
        (["--id", "n-1", "--event", "TASK_STARTED"], []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0] if value else None, str) else "",
)  # fmt: skip
def test_events_are_filtered(dtq, hand, night, filters, expected):
    hand.end(hand.start("m-1"), DeadLetter(error(), "permanent"))
    night.submit("n-1", type="report")
    shown = [each for each in told(dtq("events", *filters, "--json")) if each[0] != "TASK_FAILED"]
    assert shown == expected


def test_events_of_workers_and_queues_are_told_and_filtered(dtq, store, hand):
    hand.submit("m-1")
    store.crew.started("default", "w-1", "l1")
    store.control.pause("default", reason="a move")
    found = dtq("events", "--json").lines
    assert [(line["type"], line["task_id"], line["attempt"], line["detail"]) for line in found] == [
        ("TASK_QUEUED", "m-1", 0, None),
        ("WORKER_STARTED", None, None, None),
        ("CONFIGURATION_CHANGED", None, None, "pause"),
    ]  # fmt: skip
    assert told(dtq("events", "--json", "--worker", "w-1")) == [("WORKER_STARTED", None)]
    assert told(dtq("events", "--json", "--event", "configuration_changed")) == [("CONFIGURATION_CHANGED", None)]
    _, started, changed = dtq("events").out.splitlines()
    assert started.split()[2:] == ["WORKER_STARTED", "default", "w-1"]
    assert changed.split()[2:] == ["CONFIGURATION_CHANGED", "default", "pause"]


def test_a_filter_finds_what_is_far_back_in_the_log(dtq, hand):
    hand.submit("m-0")
    for number in range(60):
        hand.submit(f"r-{number}", type="report")
    assert told(dtq("events", "--type", "mail", "--json")) == [("TASK_QUEUED", "m-0")]


def test_since_leaves_out_what_is_older(dtq, hand, clock):
    hand.submit("m-1")
    clock.advance(600)
    hand.submit("m-2")
    # The command reads Redis' own clock, which does not move: what the test calls 10 minutes ahead is not past.
    assert told(dtq("events", "--since", "2100-01-01T00:00Z", "--json")) == []
    later = dtq("events", "--json").lines[1]["at"]
    assert told(dtq("events", "--since", later, "--json")) == [("TASK_QUEUED", "m-2")]
    assert len(dtq("events", "--since", "1h", "--json").lines) == 2


def test_lines_for_people_are_harmless(dtq, hand, client, settings):
    hand.start("m-1")
    _, fields = client.xrange(f"{settings.prefix}:stream:events:{{default}}", count=1)[0]
    body = fields[b"d"].replace(b" mail ", b" \x1b[31mmail ")
    client.xadd(f"{settings.prefix}:stream:events:{{default}}", {"t": fields[b"t"], "d": body}, id="99-0")
    shown = dtq("events").out
    assert r"\x1b[31mmail" in shown
    assert "\x1b" not in shown
    assert "TASK_STARTED          default  m-1  mail  attempt 1  w1" in shown


def test_no_event_is_no_error(dtq):
    ran = dtq("events")
    assert (ran.code, ran.out, ran.err) == (0, "", "No event matches.\n")


@pytest.mark.parametrize("wrong", [["--since", "soon"], ["--event", "NOTHING"], ["--limit", "-1"], ["--id", "a b"]])
def test_wrong_options_are_wrong_usage(dtq, wrong):
    ran = dtq("events", *wrong)
    assert (ran.code, ran.out) == (2, "")


# --follow


class Following:
    """`dtq events --follow --json` as a process."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        command = [sys.executable, "-m", "dtq_engine.cli", "events", "--follow", "--json", *arguments]
        self._process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout, self._process.stderr
        os.set_blocking(self._out.fileno(), False)
        self._read = b""

    def lines(self) -> list[dict[str, object]]:
        """The lines printed so far."""
        self._read += self._out.read() or b""
        return [json.loads(line) for line in self._read.split(b"\n")[:-1]]

    def wait_for(self, what: Callable[[dict[str, object]], bool]) -> dict[str, object]:
        """The first line that is so, once there is one."""
        return wait_until(lambda: list(filter(what, self.lines())), 20)[0]

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; the exit code, and what was said beside."""
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(30)
        return code, self._err.read().decode().strip()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(5)
        self._out.close()
        self._err.close()


@pytest.fixture
def follow(settings) -> Iterator[Callable[..., Following]]:
    """Follow the events: `follow("--queue", "night")`, or of another server: `follow(redis_url=…)`."""
    started: list[Following] = []

    def make(*arguments: str, **changes: object) -> Following:
        started.append(Following(environ_of(replace(settings, **changes)), *arguments))
        return started[-1]

    yield make
    for following in started:
        following.end()


def test_following_tells_each_event_once_also_of_queues_that_come(follow, hand, store):
    hand.submit("m-1")
    following = follow()
    following.wait_for(lambda line: line["task_id"] == "m-1")
    hand.claim_one("m-1")
    Hand(store, "w2", queue="night").submit("n-1")
    following.wait_for(lambda line: line["task_id"] == "n-1")
    following.wait_for(lambda line: line["type"] == "TASK_STARTED")
    assert sorted((line["type"], line["task_id"]) for line in following.lines()) == [
        ("TASK_QUEUED", "m-1"), ("TASK_QUEUED", "n-1"), ("TASK_STARTED", "m-1"),
    ]  # fmt: skip
    assert following.interrupt() == (130, "")


def test_following_with_a_filter_passes_over_the_rest(follow, hand):
    hand.submit("m-0")
    following = follow("--event", "TASK_SUCCEEDED")
    hand.end(hand.claim_one())
    hand.end(hand.start("m-1"))
    following.wait_for(lambda line: line["task_id"] == "m-1")
    assert {line["type"] for line in following.lines()} == {"TASK_SUCCEEDED"}


def test_following_says_how_many_events_it_has_missed(follow, hand, client, store):
    hand.submit("m-1")
    following = follow()
    following.wait_for(lambda line: line["task_id"] == "m-1")
    # As if another 7 events had come and been trimmed between two looks.
    client.hincrby(store.keys.counters("default"), "_events", 7)
    hand.submit("m-2")
    following.wait_for(lambda line: line["task_id"] == "m-2")
    assert [(line["type"], line["missing"]) for line in following.lines()[1:]] == [("GAP", 7), ("TASK_QUEUED", None)]


def test_following_outlives_an_outage_and_a_log_that_was_lost(follow, make_server, store_at):
    server = make_server()
    hand = Hand(store_at(server.url))
    hand.submit("m-1", "m-2")
    following = follow(redis_url=server.url)
    following.wait_for(lambda line: line["task_id"] == "m-2")
    server.stop()
    wait_until(lambda: not server_answers(hand), 5)
    server.start()
    hand.store.connection.call("FLUSHALL")
    hand = Hand(hand.store)
    hand.submit("m-3")
    following.wait_for(lambda line: line["task_id"] == "m-3" or line["type"] == "GAP")
    hand.submit("m-4")
    following.wait_for(lambda line: line["task_id"] == "m-4")
    code, said = following.interrupt()
    assert (code, said.count("Waiting for Redis")) in {(130, 0), (130, 1)}


def server_answers(hand: Hand) -> bool:
    try:
        hand.store.connection.ping()
    except Exception:
        return False
    return True

"""The hub: one reader for all sockets, each of which hears every event once from where it joined."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dtq_engine import Event, RedisUnavailable
from tests.support.waiting import wait_until
from tests.web.test_events_parts import event, sent
from webapp.events import hub as hubs
from webapp.events.hub import Hub, NotReading
from webapp.events.outbox import RESTART, EventBox
from webapp.events.query import Query


class Script:
    """A feed that tells what the test lets it."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.made = 0
        self.closed = 0
        self.asked = 0
        self._steps: list[Any] = []
        self._changed = threading.Condition()

    def make(self) -> Any:
        self.made += 1
        return self

    def tell(self, *steps: Any) -> None:
        """Let it answer with these, one after the other; an error is raised."""
        with self._changed:
            self._steps += steps
            self._changed.notify()

    def forget(self) -> None:
        """Answer no more with what it was told to."""
        with self._changed:
            self._steps.clear()

    def next(self, timeout_s: float) -> list[Event]:
        with self._changed:
            self.asked += 1
            self._changed.wait_for(lambda: self._steps, min(timeout_s, 0.02))
            step = self._steps.pop(0) if self._steps else []
        if isinstance(step, Exception):
            raise step
        self.positions |= {each.queue: each.event_id for each in step}
        return step

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def feed() -> Script:
    return Script()


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def hub(feed: Script, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(hubs, "PAUSE_S", 0.01)
    hub = Hub(feed.make, stopping)
    yield hub
    stopping.set()
    wait_until(lambda: hub._reader is None)


def joined(hub: Hub, abort: Callable[[], None] = lambda: None) -> EventBox:
    box = EventBox(Query())
    hub.enter(box, abort)
    hub.join(box)
    return box


def heard(box: EventBox, many: int) -> list[Any]:
    found: list[Any] = []
    wait_until(lambda: found.extend(sent(box)) or len(found) >= many)
    return found


def test_nothing_runs_before_the_first_socket(hub: Hub, feed: Script) -> None:
    assert (feed.made, hub._reader, hub._watcher) == (0, None, None)
    joined(hub)
    assert feed.made == 1


def test_all_sockets_hear_the_same_over_one_feed(hub: Hub, feed: Script) -> None:
    boxes = [joined(hub) for _ in range(5)]
    feed.tell([event(1), event(2)], [event(3)])
    assert [heard(box, 3) for box in boxes] == [[1, 2, 3]] * 5
    assert feed.made == 1


def test_a_socket_that_left_hears_nothing_more(hub: Hub, feed: Script) -> None:
    stays, leaves = joined(hub), joined(hub)
    hub.leave(leaves)
    hub.leave(leaves)
    feed.tell([event(1)])
    assert heard(stays, 1) == [1]
    assert sent(leaves) == []


def test_whoever_joins_while_much_happens_hears_all_from_the_named_position_on_once(hub: Hub, feed: Script) -> None:
    joined(hub)
    numbers = itertools.count(1)
    feed.tell(*[[event(next(numbers)) for _ in range(3)] for _ in range(200)])

    def join() -> tuple[int, EventBox]:
        box = EventBox(Query())
        hub.enter(box, lambda: None)
        return hub.join(box).get("default", 0), box

    with ThreadPoolExecutor(8) as threads:
        sockets = list(threads.map(lambda _: join(), range(60)))
    wait_until(lambda: feed.positions.get("default") == 600)
    wait_until(lambda: hub.join(EventBox(Query())).get("default") == 600)
    for position, box in sockets:
        assert heard(box, 600 - position) == list(range(position + 1, 601))


def test_without_redis_sockets_are_told_once_and_told_when_it_is_back(hub: Hub, feed: Script) -> None:
    box = joined(hub)
    feed.tell(RedisUnavailable("away"), RedisUnavailable("still"), [event(1)], [event(2)])
    assert heard(box, 4) == ["REDIS_AWAY", "REDIS_BACK", 1, 2]


def test_who_joins_while_redis_is_away_is_told_so(hub: Hub, feed: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    first = joined(hub)
    monkeypatch.setattr(hubs, "PAUSE_S", 0.2)
    feed.tell(*[RedisUnavailable("away")] * 5)
    assert heard(first, 1) == ["REDIS_AWAY"]
    assert not hub.ready()
    assert heard(joined(hub), 1)[0] == "REDIS_AWAY"


def test_an_error_nobody_foresaw_does_not_silence_the_sockets(
    hub: Hub, feed: Script, caplog: pytest.LogCaptureFixture
) -> None:
    box = joined(hub)
    feed.tell(KeyError("what"), [event(1)])
    assert heard(box, 3) == ["REDIS_AWAY", "REDIS_BACK", 1]
    assert "the reader of events failed" in caplog.text


def test_a_socket_cannot_join_while_nothing_was_ever_read(
    hub: Hub, feed: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "READY_S", 0.05)
    feed.tell(*[RedisUnavailable("away")] * 1000)
    box = EventBox(Query())
    hub.enter(box, lambda: None)
    assert not hub.ready()
    with pytest.raises(NotReading):
        hub.join(box)


def test_it_ends_after_the_last_socket_and_begins_again_with_the_next(
    hub: Hub, feed: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "LINGER_S", 0.05)
    box = joined(hub)
    feed.tell([event(1)])
    assert heard(box, 1) == [1]
    asked = feed.asked
    wait_until(lambda: feed.asked > asked + 5)
    assert feed.made == 1, "it reads as long as there is a socket"
    hub.leave(box)
    wait_until(lambda: feed.closed == 1)
    again = joined(hub)
    feed.tell([event(2)])
    assert (heard(again, 1), feed.made) == ([2], 2)


def test_a_reader_that_begins_again_does_not_think_redis_is_still_away(
    hub: Hub, feed: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "LINGER_S", 0.05)
    box = joined(hub)
    feed.tell(RedisUnavailable("away"))
    assert heard(box, 1) == ["REDIS_AWAY"]
    feed.tell(*[RedisUnavailable("away")] * 1000)
    hub.leave(box)
    wait_until(lambda: hub._reader is None)
    feed.forget()
    assert hub.ready()


def test_at_the_end_sockets_are_closed_and_those_that_stay_are_broken_off(
    hub: Hub, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "FAREWELL_S", 0.1)
    aborted: list[str] = []
    polite, stuck = joined(hub, lambda: aborted.append("polite")), joined(hub, lambda: aborted.append("stuck"))
    stopping.set()
    wait_until(lambda: polite.closing and stuck.closing)
    hub.leave(polite)
    wait_until(lambda: aborted)
    assert aborted == ["stuck"]
    assert polite.closing is stuck.closing is RESTART


def test_a_socket_that_comes_at_the_end_is_closed_at_once(hub: Hub, stopping: threading.Event) -> None:
    stopping.set()
    box = EventBox(Query())
    hub.enter(box, lambda: None)
    assert box.closing is RESTART

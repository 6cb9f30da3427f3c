"""What is told of workers: that they start, stop, or fall silent; each once, in every queue that they serve."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, RedisUnavailable, Settings
from dtq_engine.store.crew import Absence
from dtq_engine.worker.attendance import Absences, Attendance
from dtq_engine.worker.outage import NEWCOMER_S, Outage
from tests.store.hand import info
from tests.support.waiting import wait_until
from tests.worker.processes import Crew

JOBS = """
@app.task("work")
async def work() -> None:
    pass

@app.task("endless")
def endless() -> None:
    time.sleep(60)
"""
QUEUES = ("default", "night")


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes of two queues, with heartbeats that lapse after 0.9 s."""
    short = replace(quick, visibility_timeout_s=0.8, heartbeat_interval_s=0.2, worker_queues=QUEUES)
    with Crew(tmp_path, JOBS, short) as crew:
        yield crew


def told(app: Dtq, queue: str = "default") -> list[tuple[str, str | None, str | None]]:
    """The events of workers so far: type, worker, detail."""
    events = app.store.events.tail(queue, 1000)
    return [(event.type, event.worker_id, event.detail) for event in events if event.type.startswith("WORKER")]


def test_a_worker_that_stops_is_told_to_have_stopped_and_never_to_be_silent(app: Dtq, crew: Crew) -> None:
    crew.start(worker_id="leader")
    crew.start(worker_id="w1").signal(signal.SIGTERM)
    wait_until(lambda: all(("WORKER_STOPPED", "w1", None) in told(app, queue) for queue in QUEUES))
    # By the time this one is told, the leader has looked for the other as well.
    crew.start(worker_id="w2").kill()
    wait_until(lambda: ("WORKER_STALE", "w2", None) in told(app), 15)
    assert [event[0] for event in told(app) if event[1] == "w1"] == ["WORKER_STARTED", "WORKER_STOPPED"]


def test_a_worker_that_is_killed_is_told_to_be_silent_once_in_each_queue_over_changes_of_the_leader(
    app: Dtq, crew: Crew
) -> None:
    first = crew.start(worker_id="first")
    second = crew.start(worker_id="second")
    crew.start(worker_id="w1").kill()
    wait_until(lambda: all(("WORKER_STALE", "w1", None) in told(app, queue) for queue in QUEUES), 15)
    first.kill()  # one of these two leads, and then the other
    third = crew.start(worker_id="third")
    wait_until(lambda: ("WORKER_STALE", "first", None) in told(app), 15)
    second.kill()
    wait_until(lambda: ("WORKER_STALE", "second", None) in told(app), 15)
    third.signal(signal.SIGTERM)
    third.wait()
    for queue in QUEUES:
        of_queue = told(app, queue)
        stale = sorted(worker or "" for what, worker, _ in of_queue if what == "WORKER_STALE")
        assert stale == ["first", "second", "w1"]
        assert ("WORKER_STOPPED", "third", None) in of_queue


def test_one_that_starts_again_under_its_name_was_not_silent(app: Dtq, crew: Crew) -> None:
    crew.start(worker_id="w1").kill()
    again = crew.start(worker_id="w1")
    again.signal(signal.SIGTERM)
    again.wait()
    assert told(app) == [
        ("WORKER_STARTED", "w1", None),
        ("WORKER_STARTED", "w1", "restarted"),
        ("WORKER_STOPPED", "w1", None),
    ]


def test_a_worker_with_a_handler_that_does_not_end_is_told_to_have_stopped_all_the_same(app: Dtq, crew: Crew) -> None:
    worker = crew.start(worker_id="w1", drain_timeout_s=0.3)
    app.named("endless").submit()
    wait_until(lambda: any(event.type == "TASK_STARTED" for event in app.store.events.tail("default", 9)))
    worker.signal(signal.SIGTERM)
    worker.wait()
    assert told(app)[-1] == ("WORKER_STOPPED", "w1", None)


class Watch:
    """A leader's eye under a clock that is moved, beside a worker `w1` that has said that it is here."""

    def __init__(self, app: Dtq) -> None:
        self.app = app
        self.now_s = 1000.0
        self.outage = Outage(30, lambda: self.now_s)
        self.attendance = Attendance(app.store.crew, "w1", ("default",))
        self.absences = Absences(app.store.crew, self.outage, 10, lambda: self.now_s)
        self.attendance.show(is_news=True)

    def look_for(self, seconds: int) -> list[str]:
        """Look each second; the types of all events of workers so far."""
        for _ in range(seconds):
            self.absences.look(["default"])
            self.now_s += 1
        return [event[0] for event in told(self.app)]


@pytest.fixture
def watch(app: Dtq) -> Watch:
    return Watch(app)


def test_a_worker_is_missed_for_a_while_before_it_is_told(watch: Watch) -> None:
    watch.now_s += NEWCOMER_S
    assert watch.look_for(10) == ["WORKER_STARTED"]
    assert watch.look_for(10) == ["WORKER_STARTED", "WORKER_STALE"]


def test_one_that_comes_back_in_time_was_not_missed(watch: Watch) -> None:
    watch.now_s += NEWCOMER_S
    watch.look_for(8)
    watch.app.store.workers.beat(info("w1"), 30)
    watch.look_for(5)
    watch.app.store.workers.leave("w1")
    assert watch.look_for(8) == ["WORKER_STARTED"]


def test_after_an_outage_all_have_the_time_for_a_heartbeat(watch: Watch) -> None:
    watch.now_s += NEWCOMER_S
    watch.outage.began(RedisUnavailable("away"))
    assert watch.look_for(35) == ["WORKER_STARTED"]
    assert watch.look_for(10) == ["WORKER_STARTED", "WORKER_STALE"]


def test_while_redis_answers_late_nobody_is_missed(watch: Watch) -> None:
    for _ in range(30):
        with watch.outage.exchange():
            watch.now_s += 1
        watch.look_for(1)
    assert watch.look_for(1) == ["WORKER_STARTED"]


def test_one_that_was_told_to_be_silent_says_that_it_is_back(watch: Watch) -> None:
    watch.now_s += NEWCOMER_S
    watch.look_for(12)
    watch.attendance.show(is_news=False)  # a heartbeat before the minute is over
    assert told(watch.app)[-1] == ("WORKER_STALE", "w1", None)
    watch.attendance.show(is_news=True)
    assert told(watch.app)[-1] == ("WORKER_STARTED", "w1", "back")


@pytest.mark.keeps_keys
def test_a_queue_that_refuses_does_not_keep_the_others_from_being_told(app: Dtq, client: Any) -> None:
    client.set(app.store.keys.crew("default"), "no hash")
    client.set(app.store.keys.clock("default"), "no number")
    Attendance(app.store.crew, "w1", ("default", "night")).show(is_news=True)
    assert told(app, "night") == [("WORKER_STARTED", "w1", None)]


def test_absences_of_queues_that_are_gone_are_forgotten(watch: Watch, app: Dtq) -> None:
    watch.now_s += NEWCOMER_S
    watch.look_for(5)
    watch.absences.look([])
    assert watch.look_for(8) == ["WORKER_STARTED"]
    assert app.store.crew.absent(["default"]) == {Absence("default", b"w1", watch.attendance._life.encode())}

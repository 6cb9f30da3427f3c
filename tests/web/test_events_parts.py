"""The parts of event sockets that need no socket: what is asked for, what waits to be sent, and how it is written."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from dtq_engine import Event, EventGap
from webapp.events import outbox as outboxes
from webapp.events.messages import EVENTS, SIZE, TERMINAL, Note, digest, dropped, hello
from webapp.events.outbox import RESTART, TOO_SLOW, DigestBox, EventBox, Outbox, outbox_for
from webapp.events.query import PARAMETERS, Mode, Query
from webapp.problems import Problem


def event(number: int = 1, type: str = "TASK_QUEUED", **fields: object) -> Event:
    given = {
        "ts_ms": 1_700_000_000_000,
        "task_id": f"t{number}",
        "queue": "default",
        "task_type": "mail",
        "attempt": 0,
        "worker_id": None,
        "detail": None,
    }
    return Event(event_id=number, type=type, **(given | fields))  # type: ignore[arg-type]


def note(number: int = 1, type: str = "TASK_QUEUED", **fields: object) -> Note:
    return Note(event(number, type, **fields))


def sent(box: Outbox) -> list[Any]:
    """What is taken out at once: numbers of events, types of other messages."""
    return [_gist(each) for each in box.take(0)]


def _gist(each: Note | str) -> Any:
    is_event = isinstance(each, Note) and isinstance(each.told, Event)
    return json.loads(text_of(each))["event_id" if is_event else "type"]


def text_of(each: Note | str) -> str:
    return each if isinstance(each, str) else each.text


class Clock:
    """A clock to be moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


# What is asked for


def query(**given: str) -> Query:
    return Query.of(MultiDict(given))


def test_without_a_query_all_is_wanted():
    assert query() == Query()
    assert query().wants(event())


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"queue": "default"}, True),
        ({"queue": "mails"}, False),
        ({"queue": "mails,default"}, True),
        ({"type": "mail"}, True),
        ({"type": "post"}, False),
        ({"task_id": "t1"}, True),
        ({"task_id": "t2"}, False),
        ({"event": "TASK_QUEUED"}, True),
        ({"event": "TASK_FAILED,TASK_DEAD_LETTERED"}, False),
        ({"queue": "default", "type": "mail", "task_id": "t1", "event": "TASK_QUEUED"}, True),
        ({"queue": "default", "type": "post"}, False),
        ({"queue": ""}, True),
    ],
)
def test_filters_must_all_fit(given, wanted):
    assert query(**given).wants(event()) is wanted


def of_worker(number: int = 1, type: str = "WORKER_STALE", worker_id: str | None = "w1") -> Note:
    return note(number, type, task_id=None, task_type=None, worker_id=worker_id)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"worker_id": "w1,w2"}, True),
        ({"worker_id": "w3"}, False),
        ({"event": "WORKER_STALE"}, True),
        ({"type": "mail"}, False),
        ({"task_id": "t1"}, False),
    ],
)
def test_events_of_workers_are_filtered_too(given, wanted):
    assert query(**given).wants(of_worker().told) is wanted


def test_what_happens_to_a_worker_has_no_task():
    shown = json.loads(of_worker().text)
    assert (shown["type"], shown["worker_id"]) == ("WORKER_STALE", "w1")
    assert shown["task_id"] is shown["task_type"] is shown["attempt"] is None


def test_events_of_workers_and_queues_are_not_left_out_for_a_slow_reader():
    box = EventBox(Query(), Clock(), limit=2)
    box.put([note(1), note(2), of_worker(3), of_worker(4, "CONFIGURATION_CHANGED", None)])
    assert sent(box) == ["GAP", 3, 4]


def test_a_parameter_may_come_several_times():
    asked = Query.of(MultiDict([("queue", "a"), ("queue", "b,c")]))
    assert asked.queues == {"a", "b", "c"}


def test_a_gap_concerns_all_who_hear_of_its_queue():
    gap = EventGap("default", 1, 5)
    assert query(type="post", event="TASK_FAILED", task_id="x").wants(gap)
    assert not query(queue="mails").wants(gap)


def test_since_names_an_event_of_each_queue():
    assert query().since is None
    assert query(since="default:120,mails:7").since == {"default": 120, "mails": 7}
    assert query(since="").since == {}


def test_only_queues_asked_for_are_wanted():
    assert query(queue="a").wanted({"a": 1, "b": 2}) == {"a": 1}
    assert query().wanted({"a": 1, "b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("given", "parameter", "hint"),
    [
        ({"queues": "a"}, "queues", "did you mean queue?"),
        ({"event": "TASK_FAILDE"}, "event", "did you mean TASK_FAILED?"),
        ({"event": "x"}, "event", "TASK_CANCELLED"),
        ({"mode": "digset"}, "mode", "did you mean digest?"),
        ({"since": "120"}, "since", "default:120"),
        ({"since": "default:-1"}, "since", "default:120"),
        ({"since": "default:" + "9" * 19}, "since", "default:120"),
        ({"queue": "a b"}, "queue", "letters"),
        ({"task_id": "x" * 129}, "task_id", "letters"),
        ({"type": "\x00"}, "type", "letters"),
        ({"queue": "a," * 101}, "queue", "101"),
        ({"mode": "digest", "since": "default:1"}, "since", "leave out"),
        ({"\ud800": "x"}, "\ud800", "no parameter"),
    ],
)
def test_what_cannot_be_asked_for_is_named_with_what_can(given, parameter, hint):
    with pytest.raises(Problem) as refused:
        query(**given)
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER")
    assert refused.value.more["parameter"] == parameter
    assert hint in refused.value.detail


@given(st.lists(st.tuples(st.sampled_from([*PARAMETERS, "x"]) | st.text(), st.text() | st.from_regex(r"[a-z]+:\d+"))))
def test_whatever_is_asked_is_understood_or_refused(given):
    with suppress(Problem):
        asked = Query.of(MultiDict(given))
        assert {parameter for parameter, _ in given} <= set(PARAMETERS)
        asked.wants(event())


# How it is written


def test_an_event_is_written_as_the_api_and_the_command_line_write_it():
    told = event(7, "TASK_RETRY_SCHEDULED", attempt=2, worker_id="w1", detail="KeyError")
    assert json.loads(Note(told).text) == {
        "type": "TASK_RETRY_SCHEDULED",
        "queue": "default",
        "event_id": 7,
        "at": "2023-11-14T22:13:20.000Z",
        "task_id": "t7",
        "task_type": "mail",
        "attempt": 2,
        "worker_id": "w1",
        "detail": "KeyError",
        "missing": None,
    }


def test_the_largest_event_is_under_1_kb():
    longest = event(
        10**17,
        "TASK_DUPLICATE_ABSORBED",
        task_id="x" * 64,
        queue="q" * 64,
        task_type="t" * 128,
        worker_id="w" * 64,
        attempt=100,
        detail="Ü" * 5000,
    )
    text = Note(longest).text
    assert len(text.encode()) < SIZE
    assert json.loads(text)["detail"].endswith("Ü…")


@pytest.mark.parametrize(("gap", "event_id", "missing"), [((3, 9), 8, 5), ((3, 5), 4, 1), ((120, 4), 3, None)])
def test_a_gap_says_how_many_are_missing_if_that_is_known(gap, event_id, missing):
    told = json.loads(Note(EventGap("default", *gap)).text)
    assert (told["type"], told["queue"], told["event_id"], told["missing"]) == ("GAP", "default", event_id, missing)


def test_a_hello_names_the_last_event_of_each_queue_in_messages_under_1_kb():
    assert [json.loads(text) for text in hello({})] == [{"type": "HELLO", "event_ids": []}]
    assert [json.loads(text) for text in hello({"b": 2, "a": 1})] == [{"type": "HELLO", "event_ids": ["a:1", "b:2"]}]
    many = {f"{'q' * 60}{n}": 10**17 for n in range(100)}
    texts = list(hello(many))
    assert max(map(len, texts)) < SIZE
    assert sorted(name for text in texts for name in json.loads(text)["event_ids"]) == sorted(
        f"{queue}:{number}" for queue, number in many.items()
    )


def test_a_digest_names_what_it_has_room_for():
    few = json.loads(digest(3, {"TASK_QUEUED"}, {"a"}, {"t1", "t2"}))
    assert few == {"type": "DIGEST", "many": 3, "events": ["TASK_QUEUED"], "queues": ["a"], "tasks": ["t1", "t2"]}
    long_names = [f"{'x' * 62}{n:02}" for n in range(60)]
    fuller = digest(10**9, EVENTS, {"a"}, set(long_names))
    assert (json.loads(fuller)["queues"], json.loads(fuller)["tasks"]) == (["a"], None)
    fullest = digest(10**9, EVENTS, set(long_names), set(long_names))
    assert (json.loads(fullest)["queues"], json.loads(fullest)["tasks"]) == (None, None)
    assert max(len(fuller), len(fullest)) < SIZE


def test_dropped_events_are_told_by_queue():
    assert json.loads(dropped("default", 12)) | {"type": "GAP", "queue": "default", "missing": 12} == json.loads(
        dropped("default", 12)
    )


# What waits, event by event


def test_events_go_out_in_order_as_far_as_they_are_asked_for():
    box = EventBox(query(type="mail"))
    for number in range(5):
        box.put([note(number, task_type="post" if number == 2 else "mail")])
    assert sent(box) == [0, 1, 3, 4]
    assert sent(box) == []


def test_what_is_said_of_the_stream_keeps_its_place():
    box = EventBox(Query())
    box.put([note(1)])
    box.say('{"type":"REDIS_AWAY"}')
    box.put([note(2)])
    assert sent(box) == [1, "REDIS_AWAY", 2]


def test_when_too_many_wait_ends_of_tasks_take_the_places_of_other_events():
    box = EventBox(Query(), limit=4)
    box.put([note(1, "TASK_STARTED")])
    box.put([note(2, "TASK_SUCCEEDED")])
    box.put([note(3, "TASK_STARTED")])
    box.put([note(4, "TASK_QUEUED")])
    box.put([note(5, "TASK_QUEUED")])
    box.put([note(6, "TASK_FAILED", queue="mails")])
    box.put([note(7, "TASK_DEAD_LETTERED")])
    taken = box.take(0)
    assert [json.loads(text_of(each))["type"] for each in taken[:1]] == ["GAP"]
    gap = json.loads(text_of(taken[0]))
    assert (gap["queue"], gap["missing"], gap["event_id"]) == ("default", 3, None)
    assert [_gist(each) for each in taken[1:]] == [2, 4, 6, 7]
    assert box.closing is None


def test_a_box_full_of_ends_closes_the_socket():
    box = EventBox(Query(), limit=3)
    for number in range(4):
        box.put([note(number, "TASK_SUCCEEDED")])
    assert box.closing is TOO_SLOW
    assert box.take(0) == ()


def test_whoever_stays_behind_is_closed_and_whoever_catches_up_is_not():
    clock = Clock()
    box = EventBox(Query(), clock, limit=2)
    for number in range(4):
        box.put([note(number)])
    clock.now = 4
    assert sent(box) == ["GAP", 0, 1]
    clock.now = 8
    for number in range(3):
        box.put([note(number)])
    assert box.closing is None
    clock.now = 13.5
    box.put([note(9)])
    assert box.closing is TOO_SLOW


def test_no_box_grows_however_much_comes():
    box = EventBox(Query(), Clock(), limit=50)
    kinds = sorted(EVENTS - TERMINAL)
    for number in range(10_000):
        box.put([note(number, kinds[number % len(kinds)])])
    assert len(box._items) == 50
    digest_box = DigestBox(Query(), Clock())
    for number in range(10_000):
        digest_box.put([note(number, queue=f"q{number % 3}")])
        digest_box.say('{"type":"REDIS_AWAY"}')
    assert len(digest_box._tasks) <= 50
    assert len(digest_box._said) <= 2


@pytest.mark.parametrize("make", [EventBox, DigestBox])
def test_the_first_reason_to_close_counts_and_nothing_is_sent_any_more(make):
    box = make(Query())
    box.put([note()])
    box.close(RESTART)
    box.close(TOO_SLOW)
    assert (box.take(0), box.closing) == ((), RESTART)


@pytest.mark.parametrize("make", [EventBox, DigestBox])
@pytest.mark.parametrize(
    "ring", [Outbox.wake, lambda box: box.put([note()]), lambda box: box.say("{}"), lambda box: box.close(RESTART)]
)
def test_a_waiting_writer_is_woken_by_whatever_happens(make: type[EventBox], ring: Callable[[Outbox], None]):
    box = make(Query())
    writer = threading.Thread(target=box.take, args=(60,))
    writer.start()
    ring(box)
    writer.join(10)
    assert not writer.is_alive()


# What waits, as a digest


def test_a_digest_is_sent_at_most_once_a_second():
    clock = Clock()
    box = DigestBox(Query(), clock)
    box.put([note(1)])
    assert sent(box) == ["DIGEST"]
    box.put([note(2)])
    assert sent(box) == []
    clock.now = 0.9
    box.put([note(3)])
    assert sent(box) == []
    clock.now = 1.0
    (text,) = box.take(0)
    assert json.loads(text_of(text))["many"] == 2
    assert sent(box) == []


def test_a_digest_tells_what_has_changed():
    box = DigestBox(query(queue="default,mails"))
    box.put([note(1, "TASK_QUEUED")])
    box.put([note(1, "TASK_STARTED")])
    box.put([note(2, "TASK_STARTED", queue="mails")])
    box.put([note(3, queue="others")])
    (text,) = box.take(0)
    assert json.loads(text_of(text)) == {
        "type": "DIGEST",
        "many": 3,
        "events": ["TASK_QUEUED", "TASK_STARTED"],
        "queues": ["default", "mails"],
        "tasks": ["t1", "t2"],
    }


def test_a_gap_in_a_digest_may_be_any_task():
    box = DigestBox(Query())
    box.put([note(1)])
    box.put([Note(EventGap("default", 1, 5))])
    told = json.loads(text_of(box.take(0)[0]))
    assert (told["events"], told["tasks"]) == (["GAP", "TASK_QUEUED"], None)


def test_a_digest_of_what_happened_to_no_task_names_none():
    box = DigestBox(Query())
    box.put([of_worker()])
    told = json.loads(text_of(box.take(0)[0]))
    assert (told["events"], told["queues"], told["tasks"]) == (["WORKER_STALE"], ["default"], [])


def test_a_digest_that_cannot_name_all_tasks_names_none(monkeypatch):
    box = DigestBox(Query())
    for number in range(outboxes.NAMED + 1):
        box.put([note(number)])
    assert json.loads(text_of(box.take(0)[0]))["tasks"] is None


def test_what_is_said_of_the_stream_does_not_wait_for_the_next_digest():
    box = DigestBox(Query(), Clock())
    box.put([note()])
    box.take(0)
    box.put([note()])
    box.say('{"type":"REDIS_AWAY"}')
    assert sent(box) == ["REDIS_AWAY"]


def test_each_mode_has_its_outbox():
    assert isinstance(outbox_for(Query()), EventBox)
    assert isinstance(outbox_for(Query(mode=Mode.DIGEST)), DigestBox)

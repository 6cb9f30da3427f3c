"""Notes of the counters: a ring for each span of time, from which differences are made."""

from dtq_engine.model import Reschedule
from dtq_engine.store.history import Span
from tests.store.hand import error

MINUTE = 60_000


def test_a_note_has_what_was_counted_over_all_types(hand, store):
    hand.end(hand.start("a"))
    hand.end(hand.start("b"), Reschedule(error(), 60_000))
    store.history.record("default")
    ((note,),) = store.history.read(["default"], Span.HOUR)
    assert (note.counts["submitted"], note.counts["succeeded"], note.failures) == (2, 1, {"mail": 1})
    assert sum(note.waits.values()) == 2
    store.control.cancel("b")


def test_a_ring_holds_one_note_a_step_and_no_more_than_its_span(hand, store, client, settings):
    now_ms = store.now_ms()
    for minutes in range(200, -1, -1):
        store.history.record("default", now_ms - minutes * MINUTE)
        store.history.record("default", now_ms - minutes * MINUTE)
    for span in Span:
        assert client.hlen(store.keys.history("default", span)) <= span.slots
    ((*hour,),) = store.history.read(["default"], Span.HOUR)
    assert [note.at_ms for note in hour] == sorted(note.at_ms for note in hour)
    assert len(hour) == 61
    assert now_ms - hour[0].at_ms == Span.HOUR.length_ms


def test_a_note_that_cannot_be_read_is_left_out(store, client):
    store.workers.register_queue("default")
    store.history.record("default")
    client.hset(store.keys.history("default", Span.HOUR), "7", b"\xff{")
    client.set(store.keys.history("other", Span.HOUR), "no hash", px=1000)
    assert [len(notes) for notes in store.history.read(["default", "other", "none"], Span.HOUR)] == [1, 0, 0]


def test_a_pause_says_who_and_why_and_until_when(hand, store, client):
    hand.submit("a")
    store.workers.register_queue("q2")
    store.control.pause("default", actor="ada", reason="upgrade", for_ms=60_000)
    client.set(store.keys.paused("q2"), b"[1", px=1000)
    pauses = store.pauses.of(["default", "q2", "q3"])
    assert set(pauses) == {"default", "q2"}
    pause = pauses["default"]
    assert (pause.by, pause.reason, pause.until_ms - pause.since_ms) == ("ada", "upgrade", 60_000)
    store.control.resume("default")

"""Notes of the counters: a ring for each span of time, from which differences are made."""

import pytest

from dtq_engine.model import Reschedule
from dtq_engine.store.history import Span
from tests.store.hand import error

MINUTE = 60_000


def test_a_note_has_what_was_counted_over_all_types(hand, store):
    hand.end(hand.start("a"))
    hand.end(hand.start("b"), Reschedule(error(), 60_000))
    store.history.record("default")
    ((_, note),) = store.history.read(["default"], Span.HOUR)
    assert (note.counts["submitted"], note.counts["succeeded"], note.failures) == (2, 1, {"mail": 1})
    assert sum(note.waits.values()) == 2
    store.control.cancel("b")


def begin(store, client, ago_ms):
    """Have the first event of a queue been so long ago."""
    key, began_ms = store.keys.events("default"), store.now_ms() - ago_ms
    ((entry, fields),) = client.xrange(key)
    client.delete(key)
    client.xadd(key, fields | {b"t": began_ms}, id=entry)
    return began_ms


@pytest.mark.parametrize("span", list(Span))
@pytest.mark.parametrize("ago_ms", [1_000, 90_000])
def test_a_young_queue_began_with_nothing_before_and_after_its_first_note(hand, store, client, span, ago_ms):
    hand.submit("a")
    began_ms = begin(store, client, ago_ms)
    hand.end(hand.claim_one())
    ((zero,),) = store.history.read(["default"], span)
    assert (zero.counts, zero.at_ms) == ({}, began_ms)
    store.history.record("default")
    store.history.record("default")
    ((first, note),) = store.history.read(["default"], span)
    assert (first, note.counts["succeeded"]) == (zero, 1)


def test_a_queue_whose_log_has_lost_its_beginning_has_no_note_of_it(hand, store, client):
    hand.end(hand.start("a"))
    client.xtrim(store.keys.events("default"), maxlen=1, approximate=False)
    assert store.history.read(["default"], Span.HOUR) == [[]]
    store.history.record("default")
    assert [len(notes) for notes in store.history.read(["default"], Span.HOUR)] == [1]


def test_a_queue_that_is_older_than_the_span_has_no_beginning_in_it(hand, store, client):
    hand.submit("a")
    begin(store, client, 2 * 3_600_000)
    hand.end(hand.claim_one())
    store.history.record("default")
    assert [len(store.history.read(["default"], span)[0]) for span in Span] == [1, 2, 2]


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
    client.hset(store.keys.history("default", Span.HOUR), "x", b"\xff{")
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

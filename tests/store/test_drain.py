"""How fast a queue empties, as far as the last minute tells."""

import pytest

from dtq_engine.model import TaskStatus
from dtq_engine.store.drain import Drain


@pytest.mark.parametrize(
    ("due", "ended", "seconds"),
    [(0, 0, 60), (10, 0, 60), (4, 6, 40), (1, 6000, 1), (0, 6, 1), (100_000, 1, 3600), (100_000, 60_000, 100)],
)
def test_how_long_a_queue_takes_is_its_depth_over_its_recent_rate(due, ended, seconds):
    assert Drain(due, ended).empty_in_s == seconds


def test_what_is_due_within_an_hour_counts_and_so_does_what_ended_within_a_minute(hand, store, client):
    hand.end(hand.start("old"))
    hand.end(hand.start("new"))
    client.zincrby(store.keys.index("default", TaskStatus.SUCCEEDED), -61_000, "old")
    hand.submit("waits")
    hand.submit("soon", delay_ms=60_000)
    hand.submit("far", delay_ms=2 * 3_600_000)
    claim = hand.claim_one("waits")
    assert store.drains.of("default") == Drain(due=2, ended=1)
    hand.end(claim)


def test_an_unknown_queue_is_empty(store):
    assert store.drains.of("nothing") == Drain(0, 0)

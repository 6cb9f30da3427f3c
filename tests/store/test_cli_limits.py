"""`dtq limits`: what is in force, and other numbers for a while."""

import pytest

from dtq_engine.limits import Declared, Limit, Numbers


@pytest.fixture
def limited(hand, store):
    """A queue with two limits, for one of which two tasks wait."""
    store.workers.register_queue("default")
    limits = (Limit("stripe", Numbers(1)), Limit("account", Numbers(2, 100, 60_000)))
    store.limits.declare("default", Declared(limits, {"stripe": "default", "account": "default"}))
    hand.submit("a", "b", "c", limits=("stripe",))
    hand.claim()


def test_without_limits_it_says_how_to_make_one(dtq):
    assert "app.limit" in dtq("limits", "list").err
    assert dtq("limits", "list", "--json").json == {"limits": []}


def test_a_listing_shows_what_is_allowed_and_what_waits(limited, dtq):
    shown = dtq("limits", "list").out
    assert "stripe" in shown
    assert "100 in 1m" in shown
    (account, stripe) = dtq("limits", "list", "--json", "--queue", "default").json["limits"]
    assert (stripe["max_running"], stripe["running"], stripe["waiting"], stripe["set"]) == (1, 1, 2, False)
    assert (account["rate_starts"], account["rate_ms"]) == (100, 60_000)


def test_numbers_can_be_set_and_cleared(limited, dtq, store):
    assert dtq("limits", "set", "default", "stripe", "--max-running", "3", "--reason", "a calm day").code == 0
    assert "a calm day" in dtq("limits", "list").out
    stripe = dtq("limits", "list", "--json").json["limits"][1]
    assert (stripe["max_running"], stripe["set"], stripe["set_reason"]) == (3, True, "a calm day")
    assert dtq("limits", "clear", "default", "stripe", "--json").json["outcome"] == "cleared"
    assert dtq("limits", "set", "default", "--rate", "5/1s", "--max-running", "none", "--json").json["name"] == "*"
    assert next(each for each in store.limits.list() if each.is_queue_wide).numbers == Numbers(None, 5, 1_000)
    assert [entry.action for entry in store.events.audit("default", 9)] == ["set_limit", "clear_limit", "set_limit"]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["set", "default", "strip", "--max-running", "1"], 1, "There is no limit strip"),
        (["set", "nowhere", "--max-running", "1"], 1, "There is no"),
        (["clear", "default", "stripe"], 1, "is not set"),
        (["set", "default", "stripe"], 2, "Give --max-running, --rate, or both"),
        (["set", "default", "stripe", "--max-running", "0"], 2, "from 1 to"),
        (["set", "default", "stripe", "--max-running", "x"], 2, "is no number"),
        (["set", "default", "stripe", "--max-running", "9" * 5_000], 2, "... is no number"),
        (["set", "default", "stripe", "--rate", "5"], 2, "is no rate"),
        (["set", "default", "stripe", "--rate", "9" * 5_000 + "/1s"], 2, "... is no rate"),
        (["set", "default", "stripe", "--rate", "5/x"], 2, "x"),
        (["set", "default", "stripe", "--rate", "0/5s"], 2, "from 1 to"),
    ],
    ids=repr,
)
def test_what_cannot_be_is_told(limited, dtq, arguments, code, problem):
    ran = dtq("limits", *arguments)
    assert (ran.code, problem in ran.err) == (code, True), ran.err

"""`dtq periodic`: seeing what runs at times, holding it, and running it now."""

from collections.abc import Callable

import pytest

from dtq_engine.periodic import Definition
from dtq_engine.store import Store
from dtq_engine.worker.ticker import Ticker
from tests.store.hand import Hand, info
from tests.support.clock import Clock
from tests.support.ran import Ran

DTQ = Callable[..., Ran]
NIGHTLY = Definition(
    name="nightly", type="mail", cron="0 3 * * *", tz="Europe/Berlin", payload='{"n": 12345678901234567890}'
)
OFTEN = Definition(name="often", type="mail", every_ms=90_000, jitter_ms=5_000)


@pytest.fixture(autouse=True)
def ticker(store: Store) -> Ticker:
    """A leader that has heard of two periodic tasks."""
    ticker = Ticker(store)
    announce(store, NIGHTLY, OFTEN)
    ticker.take_over()
    return ticker


def announce(store: Store, *definitions: Definition) -> None:
    """A worker has these."""
    store.agenda.publish(definitions)
    store.workers.beat(info("w1", periodic={each.name: each.digest for each in definitions}), 30)


def test_the_list_says_when_each_runs_and_ran(dtq: DTQ, hand: Hand, ticker: Ticker, clock: Clock):
    for _ in range(2):  # a tick that is more than a minute late is a missed one
        clock.advance(45)
        ticker.turn("default")
    head, nightly, often = dtq("periodic", "list").out.splitlines()
    assert head.split() == ["NAME", "WHEN", "TYPE", "QUEUE", "LAST", "LAST", "TASK", "NEXT"]
    assert "0 3 * * * Europe/Berlin" in nightly
    assert "every 1m 30s" in often
    assert hand.claim()[0].task_id in often


def test_json_has_all_there_is(dtq: DTQ):
    nightly, often = dtq("periodic", "list", "--json").json["periodic"]
    assert nightly["next_at"].endswith((":00:00.000Z",))
    assert {name: nightly[name] for name in nightly if name != "next_at"} == {
        "name": "nightly",
        "type": "mail",
        "queue": "default",
        "cron": "0 3 * * *",
        "tz": "Europe/Berlin",
        "every_ms": None,
        "catch_up": "skip",
        "jitter_ms": 0,
        "arguments": {"n": 12345678901234567890},
        "last_at": None,
        "last_task": None,
        "paused": False,
        "paused_by": None,
        "pause_reason": None,
        "removed_at": None,
    }
    assert (often["cron"], often["tz"], often["every_ms"], often["jitter_ms"]) == (None, None, 90_000, 5_000)


def test_pause_resume_and_trigger_do_so_and_are_audited(dtq: DTQ, hand: Hand):
    assert "is paused" in dtq("periodic", "pause", "often", "--reason", "too much").out
    assert "paused: too much" in dtq("periodic", "list").out
    assert dtq("periodic", "list", "--json").json["periodic"][1]["paused"] is True
    task_id = dtq("periodic", "trigger", "often").out.strip()
    assert hand.claim_one(task_id).type == "mail"
    assert "runs again" in dtq("periodic", "resume", "often").out
    actions = dtq("audit", "--json").json["actions"]
    assert [(each["action"], each["target"], each["reason"]) for each in actions] == [
        *(("resume_periodic", "often", ""), ("trigger_periodic", "often", ""), ("pause_periodic", "often", "too much")),
    ]


def test_verbs_answer_in_json_too(dtq: DTQ):
    assert dtq("periodic", "pause", "often", "--json").json == {"name": "often", "outcome": "paused", "task_id": None}
    assert dtq("periodic", "resume", "often", "--json").json["outcome"] == "resumed"
    assert dtq("periodic", "trigger", "often", "--json").json["task_id"]


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger"])
def test_what_is_unknown_is_a_bad_answer_and_what_is_no_name_a_wrong_usage(dtq: DTQ, verb: str):
    ran = dtq("periodic", verb, "nope", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "PeriodicNotFound")
    assert dtq("periodic", verb, "no name").code == 2


def test_what_was_removed_is_shown_so_and_cannot_be_triggered(dtq: DTQ, store: Store, ticker: Ticker):
    announce(store, OFTEN)
    ticker.take_over()
    assert "removed" in dtq("periodic", "list").out.splitlines()[1]
    ran = dtq("periodic", "trigger", "nightly")
    assert ran.code == 1
    assert "was removed from the code" in ran.err


def test_a_tick_that_is_long_past_says_that_nobody_leads(dtq: DTQ, client, store: Store):
    client.hset(store.keys.periodic_task("default", "often"), "at", 1_000_000)
    assert "nobody leads: start a worker" in dtq("periodic", "list").out


def test_without_any_it_is_said_how_to_make_one(dtq: DTQ, store: Store, client):
    client.delete(store.keys.periodic("default"))
    assert "@app.periodic" in dtq("periodic", "list").err
    for name in ("nightly", "often"):
        client.delete(store.keys.periodic_task("default", name))

"""What operators do from the command line: requeue, run-now, reprioritise, purge, pause; and workers, audit."""

import io

import pytest

from dtq_engine.model import Block, Cancel, DeadLetter, Reschedule
from tests.store.hand import Hand, error, ids, info

DAY_S = 86_400


@pytest.fixture
def at_a_terminal(monkeypatch):
    """Whoever is asked types this: `at_a_terminal("reports\\n")`."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def types(text: str) -> None:
        monkeypatch.setattr("sys.stdin", Terminal(text))

    return types


@pytest.fixture
def ended(hand) -> None:
    """Tasks that ended in three ways: two dead letters for different errors, one of them a report, and a cancelled."""
    hand.digest = hand.store.workers.announce(["default"], ["mail", "report"])
    hand.end(hand.start("m-1"), DeadLetter(error("connection refused"), "max_attempts"))
    hand.end(hand.start("r-1", type="report"), DeadLetter(error("no such month"), "permanent"))
    hand.end(hand.start("m-2"), Cancel(error()))


# requeue


def test_all_dead_letters_are_requeued(dtq, ended, hand):
    ran = dtq("requeue", "--all", "--yes", "--reason", "again")
    assert (ran.code, ran.out) == (0, "Requeued 2 tasks.\n")
    assert [hand.status(each) for each in ("m-1", "r-1", "m-2")] == ["queued", "queued", "cancelled"]
    assert {entry.reason for entry in hand.store.events.audit("default", 10)} == {"again"}


@pytest.mark.parametrize(
    ("filters", "requeued"),
    [
        (["--type", "report"], ["r-1"]),
        (["--error", "refused"], ["m-1"]),
        (["--error", "ValueError: no such month"], ["r-1"]),
        (["--type", "report", "--error", "refused"], []),
        (["--status", "cancelled"], ["m-2"]),
        (["--status", "cancelled", "--status", "dead_lettered", "--type", "mail"], ["m-1", "m-2"]),
        (["--all", "--queue", "default"], ["m-1", "r-1"]),
        (["--all", "--queue", "night"], []),
        (["--status", "expired"], []),
    ],
    ids=" ".join,
)
def test_requeue_takes_what_matches_and_nothing_else(dtq, ended, hand, filters, requeued):
    ran = dtq("requeue", *filters, "--yes", "--json")
    assert (ran.code, sorted(line["id"] for line in ran.lines)) == (0, requeued)
    assert {each for each in ("m-1", "r-1", "m-2") if hand.status(each) == "queued"} == set(requeued)


def test_requeue_asks_before_it_takes_many(dtq, ended, hand, at_a_terminal):
    at_a_terminal("n\n")
    refused = dtq("requeue", "--all")
    assert (refused.code, hand.status("m-1")) == (1, "dead_lettered")
    assert "Requeue 2 tasks?" in refused.err
    assert refused.err.endswith("Nothing was done.\n")
    at_a_terminal("y\n")
    assert (dtq("requeue", "--all").code, hand.status("m-1")) == (0, "queued")


def test_requeue_without_a_terminal_needs_yes(dtq, ended, hand):
    ran = dtq("requeue", "--all", stdin=b"y\n")
    assert (ran.code, hand.status("m-1")) == (2, "dead_lettered")
    assert "repeat the command with --yes" in ran.err


def test_requeue_by_id_asks_nothing_and_goes_on_after_a_refusal(dtq, ended, hand):
    hand.submit("m-3")
    ran = dtq("requeue", "m-3", "nope", "m-2", "--queue", "default")
    assert (ran.code, ran.out, hand.status("m-2")) == (1, "Requeued 1 task.\n", "queued")
    assert [line.split(" ")[1:3] for line in ran.err.splitlines()] == [["Task", "m-3"], ["There", "is"]]


@pytest.mark.parametrize("arguments", [[], ["m-1", "--all"], ["m-1", "--type", "mail"], ["--queue", "default"]])
def test_requeue_needs_ids_or_a_filter(dtq, ended, arguments):
    ran = dtq("requeue", *arguments)
    assert (ran.code, "but not both" in ran.err) == (2, True)


@pytest.mark.parametrize("day", [30, 179])
def test_a_dead_letter_is_requeued_with_payload_and_history_as_long_as_it_lives(dtq, hand, clock, day):
    payload = b'{"text":"' + b"x" * 100 + b'"}'
    hand.end(hand.start("m-1", payload=payload), DeadLetter(error("at last"), "max_attempts"))
    clock.advance(day * DAY_S, ttls=True)
    assert dtq("dlq", "list", "--json").json["dead_letters"][0]["id"] == "m-1"
    ran = dtq("requeue", "--error", "at last", "--yes")
    assert (ran.code, ran.out) == (0, "Requeued 1 task.\n")
    claim = Hand(hand.store, "w2").claim_one("m-1")
    assert (claim.payload, [each.message for each in hand.task("m-1").errors]) == (payload, ["at last"])
    hand.end(claim)


def test_a_dead_letter_that_is_past_its_time_is_gone_with_all_of_it(dtq, hand, clock):
    hand.end(hand.start("m-1"), DeadLetter(error(), "max_attempts"))
    clock.advance(181 * DAY_S, ttls=True)
    assert dtq("requeue", "--all", "--yes").err == "No task matches.\n"
    assert dtq("requeue", "m-1").code == 1


# run-now, reprioritise


def test_what_waits_for_its_time_is_run_now(dtq, hand):
    hand.end(hand.start("m-2"), Reschedule(error(), 60_000))
    hand.end(hand.start("m-3"), Block("why"))
    hand.submit("m-1", delay_ms=60_000)
    ran = dtq("run-now", "m-1", "m-2", "m-3", "--json")
    assert (ran.code, {line["outcome"] for line in ran.lines}) == (0, {"queued"})
    assert sorted(ids(hand.claim())) == ["m-1", "m-2", "m-3"]
    again = dtq("run-now", "m-1")
    assert again.code == 1
    assert again.err.startswith("Error: Task m-1 is running: only one that is delayed")


def test_a_task_gets_another_priority(dtq, hand):
    hand.submit("m-1", "m-2")
    ran = dtq("reprioritise", "m-2", "--priority", "9", "--reason", "the boss asks")
    assert (ran.code, ran.out) == (0, "Moved 1 task.\n")
    assert hand.claim_one().task_id == "m-2"
    late = dtq("reprioritise", "m-2", "--priority", "1", "--json")
    assert (late.code, late.lines[0]["error"]["code"]) == (1, "InvalidTransition")
    assert [dtq("reprioritise", "m-1", *wrong).code for wrong in ([], ["--priority", "10"])] == [2, 2]


# purge, resume


def test_purge_asks_for_the_name_of_the_queue(dtq, hand, at_a_terminal):
    hand.start("m-0")
    hand.submit("m-1", "m-2")
    at_a_terminal("defualt\n")
    refused = dtq("purge", "default")
    assert (refused.code, hand.status("m-1")) == (1, "queued")
    assert "This cancels 2 tasks. Type the name of the queue, default, to go on" in refused.err
    at_a_terminal("default\n")
    ran = dtq("purge", "default", "--reason", "sent twice")
    assert (ran.code, ran.out) == (0, "Cancelled 2 tasks of default.\n")
    assert [hand.status(each) for each in ("m-0", "m-1", "m-2")] == ["running", "cancelled", "cancelled"]
    assert hand.store.events.audit("default", 1)[0].reason == "sent twice"


def test_purge_without_a_terminal_needs_yes(dtq, hand):
    hand.submit("m-1")
    assert dtq("purge", "default", stdin=b"default\n").code == 2
    assert dtq("purge", "default", "--yes", "--json").json == {"queue": "default", "cancelled": 1}


def test_purge_leaves_delayed_tasks_unless_told_otherwise(dtq, hand):
    hand.submit("m-1", delay_ms=60_000)
    assert (
        "It still has 1 task delayed, to be retried or blocked: see --delayed." in dtq("purge", "default", "--yes").err
    )
    assert dtq("purge", "default", "--yes", "--json").json["cancelled"] == 0
    assert dtq("purge", "default", "--yes", "--delayed", "--json").json["cancelled"] == 1
    assert dtq("purge", "nope", "--yes").code == 1


def test_a_pause_ends_by_itself_and_says_who_and_why(dtq, hand, client, store):
    hand.submit("m-1")
    assert dtq("pause", "default", "--reason", "upgrade", "--for", "30m").out == "default is paused for 30m 00s\n"
    assert 29 * 60 < client.ttl(store.keys.paused("default")) <= 30 * 60
    dtq("resume", "default", "--reason", "done")
    actions = dtq("audit", "--json").json["actions"]
    assert [(each["action"], each["reason"]) for each in actions] == [("resume", "done"), ("pause", "upgrade")]


# workers


def test_workers_are_listed_with_what_they_do(dtq, store):
    assert dtq("workers").err == "There is no worker: start one with dtq worker --app MODULE:APP.\n"
    store.workers.beat(info("w-1", started_ms=store.now_ms() - 60_000, seen_ms=store.now_ms()), 30)
    head, row = dtq("workers").out.splitlines()
    assert (head.split()[0], row.split()) == (
        "ID",
        ["w-1", "höst", "7", "q1,q2", "3/10", "running", "r1", "1m", "ago", "now"],
    )
    (shown,) = dtq("workers", "--queue", "q1", "--json").json["workers"]
    assert (shown["id"], shown["in_flight"], shown["queues"]) == ("w-1", 3, ["q1", "q2"])
    assert dtq("workers", "--queue", "q9", "--json").json == {"workers": []}


# audit


def test_the_audit_tells_who_did_what_to_what(dtq, hand, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ann\x1b[31m")
    hand.submit("m-1", "m-2", delay_ms=60_000)
    dtq("run-now", "m-1", "--reason", "now")
    hand.store.control.cancel("m-2", actor="bob", reason="twice")
    head, first, second = dtq("audit").out.splitlines()
    assert head.split() == ["WHEN", "WHO", "ACTION", "TARGET", "QUEUE", "TASKS", "REASON"]
    assert first.split()[-6:] == ["bob", "cancel", "m-2", "default", "1", "twice"]
    assert r"ann\x1b[31m" in second
    assert [each["target"] for each in dtq("audit", "--actor", "bob", "--json").json["actions"]] == ["m-2"]
    assert [each["target"] for each in dtq("audit", "--action", "run_now", "--json").json["actions"]] == ["m-1"]
    assert len(dtq("audit", "--limit", "1", "--json").json["actions"]) == 1
    assert len(dtq("audit", "--since", "1h", "--queue", "default", "--json").json["actions"]) == 2
    assert dtq("audit", "--since", "2100-01-01T00:00Z").err == "No action matches.\n"

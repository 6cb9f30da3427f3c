"""`dtq status` and `dtq logs`: what executions say of themselves, on the command line."""

import json

from dtq_engine.model import DeadLetter, Reschedule, Said
from dtq_engine.store.progress import pack_line
from tests.store.hand import QUEUE, Hand, error


def say(store, claim, *messages, progress=None, first=1):
    """Report lines, from a number on, and progress."""
    lines = tuple((number, pack_line(1_000, "INFO", "shop", text, 4096)) for number, text in enumerate(messages, first))
    store.reports.report(QUEUE, [(claim, Said(progress, lines))])


def test_progress_and_lines_are_shown(store, hand, dtq):
    claim = hand.start("t")
    say(store, claim, "one", "two \x1b[31m\nmore")
    hand.end(claim, Reschedule(error(), 0))
    told = hand.claim_one("t")
    say(store, told, "three", first=6, progress=(30, 60, "reading\x07", 2_000))
    shown = dtq("status", "t").out
    assert "30 of 60 (50 %), reading\\x07, in attempt 2" in shown
    assert dtq("status", "t", "--json").json["tasks"][0]["progress"]["percent"] == 50
    lines = [json.loads(line) for line in dtq("logs", "t", "--json").out.splitlines()]
    assert [line["message"] for line in lines] == ["one", "two \x1b[31m\nmore", "three"]
    text = dtq("logs", "t").out
    assert "shop: two \\x1b[31m\n  | more" in text
    assert "… 5 lines before this one are gone" in text
    hand.end(told)


def test_lines_of_one_attempt_and_after_a_number(store, hand, dtq):
    claim = hand.start("t")
    say(store, claim, "one", "two")
    hand.end(claim, Reschedule(error(), 0))
    told = hand.claim_one("t")
    say(store, told, "three")
    assert [json.loads(line)["number"] for line in dtq("logs", "t", "--attempt", "2", "--json").out.splitlines()] == [3]
    assert len(dtq("logs", "t", "--after", "1", "--json").out.splitlines()) == 2
    hand.end(told)
    assert len(dtq("logs", "t", "--follow", "--after", "2", "--json").out.splitlines()) == 1


def test_all_lines_are_shown_however_many_are_kept(make_store, dtq):
    hand = Hand(make_store(task_log_lines=5_000))
    claim = hand.start("t")
    say(hand.store, claim, *(str(number) for number in range(2_500)))
    assert [json.loads(line)["message"] for line in dtq("logs", "t", "--json").out.splitlines()][-1] == "2499"
    assert len(dtq("logs", "t", "--after", "100").out.splitlines()) == 2_400
    hand.end(claim)


def test_a_task_without_lines_or_without_a_record_says_so(hand, dtq):
    hand.submit("t")
    assert "Nothing was logged" in dtq("logs", "t").err
    assert dtq("logs", "nobody").code == 1


def test_requeue_may_drop_the_steps(store, hand, dtq):
    claim = hand.start("t")
    store.steps.save(claim, "sa", b"1")
    hand.end(claim, DeadLetter(error(), "permanent"))
    assert dtq("requeue", "t", "--drop-steps").code == 0
    assert hand.claim_one("t").saved == {}

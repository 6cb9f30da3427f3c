"""What a person does with the list of tasks and the page of one."""

import json
import re

from playwright.sync_api import expect

from dtq_engine.model import DeadLetter, Reschedule
from tests.store.hand import error
from tests.support.waiting import wait_until


def live(page):
    """Wait until the page hears what happens."""
    expect(page.locator("#live-state")).to_have_attribute("data-state", "live")


def test_a_task_that_is_submitted_is_announced_and_shown_when_asked_for(page, hand):
    hand.submit("first")
    page.goto("/tasks")
    live(page)
    hand.submit("second")
    newer = page.get_by_role("link", name="1 new – show")
    expect(newer).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    newer.click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_where_nothing_is_shown_the_first_task_comes_by_itself(page, hand):
    page.goto("/tasks")
    expect(page.get_by_text("No tasks yet.")).to_be_visible()
    live(page)
    hand.submit("first")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_row_follows_its_task_and_stays_where_it_is(page, hand):
    hand.submit("a")
    hand.submit("b")
    page.goto("/tasks?q=status:queued")
    live(page)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    hand.end(hand.claim_one("a"))
    row = page.locator('[id="row-default/a"]')
    expect(row.locator(".badge")).to_have_text("succeeded")
    expect(row).to_have_class("moved")
    expect(rows).to_have_count(2)


def test_filters_are_in_the_address_and_a_cell_sets_one(page, furnished):
    page.goto("/tasks")
    page.locator(".chips").get_by_text("dead letters").click()
    expect(page).to_have_url(re.compile(r"q=status%3Adead_lettered|q=status:dead_lettered"))
    page.locator("td a.cell", has_text="reports").first.click()
    expect(page.locator("[data-search]")).to_have_value("status:dead_lettered queue:reports")
    expect(page.locator("tbody tr")).to_have_count(2)
    search = page.locator("[data-search]")
    search.fill('type:email.* error:"timed out" since:7d')
    search.press("Enter")
    expect(page.locator("tbody tr").first).to_contain_text("email.receipt")


def test_a_wrong_word_is_named_under_the_line_and_kept_in_it(page):
    page.goto("/tasks?q=stauts:queued")
    expect(page.get_by_role("alert")).to_have_text("“stauts” is nothing to look for: did you mean status?")
    expect(page.locator("[data-search]")).to_have_value("stauts:queued")


def test_a_waiting_task_is_cancelled_with_a_reason(page, hand, store):
    hand.submit("a")
    page.goto("/tasks/a")
    page.get_by_label("Reason").fill("ordered twice")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The task was cancelled.")).to_be_visible()
    expect(page.locator("h1 .badge")).to_have_text("cancelled")
    (entry,) = store.events.audit("default", 10)
    assert (entry.action, entry.reason, entry.actor) == ("cancel", "ordered twice", "anonymous")


def test_ticked_tasks_are_requeued_together_and_refusals_are_named(page, hand):
    for name in ("a", "b"):
        hand.end(hand.start(name), DeadLetter(error(), "permanent"))
    hand.submit("c")
    page.goto("/tasks")
    page.get_by_label("Tick all").check()
    page.get_by_role("button", name="Requeue").click()
    page.complaints.expect("409")
    expect(page.get_by_role("heading")).to_have_text("This was refused")
    expect(page.get_by_text("Done for 2 of 3 tasks.")).to_be_visible()
    assert (hand.status("a"), hand.status("b")) == ("queued", "queued")


def test_a_dead_letter_is_edited_and_submitted_anew(page, hand, store):
    hand.submit("a", payload=b'{"account":7}')
    hand.end(hand.claim_one(), DeadLetter(error("no account 7"), "permanent"))
    page.goto("/tasks/a")
    page.get_by_text("Edit and submit anew").click()
    page.get_by_label("Payload of the new task").fill('{"account": ')
    page.complaints.expect("400")
    page.get_by_role("button", name="Submit the new task").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("was not submitted")
    expect(page.get_by_label("Payload of the new task")).to_have_value('{"account": ')
    page.get_by_label("Payload of the new task").fill('{"account": 8}')
    page.get_by_role("button", name="Submit the new task").click()
    expect(page.get_by_text("This is the new task with the edited payload.")).to_be_visible()
    expect(page.get_by_role("link", name="a", exact=True)).to_be_visible()
    new = next(task for task in store.inspect.tasks().items if task.id != "a")
    assert json.loads(new.payload) == {"account": 8}
    assert hand.status("a") == "dead_lettered"


def test_a_task_is_discarded_only_after_a_second_click(page, hand, store):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    page.goto("/tasks/a")
    page.get_by_text("Discard…").click()
    page.get_by_role("button", name="Discard for good").click()
    expect(page.get_by_text("The task was discarded.")).to_be_visible()
    assert store.inspect.find(["a"]) == [None]


def test_the_story_of_a_task_goes_on_while_one_reads_it(page, hand):
    claim = hand.start("a")
    page.goto("/tasks/a")
    live(page)
    expect(page.locator("h1 .badge")).to_have_text("running")
    hand.end(claim, Reschedule(error("try again later"), 60_000))
    expect(page.get_by_text("try again later")).to_be_visible()
    expect(page.locator("h1 .badge")).to_have_text("retrying")
    page.get_by_role("button", name="Run now").click()
    wait_until(lambda: hand.status("a") == "queued")


def test_the_search_line_is_offered_words_to_go_on_with(page, hand):
    hand.submit("a")
    page.goto("/tasks")
    offered = "all => all.map(each => each.value)"
    words = page.locator("#words option")
    assert {"status:dead_lettered", "queue:default", "type:mail", "since:1h"} <= set(words.evaluate_all(offered))
    search = page.get_by_role("combobox", name="Which tasks")
    search.press_sequentially("queue:default sta")
    assert "queue:default status:dead_lettered" in words.evaluate_all(offered)
    page.goto("/tasks?q=queue:default")
    assert "queue:default" not in words.evaluate_all(offered)
    page.goto("/dead-letters")
    assert not [each for each in words.evaluate_all(offered) if each.startswith("status:")]

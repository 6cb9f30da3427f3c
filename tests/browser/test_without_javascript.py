"""Everything works without a script, if less comfortably."""

import pytest
from playwright.sync_api import expect

from dtq_engine.model import DeadLetter
from tests.store.hand import error


@pytest.fixture
def page(make_page):
    """A browser without scripts."""
    return make_page(java_script_enabled=False)


def test_a_task_is_found_opened_and_requeued(page, hand):
    hand.end(hand.start("a"), DeadLetter(error("no account 7"), "permanent"))
    page.goto("/tasks")
    page.locator("[data-search]").fill("error:account")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="mail", exact=True).first.click()
    expect(page.get_by_text("no account 7")).to_be_visible()
    page.get_by_role("button", name="Requeue").click()
    expect(page.get_by_text("The task waits again.")).to_be_visible()
    assert hand.status("a") == "queued"


def test_ticked_tasks_are_cancelled_together(page, hand):
    hand.submit("a")
    hand.submit("b")
    page.goto("/tasks")
    page.get_by_label("Tick a", exact=True).check()
    page.get_by_label("Tick b", exact=True).check()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("2 tasks were cancelled.")).to_be_visible()


def test_a_page_says_of_when_it_is_and_offers_nothing_that_needs_a_script(page, hand):
    hand.submit("a")
    page.goto("/tasks/a")
    expect(page.locator("#live-state")).to_contain_text("As of ")
    expect(page.get_by_text("Copy")).to_have_count(2)
    for each in page.get_by_text("Copy").all():
        expect(each).to_be_hidden()

"""What a person does with queues, dead letters and periodic tasks."""

from playwright.sync_api import expect

from dtq_engine.model import DeadLetter
from tests.browser.test_tasks import live
from tests.store.hand import error


def test_a_queue_is_paused_with_a_reason_and_resumed(page, hand, store):
    hand.submit("a")
    page.goto("/queues")
    page.get_by_role("link", name="default", exact=True).click()
    page.get_by_label("Reason").first.fill("database upgrade")
    page.get_by_role("combobox").select_option("1 h")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".warning")).to_contain_text("Paused by anonymous")
    expect(page.locator(".warning")).to_contain_text("database upgrade")
    assert store.inspect.queue("default").paused
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("The queue goes on.")).to_be_visible()
    assert not store.inspect.queue("default").paused


def test_a_queue_is_purged_only_by_typing_its_name(page, hand):
    hand.submit("a")
    page.goto("/queues/default")
    live(page)
    page.get_by_text("Purge…").click()
    page.get_by_label("Type default to confirm").fill("default")
    hand.submit("b")
    expect(page.locator(".figure dd").first).to_have_text("2")
    expect(page.get_by_label("Type default to confirm")).to_have_value("default")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("2 waiting tasks were cancelled.")).to_be_visible()
    assert (hand.status("a"), hand.status("b")) == ("cancelled", "cancelled")


def test_all_dead_letters_of_a_search_are_requeued(page, hand):
    for name in ("a", "b"):
        hand.end(hand.start(name), DeadLetter(error(), "permanent"))
    page.goto("/dead-letters?q=type:mail")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_text("Do to all of these…").click()
    page.get_by_label("Do to all of these").get_by_label("Reason").fill("the bug is fixed")
    page.get_by_role("button", name="Requeue all").click()
    expect(page.get_by_text("2 tasks wait again.")).to_be_visible()
    expect(page.get_by_text("No task fits this search.")).to_be_visible()


def test_the_overview_shows_what_happens_as_it_happens(page, hand):
    page.goto("/")
    live(page)
    hand.submit("a")
    hand.end(hand.claim_one())
    expect(page.locator(".events li").first).to_contain_text("succeeded")
    expect(page.locator("#queue-default .verdict")).to_have_text("nobody serves it")


def test_a_periodic_task_is_paused_and_run_now(page, furnished):
    page.goto("/periodic")
    card = page.locator("article", has_text="reports.nightly")
    expect(card).to_contain_text("every day at 03:00")
    card.get_by_label("Reason").fill("the warehouse moves")
    card.get_by_role("button", name="Pause").click()
    expect(card).to_contain_text("Paused by anonymous")
    card.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("This task was made now, out of turn.")).to_be_visible()

"""All by keyboard."""

from playwright.sync_api import expect


def test_slash_goes_to_the_search_and_types_there_like_any_key(page, hand):
    hand.submit("a")
    page.goto("/tasks")
    page.keyboard.press("/")
    search = page.locator("[data-search]")
    expect(search).to_be_focused()
    page.keyboard.type("status:queued g/?")
    expect(search).to_have_value("status:queued g/?")


def test_rows_are_walked_ticked_and_opened(page, hand):
    for name in ("a", "b", "c"):
        hand.submit(name)
    page.goto("/tasks")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_label("Tick b", exact=True)).to_be_checked()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("#task-id")).to_have_text("c")


def test_g_and_a_letter_go_to_a_page(page, hand):
    hand.submit("a")
    page.goto("/tasks/a")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")


def test_a_question_mark_lists_the_keys_which_can_be_turned_off(page):
    page.goto("/tasks")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Next and previous row")
    dialog.get_by_label("Single keys do something").uncheck()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.reload()
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).not_to_be_focused()


def test_what_is_reached_by_tab_begins_with_the_way_past_the_navigation(page):
    page.goto("/tasks")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()

"""Every page without a pointer: all is reached by Tab, in reading order, in sight and with its focus seen."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from dtq_engine.model import DeadLetter
from tests.browser.test_tasks import live
from tests.store.hand import error

PAGES = [
    "/", "/tasks?q=queue:reports+status:pending", "/dead-letters?q=queue:mail", "/queues", "/queues/images", "/workers",
    "/periodic", "/activity", "/system",
]  # fmt: skip

# Kept apart from the page, whose attributes are put right again and again.
STOPS = """() => {
    const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']");
    const seen = (each) => each.type !== "hidden" && each.checkVisibility({ visibilityProperty: true });
    window.stops = [...all].filter((each) => !each.disabled && seen(each));
    return window.stops.length;
}"""

HERE = """() => {
    const here = document.activeElement, style = getComputedStyle(here), box = here.getBoundingClientRect();
    if (here === document.body) return null;
    // Above or below it may be more than fits; its beginning, or the text that it has, must be in sight.
    const at = here.getClientRects()[0] ?? box, x = at.left + Math.min(at.width, 40) / 2;
    const y = at.top + Math.min(at.height, 20) / 2, top = document.elementFromPoint(x, y);
    return {
        stop: window.stops.indexOf(here),
        what: here.outerHTML.slice(0, 160),
        ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        seen: Boolean(top && (here.contains(top) || top.contains(here) || here.labels?.[0]?.contains(top))),
    };
}"""


def walk(page, key="Tab"):
    """Press a key until the focus leaves the page: what had it, one after the other."""
    page.evaluate("document.activeElement.blur()")
    many = page.evaluate(STOPS)
    walked: list[dict[str, Any]] = []
    for _ in range(many + 5):
        page.keyboard.press(key)
        here = page.evaluate(HERE)
        if here is None or (walked and here["stop"] == walked[0]["stop"]):
            break
        walked.append(here)
    return many, walked


@pytest.fixture
def addresses(task_pages):
    """All pages, those of tasks too."""
    return [*PAGES, *task_pages]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [1280, 360])
def test_tab_reaches_all_of_every_page_in_order_and_in_sight(make_page, addresses, width):
    page = make_page(viewport={"width": width, "height": 760}, reduced_motion="reduce")
    wrong: dict[tuple[str, str], Any] = {}
    for address in addresses:
        page.goto(address)
        for each in page.locator("main details").all():
            each.evaluate("each => each.open = !each.matches('.pick, .confirm')")
        many, walked = walk(page)
        stops = [each["stop"] for each in walked]
        if stops != list(range(many)):
            wrong[address, "order"] = (many, stops)
        wrong[address, "no ring"] = [each["what"] for each in walked if not each["ring"]]
        wrong[address, "hidden"] = [each["what"] for each in walked if not each["seen"]]
    assert {place: each for place, each in wrong.items() if each} == {}


@pytest.mark.parametrize("width", [1280, 360])
def test_what_has_the_focus_is_not_behind_the_bar_of_actions(make_page, furnished, width):
    page = make_page(viewport={"width": width, "height": 500}, reduced_motion="reduce")
    page.goto("/tasks?q=type:reports.monthly+queue:reports")
    page.get_by_role("checkbox", name=re.compile("^Tick 0")).first.check()
    expect(page.locator(".bulk")).to_be_visible()
    _, walked = walk(page)
    assert [each["what"] for each in walked if not each["seen"]] == []


def test_a_task_is_ticked_on_a_phone_by_touching_its_box(make_page, hand):
    hand.submit("a")
    page = make_page(viewport={"width": 360, "height": 760}, has_touch=True)
    page.goto("/tasks")
    page.get_by_label("Tick a", exact=True).tap()
    expect(page.locator(".bulk")).to_be_visible()


def test_a_menu_is_opened_used_and_left_by_keyboard(page, hand, store):
    hand.end(hand.start("a"), DeadLetter(error(), "permanent"))
    page.goto("/tasks/a")
    live(page)
    menu = page.locator("summary", has_text="Discard…")
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Discard for good")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Discard for good")).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Discard for good")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("The task was discarded.")).to_be_visible()
    assert store.inspect.find(["a"]) == [None]


def test_the_list_of_keys_keeps_the_focus_and_gives_it_back(page):
    page.goto("/tasks")
    opener = page.get_by_role("button", name="Keyboard ?")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()


def test_tasks_are_found_ticked_and_cancelled_without_a_pointer(page, hand):
    for name in ("a", "b", "c"):
        hand.submit(name)
    page.goto("/tasks")
    live(page)
    page.keyboard.press("/")
    page.keyboard.type("status:queued")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=status"))
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("x")
    reason = page.locator(".bulk").get_by_label("Reason")
    for _ in range(40):
        if reason.evaluate("each => each === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.type("ordered twice")
    page.keyboard.press("Tab")
    expect(page.locator(".bulk").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 tasks were cancelled.")).to_be_visible()
    assert [hand.status(name) for name in ("a", "b", "c")] == ["queued", "cancelled", "cancelled"]


def test_a_queue_is_paused_and_resumed_without_a_pointer(page, hand, store):
    hand.submit("a")
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("default")
    page.get_by_label("Reason").first.focus()
    page.keyboard.type("database upgrade")
    page.keyboard.press("Enter")
    expect(page.locator(".warning")).to_contain_text("database upgrade")
    page.get_by_role("button", name="Resume").focus()
    page.keyboard.press("Space")
    expect(page.get_by_text("The queue goes on.")).to_be_visible()
    assert not store.inspect.queue("default").paused

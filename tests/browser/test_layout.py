"""Pages fit where they are shown: a laptop, a phone, and whatever a task has in it."""

import json

import pytest
from playwright.sync_api import expect

from dtq_engine.model import Block, DeadLetter
from tests.store.hand import error

PHONE = {"viewport": {"width": 360, "height": 760}}
LAPTOP = {"viewport": {"width": 1280, "height": 800}}

STICKS_OUT = """(selector) => [...document.querySelectorAll(selector)].flatMap((box) => {
    const edge = box.getBoundingClientRect();
    return [...box.querySelectorAll("*")]
        .map((each) => [each.tagName, each.getBoundingClientRect()])
        .filter(([, each]) => each.width && (each.right > edge.right + 1 || each.left < edge.left - 1))
        .map(([tag, each]) => `${tag} ${each.left}-${each.right} of ${edge.left}-${edge.right}`);
})"""


@pytest.mark.parametrize("look", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_what_is_asked_before_a_purge_fits_into_its_frame_and_the_page(make_page, hand, look):
    hand.submit("a")
    page = make_page(**look)
    page.goto("/queues/default")
    page.get_by_text("Purge…").click()
    expect(page.locator(".popover")).to_be_visible()
    assert page.evaluate(STICKS_OUT, ".popover") == []
    assert page.evaluate(STICKS_OUT, "body") == []


@pytest.mark.parametrize("path", ["/", "/queues", "/activity", "/system", "/tasks", "/dead-letters", "/periodic"])
def test_a_phone_shows_all_of_a_page_and_where_it_is(make_page, furnished, path):
    page = make_page(**PHONE)
    page.goto(path)
    expect(page.locator(".side a[aria-current]")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    tables = page.locator("main .scroll:visible > table")
    widths = tables.evaluate_all(
        "all => all.map(each => each.parentElement.scrollWidth - each.parentElement.clientWidth)"
    )
    assert [width for width in widths if width > 0] == []
    for field in page.locator("[data-search]").all():
        assert field.bounding_box()["width"] > 200


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("path", ["/", "/queues", "/system"])
def test_no_table_is_cut_where_there_is_room(make_page, furnished, path, width):
    page = make_page(viewport={"width": width, "height": 800})
    page.goto(path)
    tables = page.locator("main .scroll:visible > table")
    widths = tables.evaluate_all(
        "all => all.map(each => each.parentElement.scrollWidth - each.parentElement.clientWidth)"
    )
    assert [wide for wide in widths if wide > 0] == []


def test_names_of_settings_stay_in_one_piece_and_charts_line_up(make_page, furnished):
    page = make_page(**LAPTOP)
    page.goto("/system")
    heights = page.locator(".settings code").evaluate_all("all => all.map(each => each.getClientRects().length)")
    assert set(heights) == {1}
    page.goto("/")
    tops = page.locator(".chart .axis").evaluate_all("all => all.map(each => each.getBoundingClientRect().top)")
    assert len(tops) == 3
    assert len(set(tops)) == 1


def test_a_task_with_thousands_of_lines_or_a_long_name_has_a_page_of_common_height(make_page, hand):
    hand.submit("a", payload=json.dumps({"text": "x\n" * 2000, "k" * 2000: 1}).encode())
    page = make_page(**LAPTOP)
    page.goto("/tasks/a")
    assert page.evaluate("document.documentElement.scrollHeight") < 2500
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_only_what_can_be_done_to_the_ticked_tasks_is_offered(make_page, hand, store):
    hand.end(hand.start("dead"), DeadLetter(error(), "permanent"))
    hand.end(hand.start("stuck"), Block("unknown_task_type:mail"))
    page = make_page(**LAPTOP)
    page.goto("/tasks")
    expect(page.locator('[id="row-default/stuck"] .error')).to_have_text("No living worker knows the type mail")
    offered = page.locator(".bulk > button:visible, .bulk > details:visible > summary")
    page.get_by_label("Tick stuck", exact=True).check()
    expect(offered).to_have_text(["Cancel", "Run now"])
    page.get_by_label("Tick dead", exact=True).check()
    expect(offered).to_have_text(["Cancel", "Run now", "Requeue", "Discard…"])
    page.get_by_label("Tick stuck", exact=True).uncheck()
    expect(offered).to_have_text(["Requeue", "Discard…"])
    store.control.cancel("stuck")

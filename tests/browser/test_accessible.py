"""Pages that everybody can use: judged by axe in both themes, at the width of a phone and of a wall."""

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import barriers, unfold

PAGES = ["/", "/tasks", "/tasks?q=nothing:x", "/dead-letters", "/queues", "/queues/images", "/workers", "/activity"]
PAGES += ["/system", "/periodic"]


@pytest.fixture
def addresses(task_pages):
    """All pages, those of a dead and of a running task too."""
    return [*PAGES, *task_pages]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(make_page, addresses, theme):
    page = make_page(color_scheme=theme, reduced_motion="reduce")
    found = {}
    for address in addresses:
        page.goto(address)
        unfold(page)
        found[address] = barriers(page)
    assert {address: each for address, each in found.items() if each} == {}


def test_no_page_is_wider_than_its_window(make_page, addresses):
    page = make_page()
    wide = {}
    for address in addresses:
        page.goto(address)
        for width in (360, 768, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 800})
            wide[address, width] = page.evaluate("document.documentElement.scrollWidth") - width
    assert {place: by for place, by in wide.items() if by > 0} == {}


def test_the_sign_in_page_and_a_problem_are_no_barrier_either(make_page):
    page = make_page()
    page.complaints.expect("404")
    for address in ("/login", "/tasks/nope"):
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert barriers(page) == []

"""Pages while Redis is away: they say so, and find back by themselves."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from dtq_engine import Settings
from dtq_engine.embedded import EmbeddedValkey
from tests.browser.test_tasks import live


@pytest.fixture
def own_server(make_server: Callable[..., EmbeddedValkey]) -> EmbeddedValkey:
    """A server that this test may stop."""
    return make_server()


@pytest.fixture
def web_settings(settings: Settings, own_server: EmbeddedValkey) -> Settings:
    """Everybody may do everything, on that server."""
    return replace(settings, redis_url=own_server.url, open=True)


def test_a_page_says_that_redis_does_not_answer_and_one_opened_meanwhile_tries_again(make_page, own_server):
    page, late = make_page(), make_page()
    for each in (page, late):
        each.complaints.expect("503")
    page.goto("/queues")
    live(page)
    own_server.stop()
    expect(page.locator("#live-state")).to_contain_text("Redis does not answer")
    expect(page.locator("#live-said")).to_have_text("Redis does not answer")
    late.goto("/queues")
    expect(late.get_by_text("This page tries again every 5 s.")).to_be_visible()
    own_server.start()
    live(page)
    expect(late.locator("#live-state")).to_have_attribute("data-state", "live", timeout=20_000)


def test_a_form_that_met_an_outage_is_not_sent_again_by_itself(page, own_server):
    page.complaints.expect("503")
    page.goto("/tasks")
    own_server.stop()
    page.evaluate(
        """() => {
            const form = Object.assign(document.createElement("form"), { method: "post", action: "/tasks/act" });
            document.body.append(form);
            form.append(Object.assign(document.createElement("input"), { name: "verb", value: "cancel" }));
            form.append(Object.assign(document.createElement("input"), { name: "task", value: "default/a" }));
            form.submit();
        }"""
    )
    expect(page.locator(".code")).to_contain_text("503")
    expect(page.locator("meta[http-equiv]")).to_have_count(0)
    own_server.start()

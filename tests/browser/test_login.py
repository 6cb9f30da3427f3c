"""Signing in and out, and what each role sees."""

from dataclasses import replace

import pytest
from argon2 import PasswordHasher
from playwright.sync_api import expect

HASHER = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


@pytest.fixture
def web_settings(settings):
    """A viewer and an operator with passwords."""
    people = tuple(f"{name}:{name}:{HASHER.hash('correct horse')}" for name in ("viewer", "operator"))
    return replace(settings, users=people, secret_key="s" * 32)


def sign_in(page, name, password="correct horse"):
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_whoever_is_not_known_signs_in_and_comes_to_the_page_they_wanted(page, hand):
    hand.submit("a")
    page.goto("/tasks?q=status:queued")
    page.complaints.expect("401")
    sign_in(page, "operator", "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("operator")
    sign_in(page, "operator")
    expect(page.locator("[data-search]")).to_have_value("status:queued")
    page.get_by_role("link", name="mail", exact=True).first.click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The task was cancelled.")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading")).to_have_text("Sign in")


def test_a_viewer_reads_and_can_do_nothing(page, hand):
    hand.submit("a", payload=b'{"secret":"x1"}')
    page.goto("/tasks")
    page.complaints.expect("403")
    sign_in(page, "viewer")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("checkbox", name="Tick a")).to_have_count(0)
    page.get_by_role("link", name="mail", exact=True).first.click()
    expect(page.get_by_text("Your role does not see payloads")).to_be_visible()
    assert "x1" not in page.content()
    for verb in ("Cancel", "Requeue", "Run now", "Set"):
        expect(page.get_by_role("button", name=verb)).to_have_count(0)
    ask = "fetch('/tasks/act', {method: 'POST', body: new URLSearchParams({verb: 'cancel'})}).then(r => r.status)"
    status = page.evaluate(ask)
    assert status == 403

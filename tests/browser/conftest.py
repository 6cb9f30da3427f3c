"""A browser, a web process, and pages in which nothing may go wrong unseen."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from dtq_engine import Settings
from dtq_engine.store import Store
from tests.browser.chromium import PATIENCE_MS, Complaints, browser
from tests.browser.scenery import Scenery
from tests.store.hand import Hand
from tests.support.clock import Clock
from tests.web.web_process import WebProcess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starting a browser and a web process takes longer than most tests."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The one browser."""
    with browser() as found:
        yield found


@pytest.fixture
def web_settings(settings: Settings) -> Settings:
    """Everybody may do everything."""
    return replace(settings, open=True)


@pytest.fixture
def process(tmp_path: Path, web_settings: Settings) -> Iterator[WebProcess]:
    """The web process."""
    with WebProcess(tmp_path, web_settings) as process:
        yield process


@pytest.fixture
def origin(process: WebProcess) -> str:
    """Where its pages are."""
    return f"http://localhost:{process.port}"


@pytest.fixture
def hand(store: Store) -> Hand:
    """A worker that moves only when told to."""
    return Hand(store)


@pytest.fixture
def furnished(store: Store, clock: Clock) -> Scenery:
    """A deployment with something in it."""
    scenery = Scenery(store, clock)
    scenery.furnish(rounds=2)
    return scenery


@pytest.fixture
def task_pages(furnished: Scenery) -> list[str]:
    """The addresses of a dead and of a running task."""
    store = furnished.store
    letter = store.inspect.dead_letters(queue="mail", limit=1).items[0]
    running = next(task for task in store.inspect.tasks(queue="reports").items if task.status == "running")
    return [f"/tasks/{letter.task_id}", f"/tasks/{running.id}"]


@pytest.fixture
def make_page(chromium: Browser, origin: str) -> Iterator[Callable[..., Page]]:
    """Open browsers: `make_page(java_script_enabled=False)`; what their pages complain about fails the test."""
    opened: list[tuple[Any, Complaints]] = []

    def make(**options: Any) -> Page:
        context = chromium.new_context(base_url=origin, **options)
        context.set_default_timeout(PATIENCE_MS)
        complaints = Complaints(context, origin)
        opened.append((context, complaints))
        page = context.new_page()
        page.complaints = complaints  # type: ignore[attr-defined]
        return page

    yield make
    for context, _ in opened:
        context.close()
    assert [each for _, complaints in opened for each in complaints.unexpected()] == []


@pytest.fixture
def page(make_page: Callable[..., Page]) -> Page:
    """A page of somebody's browser."""
    return make_page()

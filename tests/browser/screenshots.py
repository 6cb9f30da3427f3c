"""Takes pictures of all pages for the documentation: python -m tests.browser.screenshots"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from playwright.sync_api import Browser

from dtq_engine import Settings
from dtq_engine.connection import connect
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.store import Store
from tests.browser.chromium import browser
from tests.browser.scenery import Scenery
from tests.support.clock import Clock
from tests.web.web_process import WebProcess

TARGET = Path(__file__).parents[2] / "docs" / "screenshots"
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 760}},
}


@contextmanager
def deployment() -> Iterator[tuple[WebProcess, Scenery]]:
    """A furnished deployment and its web process."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedValkey(Path(folder) / "valkey") as server:
        settings = Settings(redis_url=server.url, open=True)
        store = Store(connect(settings), settings)
        with redis.Redis.from_url(server.url, protocol=2) as client:
            scenery = Scenery(store, Clock(client, settings))
            scenery.furnish()
        with WebProcess(Path(folder), settings) as web:
            yield web, scenery
            web.terminate()
        store.close()


def pages(store: Store) -> dict[str, str]:
    """The address of each page, by the name of its picture."""
    letter = store.inspect.dead_letters(queue="mail", limit=1).items[0]
    running = next(task for task in store.inspect.tasks(queue="reports").items if task.status == "running")
    return {
        "overview": "/",
        "queues": "/queues",
        "queue": "/queues/images",
        "workers": "/workers",
        "dead-letters": "/dead-letters",
        "periodic": "/periodic",
        "activity": "/activity",
        "system": "/system",
        "tasks": "/tasks",
        "tasks-search": "/tasks?q=status:dead_lettered+type:email.*+error:%22timed+out%22+since:7d",
        "task-dead": f"/tasks/{letter.task_id}?queue=mail",
        "task-running": f"/tasks/{running.id}?queue=reports",
    }


def take(browser: Browser, origin: str, name: str, path: str) -> None:
    """One page in every look."""
    for look, options in LOOKS.items():
        context = browser.new_context(**options, reduced_motion="reduce")  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(origin + path)
        if page.locator("#live-state").count():
            page.wait_for_selector('[data-state="live"]')
        page.screenshot(path=TARGET / f"{name}-{look}.png")
        context.close()


def main(only: list[str]) -> None:
    """All pictures, or those whose names are given."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with deployment() as (web, scenery), browser() as chromium:
        for name, path in pages(scenery.store).items():
            if not only or name in only:
                scenery.beat()
                take(chromium, f"http://localhost:{web.port}", name, path)


if __name__ == "__main__":
    main(sys.argv[1:])

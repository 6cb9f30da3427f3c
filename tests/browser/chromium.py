"""A browser under test: whatever a page complains about fails the test."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

EXECUTABLE = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
PATIENCE_MS = 15_000


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, as Debian has it."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(ARGUMENTS))
        yield found
        found.close()


class Complaints:
    """What pages of a context complained about: errors on the console, scripts that failed, requests to strangers."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.found: list[str] = []
        self._origin = origin
        self._expected: list[str] = []
        context.on("console", self._console)
        context.on("weberror", lambda error: self.found.append(f"a script failed: {error.error}"))
        context.on("request", self._request)

    def expect(self, part: str) -> None:
        """Do not mind complaints with this text in them."""
        self._expected.append(part)

    def unexpected(self) -> Sequence[str]:
        """Those that nobody expected."""
        return [each for each in self.found if not any(part in each for part in self._expected)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.found.append(f"the console says: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._origin, self._origin.replace("http", "ws"), "data:")):
            self.found.append(f"a request went to {request.url}")


def unfold(page: Page) -> None:
    """Open all that is folded on a page, but for what asks before it acts."""
    for each in page.locator("details:not(.confirm, .pick)").all():
        each.evaluate("each => each.open = true")


def barriers(page: Page) -> Sequence[str]:
    """What axe finds on a page that keeps people out."""
    found: Any = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:4]]}"
        for each in found
        if each["impact"] in {"serious", "critical", "moderate"}
    ]

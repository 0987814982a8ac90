"""A real browser for tests of the page, and what it reports: errors, refused content, requests to other origins."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.patience import PATIENCE

# As root there is no sandbox of its own; a browser that looks for updates needs a network.
ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@contextmanager
def started() -> Iterator[Browser]:
    """Start Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(ARGUMENTS), timeout=PATIENCE * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Watched:
    """A page, and what went wrong in it."""

    page: Page
    origin: str
    wrong: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether nothing is wider than the window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def open_page(context: BrowserContext, origin: str) -> Watched:
    """Return a new page that notes errors, violations of the content policy and requests to other origins."""
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    watched = Watched(page, origin)
    page.on("console", lambda message: watched.wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: watched.wrong.append(str(error)))
    page.on("request", lambda request: _check(watched, request))
    page.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error('refused', e.violatedDirective, e.blockedURI))"
    )
    return watched


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true. Playwright's own way needs `eval`, which the page's policy refuses."""
    wait_for(page, lambda: page.evaluate(expression), expression)


def wait_for(page: Page, condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, while the page goes on and what was asked to listen to it is called."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(50)


def _check(watched: Watched, request: Any) -> None:
    url = str(request.url)
    if not url.startswith((watched.origin, "data:", "blob:")):
        watched.wrong.append(f"request to {url}")

"""One browser, one server of made-up views and one page of them for all tests of this folder.

Not for the session: while Playwright runs, its thread has an event loop, so that no other test could start one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.local.commands import Terminal, open_terminal
from tests.page.browser import Watched, open_page, started
from tests.page.sample_server import Served, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found


@pytest.fixture(scope="package")
def sample_server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(scope="package")
def sample_page(browser: Browser, sample_server: Served) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1600, "height": 1000}, reduced_motion="reduce")
    yield open_page(context, sample_server.address)
    context.close()


@pytest.fixture
def watched(sample_page: Watched) -> Iterator[Watched]:
    """Return the page of the made-up views, as a new one; the test fails if anything went wrong in it."""
    page = sample_page.page
    sample_page.wrong.clear()
    page.set_viewport_size({"width": 1600, "height": 1000})
    yield sample_page
    page.goto(f"{sample_page.origin}/static/icon.svg")  # of the same origin, with no script that would store anything
    page.evaluate("localStorage.clear()")
    assert sample_page.wrong == []


@pytest.fixture(scope="package")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with open_terminal(tmp_path_factory.mktemp("runs")) as found:
        yield found

"""One browser for the tests of a file, and the made-up views behind a server.

Not for the session: while Playwright runs, its thread has an event loop, so that no test could start another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.local.commands import Terminal, open_terminal
from tests.page.browser import Watched, open_page, started
from tests.page.sample_server import Served, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def sample_server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture
def watched(browser: Browser, sample_server: Served) -> Iterator[Watched]:
    """Return a page of the made-up views; the test fails if anything went wrong in it."""
    context = browser.new_context(viewport={"width": 1600, "height": 1000}, reduced_motion="reduce")
    found = open_page(context, sample_server.address)
    yield found
    context.close()
    assert found.wrong == []


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with open_terminal(tmp_path) as found:
        yield found

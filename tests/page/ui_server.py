"""`pumice ui` in a process of its own, and a page of it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.fork_server import Forked, fork_server
from tests.local.commands import Terminal
from tests.local.running import MODULES
from tests.page.browser import Watched, open_page
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def ui_page(terminal: Terminal, browser: Browser, width: int = 1280) -> Iterator[Watched]:
    """Open a page by the address that `pumice ui` prints; at the end, nothing may have gone wrong in it."""
    directory = terminal.workspace.directory
    out = directory / "ui.out"
    descriptor = os.open(out, os.O_CREAT | os.O_WRONLY, 0o600)
    process: Forked = fork_server(*MODULES).start(
        ["ui", "--no-open"], cwd=directory, env=terminal.workspace.env, out=descriptor
    )
    os.close(descriptor)
    terminal.until(lambda: "token=" in out.read_text() or process.poll() is not None)
    found = re.search(r"http://\S+", out.read_text())
    assert found, out.read_text()
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    watched = open_page(context, found[0].partition("/open")[0])
    watched.page.goto(found[0])
    yield watched
    context.close()
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    assert watched.wrong == []

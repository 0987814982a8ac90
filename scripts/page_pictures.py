"""Takes pictures of every view of the page, of a dialog, of a server that is away: light and dark, 390 and 1600 wide.

`python -m scripts.page_pictures DIRECTORY [VIEW ...]`; with `--docs` it renews `docs/images/page.png`. The values are
made up (`tests/page/samples.py`), so that a picture changes only with the page.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.browser import ARGUMENTS, until
from tests.page.sample_server import VIEWS, Served, served
from tests.page.samples import NOW

ROOT: Final = Path(__file__).parents[1]
WIDTHS: Final = (390, 1600)
THEMES: Final = ("light", "dark")
HEIGHT: Final = 1000
DOCS: Final = ROOT / "docs" / "images" / "page.png"
DIALOG, AWAY = "dialog", "away"
ALL: Final = (*VIEWS, DIALOG, AWAY)


def take(browser: Browser, server: Served, views: list[str], directory: Path) -> None:
    """Take a picture of each view, in both themes and at both widths."""
    for theme in THEMES:
        for width in WIDTHS:
            context = browser.new_context(
                viewport={"width": width, "height": HEIGHT}, color_scheme=theme, reduced_motion="reduce"
            )
            page = context.new_page()
            page.clock.set_fixed_time(NOW)
            for view in views:
                path = directory / f"{view}-{width}-{theme}.png"
                show(page, server.address + VIEWS.get(view, VIEWS["job-running"]))
                if view == DIALOG:
                    page.get_by_role("button", name="Stop").click()
                    page.locator("#dialog h2").wait_for()
                if view == AWAY:
                    server.away.set()
                    page.locator(".banner").wait_for()
                page.screenshot(path=path, full_page=view != DIALOG)
                server.away.clear()
                print(path)
            context.close()


def show(page: Page, url: str) -> None:
    """Open a page, and wait until its script has drawn."""
    page.goto(url)
    if page.locator("#live").count() and page.locator("body[data-view=jobs], body[data-view=job]").count():
        page.locator("#live:not(.off)").wait_for()
    if page.locator("#cells").count():
        until(page, "document.querySelector('#cells').height > 100")


def take_for_docs(browser: Browser, address: str) -> None:
    """Take the picture that README and the guide show."""
    page = browser.new_page(viewport={"width": 1280, "height": 724}, color_scheme="light", reduced_motion="reduce")
    page.clock.set_fixed_time(NOW)
    show(page, address + VIEWS["job-failed"])
    page.screenshot(path=DOCS)
    print(DOCS)


def main() -> None:
    """Take the pictures that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="where the pictures go")
    parser.add_argument("views", nargs="*", help=f"some of: {', '.join(ALL)}")
    parser.add_argument("--docs", action="store_true", help=f"renew {DOCS.relative_to(ROOT)}")
    chosen = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        sys.exit("chromium is not installed: apt-get install chromium")
    with served() as server, sync_playwright() as playwright:
        address = server.address
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        if chosen.docs:
            take_for_docs(browser, address)
        if chosen.directory:
            chosen.directory.mkdir(parents=True, exist_ok=True)
            take(browser, server, chosen.views or list(ALL), chosen.directory)
        browser.close()


if __name__ == "__main__":
    main()

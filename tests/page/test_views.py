"""Every view of the page in a real browser: accessible, readable, and no wider than the window."""

from __future__ import annotations

import random

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # it has no types
from playwright.sync_api import Browser

from tests.conftest import SOAK, seed
from tests.page.browser import Watched, until
from tests.page.sample_server import VIEWS, Served

pytestmark = pytest.mark.needs("chromium")
SEVERE = ("serious", "critical")
# Each view costs about two seconds of processor time, so `make test` draws some; `make soak` has all.
SOME = list(VIEWS) if SOAK else sorted(random.Random(seed()).sample(list(VIEWS), 3))
WIDTHS = (360, 390, 720, 1000, 1280, 1600)
# The colours of all text over its ground, by the rule of WCAG; elements that are off, hidden or empty are left out.
DRAWN = "document.querySelector('#live')?.classList.contains('off') === false"


def findings(watched: Watched) -> list[str]:
    """Return what axe finds, if it is serious: contrast below 4.5 is."""
    found = Axe().run(watched.page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary', '')}"
        for each in found
        if each["impact"] in SEVERE
        for node in each["nodes"][:5]
    ]


def show(watched: Watched, view: str) -> None:
    watched.page.goto(watched.origin + VIEWS[view])
    if view not in {"action", "error"}:
        until(watched.page, DRAWN)


@pytest.mark.parametrize("view", SOME)
def test_view_is_accessible_and_fits_every_width(watched: Watched, view: str) -> None:
    show(watched, view)
    wide = []
    for width in WIDTHS:
        watched.page.set_viewport_size({"width": width, "height": 900})
        if not watched.fits:
            wide.append(width)
    assert wide == []
    themes = ("light", "dark") if SOAK else ("dark" if len(view) % 2 else "light",)
    for theme in themes:
        watched.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        assert findings(watched) == []


def test_checkers_find_what_is_wrong(watched: Watched) -> None:
    """The other tests would fail for a grey text, a picture without a name, and a wide table."""
    show(watched, "error")
    watched.page.evaluate(
        """() => { const box = document.querySelector('main');
                   const grey = document.createElement('p'); grey.textContent = 'pale'; grey.style.color = '#bbb';
                   const button = document.createElement('button'); const wide = document.createElement('div');
                   wide.style.width = '3000px'; wide.textContent = 'wide'; box.append(grey, button, wide); }"""
    )
    found = findings(watched)
    assert {each.partition(":")[0] for each in found} >= {"color-contrast", "button-name"}
    assert not watched.fits


@pytest.mark.soak
@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_at_every_width_in_both_themes(watched: Watched, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 900})
    for theme in ("light", "dark"):
        for view in VIEWS:
            show(watched, view)
            watched.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            assert (view, theme, findings(watched)) == (view, theme, [])


def test_pages_are_complete_without_a_script(browser: Browser, sample_server: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{sample_server.address}/jobs/u-fail")
    assert page.locator("h1").inner_text().startswith("bert-pretrain:2")
    assert "worker-3 failed first" in page.locator(".verdict").inner_text()
    assert page.locator(".tl-row .br").count() > 8
    assert "torch.OutOfMemoryError" in page.locator(".ln.first").inner_text()
    page.get_by_role("link", name="Policies").click()
    assert "fired 3 times" in page.locator("#policies").inner_text()
    page.goto(f"{sample_server.address}/jobs/u-many")
    assert page.locator("#cells-table tr.row").count() == 64
    page.goto(f"{sample_server.address}/jobs/u-run")
    page.get_by_role("button", name="Stop").click()
    assert "Final: it cannot be resumed." in page.locator("main form").inner_text()
    assert page.get_by_role("button", name="Stop 6 pods").is_visible()
    context.close()


def test_the_box_of_a_run_that_hangs_says_who_does_what(watched: Watched) -> None:
    show(watched, "job-hanging")
    box, page = watched.page.locator(".verdict"), watched.page
    title = box.locator("h2").inner_text()
    assert title.startswith("no output for ")
    assert title.endswith(", 6 of 6 running")
    rows = list(zip(box.locator("dt").all_inner_texts(), box.locator("dd").all_inner_texts(), strict=True))
    assert [name for name, _ in rows] == ["doing", "doing", "", "hint"]
    assert rows[0][1].startswith("master-0: python3 sleeping in all_reduce ")
    assert rows[1][1].startswith("worker-0, worker-1: python3 sleeping in futex_do_wait; ")
    assert rows[2][1] == "and 3 more pods"
    assert "py-spy" in rows[3][1]
    assert "master-0:6006 published on 127.0.0.1:45519" in page.locator(".meta").inner_text().replace("\n", "")

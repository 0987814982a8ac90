"""A real run watched in a real browser: pending, failed, restarted, completed, without a reload."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.local.commands import WAITING, Terminal
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.page.browser import Watched, until
from tests.page.ui_server import ui_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.needs("chromium")
# worker-1 fails when the test says so, once; then every pod waits for another word, and ends.
SCRIPT = """
echo begin
while [ ! -e fail ]; do sleep 0.2; done
case $HOSTNAME in *worker-1) [ -e failed ] || { : > failed; echo 'ValueError: loss <is> nan' >&2; exit 3; };; esac
while [ ! -e end ]; do sleep 0.2; done
echo finished
"""


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture(scope="module")
def page(terminal: Terminal, browser: Browser) -> Iterator[Watched]:
    """Return a page of `pumice ui`; each test has runs of its own."""
    with ui_page(terminal, browser) as watched:
        yield watched


def stop_without_a_script(page: Watched, run: str) -> None:
    """Stop a run by the page that asks, in a browser that runs no script but has the same cookie."""
    browser = page.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(
        [{"name": each["name"], "value": each["value"], "url": page.origin} for each in page.page.context.cookies()]
    )
    plain = context.new_page()
    plain.goto(page.origin)
    plain.locator("tr.job .jn", has_text=run).click()
    plain.get_by_role("button", name="Stop").click()
    assert "SIGTERM" in plain.locator("main form").inner_text()
    plain.locator("main form button").click()
    assert plain.locator("h1 .name").inner_text() == run
    context.close()


def test_run_is_watched_from_pending_to_completed(terminal: Terminal, page: Watched) -> None:
    shown, directory = page.page, terminal.workspace.directory
    shown.goto(page.origin)
    everything = {"resources": {"requests": {"cpu": str(os.cpu_count())}}}
    first = terminal.submit(job(task("holder", WAITING, container=everything)))
    until(shown, "document.querySelector('tr.job .ph')?.textContent === 'Running'")

    half = {"resources": {"requests": {"cpu": "0.5"}}}
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    second = terminal.submit(
        job(task("worker", SCRIPT, 2, container=half), minAvailable=2, maxRetry=3, policies=policies)
    )
    shown.locator("tr.job .jn", has_text=second).click()
    shown.locator(".three").wait_for()
    assert shown.locator("h1 .ph").inner_text() == "Waiting"
    assert first in shown.locator(".three").inner_text()
    stop_without_a_script(page, first)
    shown.locator(".crumb a").click()
    shown.locator("tr.job .jn", has_text=first).click()
    shown.locator("#live:not(.off)").wait_for()
    until(shown, "document.querySelector('h1 .ph').textContent === 'Stopped'")
    shown.get_by_role("button", name="Delete").focus()
    shown.keyboard.press("Enter")
    shown.locator("#dialog").get_by_role("button", name="Delete").click()
    shown.wait_for_url(f"{page.origin}/")
    shown.locator("tr.job .jn", has_text=second).click()
    shown.locator("#tabs").wait_for()
    shown.evaluate("window.same = true")
    until(shown, "document.querySelector('h1 .ph').textContent === 'Running'")
    until(shown, "document.querySelectorAll('#lines .ln:not(.sys)').length === 2")
    (directory / "fail").touch()
    until(shown, "document.querySelector('#attempts')?.textContent.includes('worker-1')")
    until(shown, "document.querySelector('h1 .ph').textContent === 'Running'")
    assert shown.locator(".tabs .seg a").all_inner_texts() == ["1", "2", "all"]
    until(shown, "document.querySelector('#logs').dataset.attempt === '2'")
    until(shown, "document.querySelectorAll('#lines .ln:not(.sys)').length === 2")
    (directory / "end").touch()
    until(shown, "document.querySelector('h1 .ph').textContent === 'Succeeded'")
    until(shown, "document.querySelector('#pods').textContent.includes('2 succeeded')")
    assert shown.evaluate("window.same") is True

    shown.keyboard.press("[")
    until(shown, "document.querySelector('.ln.first .msg')?.textContent === 'ValueError: loss <is> nan'")
    shown.keyboard.press("]")
    until(shown, "document.querySelector('#logs').dataset.attempt === '2'")
    assert page.fits


def test_fast_log_is_shown_in_part(terminal: Terminal, page: Watched) -> None:
    shown = page.page
    run = terminal.submit(job(task("worker", "while [ ! -e enough ]; do seq 2000; sleep 0.2; done")))
    shown.goto(page.origin)
    shown.locator("tr.job .jn", has_text=run).click()
    said = re.compile(r"About [\d,]+ lines a second: shown is 1 in \d+, and every line with an error")
    shown.locator("#share", has_text=said).wait_for()
    shown.locator("[data-choice=pod]").select_option("worker-0")
    until(shown, "document.querySelector('#share').hidden")
    (terminal.workspace.directory / "enough").touch()
    until(shown, "document.querySelector('h1 .ph').textContent === 'Succeeded'")
    until(shown, "document.querySelector('#lines .rows').lastElementChild.textContent.endsWith('2000')")


def test_hostile_job_is_text_in_every_tab(terminal: Terminal, page: Watched) -> None:
    shown = page.page
    mark = "</pre><script>window.hacked = 1</script><img src=x onerror=window.hacked=2>\u202etxt.exe"
    (terminal.workspace.directory / "mark.txt").write_text(f"{mark} \x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\n")
    worker = task(
        "worker", "cat mark.txt; cat mark.txt >&2; exit 3", container={"env": [{"name": "MARK", "value": mark}]}
    )
    manifest = job(worker)
    manifest["metadata"]["annotations"] = {"mark": mark}
    run = terminal.submit(manifest, flags=("--note", mark))
    terminal("wait", run, code=100)
    shown.goto(page.origin)
    shown.locator("tr.job .jn", has_text=run).click()
    message = shown.locator("#lines .ln:not(.sys) .msg").first
    message.wait_for()
    assert message.inner_text().startswith(mark.partition("\u202e")[0])
    assert message.locator(".ctl").all_inner_texts() == ["U+202E", "ESC", "BEL"]
    assert message.locator(".a-c1").inner_text() == "red"
    for tab, where in (("rendered", ".prov"), ("events", "#events"), ("policies", "#file")):
        shown.locator(f"#tab-{tab}").click()
        shown.locator(where).wait_for()
        until(shown, f"document.querySelector('{where}').textContent.length > 100")
    assert "window.hacked = 1" in shown.locator("#file").inner_text()
    assert shown.evaluate("[window.hacked, document.querySelectorAll('main script, main img').length]") == [None, 0]

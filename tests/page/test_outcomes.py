"""Runs that failed, succeeded or were stopped, in a real browser: filters, words and colours. Of the recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.golden.store_archive import STORES, members
from tests.local.commands import Terminal, open_terminal
from tests.page.browser import Watched
from tests.page.ui_server import ui_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.needs("chromium")
# Under TerminateJob, but for the last.
CRASHED = {"exception:1", "segfault:1", "exit-3:1", "oom:1", "no-policy:1"}
FAILED = CRASHED | {"timeout:1"}
STOPPED = {"stopped:1", "interrupted:1"}
STORIES = {run.partition(":")[0] for run in FAILED | STOPPED} | {"done"}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("outcomes")
    state = Terminal(directory).workspace.state
    for story in STORIES:
        for name, content in members(STORES / f"{story}.tar.gz"):
            if name.startswith("runs/"):
                (state / name).parent.mkdir(parents=True, exist_ok=True)
                (state / name).write_bytes(content)
    with open_terminal(directory) as opened, ui_page(opened, browser) as watched:
        yield watched


def filtered(watched: Watched, name: str) -> Page:
    shown = watched.page
    shown.goto(watched.origin)
    shown.locator("#filters a", has_text=name).click()
    shown.locator("#filters a[aria-current]", has_text=name).wait_for()
    return shown


@pytest.mark.parametrize(
    ("name", "word", "runs"),
    [("Failed", "Failed", FAILED), ("Stopped", "Stopped", STOPPED), ("Succeeded", "Succeeded", {"done:1", "done:2"})],
)
def test_a_filter_lists_all_runs_of_an_outcome(page: Watched, name: str, word: str, runs: set[str]) -> None:
    shown = filtered(page, name)
    assert set(shown.locator("tr.job .jn").all_inner_texts()) == runs
    assert set(shown.locator("tr.job .ph").all_inner_texts()) == {word}
    assert shown.locator("#filters a[aria-current] .n").inner_text() == str(len(runs))
    assert shown.locator("tr.grp th span").inner_text() == str(len(runs))


def test_each_outcome_has_its_colour(page: Watched) -> None:
    """What a person stopped is grey: neither red, as a failure, nor green, as a success."""
    names = {"Failed": "--fail", "Stopped": "--stop", "Succeeded": "--ok"}
    colour = "(each, name) => { each.style.color = `var(${name})`; return getComputedStyle(each).color; }"
    for name, variable in names.items():
        shown = filtered(page, name)
        wanted = shown.locator("h1").evaluate(colour, variable)
        found = shown.locator("tr.job .ph").evaluate_all("all => all.map(each => getComputedStyle(each).color)")
        assert set(found) == {wanted}
        assert shown.locator("tr.job.bad").count() == (len(FAILED) if name == "Failed" else 0)


@pytest.mark.parametrize(
    ("run", "word", "kind", "said"),
    [
        ("exception:1", "Failed", "card verdict", "worker-1 failed first: exit code 1"),
        ("stopped:1", "Stopped", "card verdict stop", "stopped by you"),
        ("interrupted:1", "Stopped", "card verdict stop", "stopped by Ctrl-C"),
        ("done:1", "Succeeded", "card verdict ok", "3 succeeded"),
    ],
)
def test_the_head_of_a_run_says_its_outcome(page: Watched, run: str, word: str, kind: str, said: str) -> None:
    shown = page.page
    shown.goto(page.origin)
    shown.locator("tr.job .jn", has_text=run).click()
    shown.locator("h1 .name", has_text=run).wait_for()
    assert shown.locator("h1 .ph").inner_text() == word
    assert shown.locator(".verdict").get_attribute("class") == kind
    assert said in shown.locator(".verdict h2").inner_text()


def test_people_are_named_where_the_job_names_a_command(page: Watched) -> None:
    shown = page.page
    shown.goto(page.origin)
    shown.locator("tr.job .jn", has_text="stopped:1").click()
    shown.locator("h1 .name", has_text="stopped:1").wait_for()
    assert "stopped by you" in shown.locator("#lines").inner_text()
    shown.locator("#tab-events").click()
    shown.locator("#panel", has_text="stopped by you").wait_for()
    assert "was requested by" not in shown.content()

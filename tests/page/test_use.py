"""The page in use: hostile text, keys, dialogs, search, cells, a server that goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from pumice.ui.detail_values import LogWindow
from pumice.ui.pages import draw_lines
from tests.page.browser import Watched, open_page, until, wait_for
from tests.page.sample_server import Served
from tests.page.samples import HOSTILE
from tests.page.samples_live import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.needs("chromium")
LIVE = "#live:not(.off)"
FRAME = "168,71,15,255"  # the accent


def test_hostile_names_and_lines_are_text(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-hostile")
    page.locator(LIVE).wait_for()
    assert page.locator("h1 .name").inner_text().startswith('"><script>window.hacked=1</script>')
    assert page.locator("h1 .ctl").inner_text() == "U+202E"
    messages = page.locator("#lines .msg")
    assert '<script>document.location="//evil"</script><img src=x' in messages.nth(0).inner_text()
    assert messages.nth(1).locator(".a-c1").inner_text() == "red"
    assert messages.nth(1).locator(".ctl").all_inner_texts() == ["ESC", "BEL", "U+202E"]
    page.get_by_role("button", name="9,012 bytes, folded · show").click()
    until(page, "document.querySelectorAll('#lines .msg')[2].textContent.length > 9000")
    assert page.locator("[data-whole]").count() == 0
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download these lines").click()
    assert len(saved.value.path().read_bytes()) > 9000, "long lines as a whole"
    page.goto(watched.origin)
    page.locator(LIVE).wait_for()
    assert page.locator("tr#job-u-hostile .jn").inner_text() == HOSTILE
    assert page.evaluate("[window.hacked, document.querySelectorAll('main script, main img').length]") == [None, 0]


def test_list_tabs_and_logs_by_key(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.origin)
    page.locator(LIVE).wait_for()
    focused = "document.activeElement.textContent"
    press = page.keyboard.press
    for number, group in enumerate(("active", "waiting", "failed", "suspended", "stopped", "done"), start=2):
        press(str(number))
        page.wait_for_url(f"**phase={group}")
    press("1")
    page.wait_for_url(f"{watched.origin}/")
    page.locator(LIVE).wait_for()
    press("j")
    assert page.evaluate(focused) == "llama-ft:3"
    press("j")
    press("k")
    press("Enter")
    page.wait_for_url("**/jobs/u-run")
    page.locator(LIVE).wait_for()
    for number, tab in ((2, "resources"), (3, "rendered"), (5, "policies"), (4, "events")):
        press(str(number))
        page.wait_for_url(f"**tab={tab}*")
        page.locator(f"#tab-{tab}[aria-current]").wait_for()
    page.locator("#events").wait_for()
    press("1")
    page.locator("#timeline").wait_for()
    press("/")
    page.keyboard.type("checkpoint")
    until(page, "document.querySelector('#matches').textContent === '7 matches'")
    press("Enter")
    page.locator(".ln.match mark").wait_for()
    step_and_choose_matches(page)
    press("/")
    press("Escape")
    press("Escape")
    press("t")
    assert page.locator("#lines.nots").count() == 1
    press("w")
    assert page.locator("#lines.wrap").count() == 0
    press("z")
    assert page.locator(".log.max").count() == 1
    press("Escape")
    assert page.locator(".log.max").count() == 0
    press("m")
    assert page.locator(".ln.marked").count() == 1
    press("f")


def step_and_choose_matches(page: Page) -> None:
    """Go to the next match and back, then show only lines with a match, and all again, by key."""
    press = page.keyboard.press
    shown = page.locator("#matches")
    press("Tab")  # to the choice of matches only, where letters are keys again
    seen = [shown.inner_text()]
    for key in ("n", "N", "N"):
        press(key)
        until(page, f"document.querySelector('#matches').textContent !== {seen[-1]!r}")
        seen.append(shown.inner_text())
    first = int(seen[0].partition(" ")[0])
    numbers = [(first - 1 + by) % 7 + 1 for by in (0, 1, 0, -1)]
    assert seen == [f"{number} of 7 matches" for number in numbers]
    press("Space")
    until(page, "document.querySelectorAll('#lines .ln').length === 7")
    assert page.locator("#lines .ln mark").count() == 7
    assert page.locator("#log-total").inner_text() == "7 of 44 lines: only matches"
    press("Space")
    until(page, "document.querySelectorAll('#lines .ln').length === 44")


def test_dialogs_and_lifelines_by_key(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.origin)
    page.goto(f"{watched.origin}/jobs/u-run")
    page.locator(LIVE).wait_for()
    press = page.keyboard.press
    press("?")
    assert page.locator("#keys").evaluate("dialog => dialog.open")
    press("Escape")
    page.get_by_role("button", name="Stop").focus()
    press("Enter")
    page.locator("#dialog h2").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    assert "6 pods get SIGTERM" in page.locator("#dialog").inner_text()
    press("Escape")
    page.locator("#tab-overview").focus()
    press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-resources"
    page.locator(".tl .br").first.focus()
    press("ArrowDown")
    assert "worker-0" in str(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    press("Escape")
    page.wait_for_url(f"{watched.origin}/")


def test_attempts_and_first_error_by_key(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-fail")
    page.locator(LIVE).wait_for()
    page.keyboard.press("[")
    page.wait_for_url("**attempt=2")
    page.keyboard.press("e")
    until(
        page,
        """(() => { const row = document.querySelector('.ln.first').getBoundingClientRect();
                   const box = document.querySelector('#lines').getBoundingClientRect();
                   return row.top >= box.top && row.bottom <= box.bottom; })()""",
    )


def test_cells_of_many_pods_by_arrow_keys(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-many")
    until(page, "document.querySelector('#cells').height > 100")
    # Pixels: the left edge of the frame of the second cell of the second row, and two in the cell of trial-611.
    pixel = "(x, y) => document.querySelector('#cells').getContext('2d').getImageData(x, y, 1, 1).data.join()"
    columns = int(page.evaluate("Math.floor((document.querySelector('#cells').clientWidth - 1) / 13)"))
    across, down = (611 % columns) * 13 + 6, (611 // columns) * 13
    halves = [page.evaluate(f"({pixel})({across}, {down + by})") for by in (3, 10)]
    assert halves == ["79,139,194,255", "133,87,10,255"], "running, and the mark of one that is slow or silent"
    page.locator("#cells").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"({pixel})(13, 20)") != FRAME
    page.keyboard.press("ArrowDown")
    assert page.evaluate(f"({pixel})(13, 20)") == FRAME
    said = page.locator("#said").inner_text()
    assert said.startswith("trial-")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**pod={said.partition(',')[0]}")
    page.locator("#logs .sub", has_text=f"{said.partition(',')[0]} only").wait_for()
    until(page, f"({pixel})(13, 20) === '{FRAME}'")  # it has no focus now: the chosen pod is marked
    page.get_by_role("link", name="All 1,000 lines").click()
    until(page, "document.querySelectorAll('.tl-row a.tl-label').length === 1000")
    page.get_by_role("link", name="Only what stands out").click()
    until(page, "document.querySelectorAll('.tl-row a.tl-label').length === 6")


def test_buttons_act_once_after_another_pod_was_chosen(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-run")
    page.locator(LIVE).wait_for()
    page.locator("#pods .pn").first.click()
    page.wait_for_url("**pod=master-0")
    page.locator("#logs .sub", has_text="master-0 only").wait_for()
    page.get_by_role("button", name="Wrap").click()
    assert page.locator("#lines.wrap").count() == 0
    page.go_back()
    page.locator("#logs .sub", has_text="6 pods merged").wait_for()
    page.get_by_role("button", name="Times").click()
    assert page.locator("#lines.nots").count() == 1


def test_equal_lines_tracebacks_and_redraws_are_folded(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-fail")
    page.locator(LIVE).wait_for()
    lines, folded = page.locator("#lines"), page.locator(".ln.dup")
    for width in (390, 1600):
        page.set_viewport_size({"width": width, "height": 1000})
        assert not page.evaluate("[...document.querySelectorAll('.ln.dup')].some(row => row.offsetHeight)")
    assert folded.count() == 6 + 2 * 11 + 1
    for words, left in (("6 more pods said", 23), ("1 more pod said", 22), ("11 more frames", 0)):
        lines.get_by_role("button", name=words).click()
        assert folded.count() == left
    lines.get_by_role("button", name="212 redraws folded · show").click()
    until(page, "document.querySelectorAll('[data-whole]').length === 0")
    page.locator("#search").fill("answered")
    until(page, "document.querySelectorAll('#lines mark').length === 7")


def test_a_task_is_hidden_by_its_name_though_others_share_its_colour(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-tasks")
    page.locator(LIVE).wait_for()
    shown = (
        "[...document.querySelectorAll('.ln')].filter(row => row.offsetHeight).map(row => row.children[2].innerText)"
    )
    others = [f"task{i}-0" for i in range(2, 7)]
    assert page.evaluate(shown) == ["task0-0", *others, "pumice"], "an equal line of task1 is folded"
    drawn = "[...document.querySelectorAll('.tchip')].map(each => each.className)"
    assert len(set(page.evaluate(drawn))) == 8, "each chip has another colour or another shape"
    page.get_by_role("button", name="task0").click()
    page.locator(".tchip", has_text="pumice").click()
    assert page.evaluate(shown) == ["task1-0", *others]
    page.reload()
    page.locator(LIVE).wait_for()
    assert page.evaluate(shown) == ["task1-0", *others], "it is remembered"


def test_theme_is_chosen_and_remembered(watched: Watched) -> None:
    page = watched.page
    page.goto(watched.origin)
    page.locator(LIVE).wait_for()
    page.locator("#theme").click()
    page.locator("#theme").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 19, 18)"


def wait_for_a_slow_answer(page: Page) -> None:
    """Choose a tab that comes late: the page says that it loads, and after five seconds what it waits for."""
    held: list[Route] = []
    page.route("**/jobs/u-run?tab=events*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright wants a function
    page.locator("#tab-events").click()
    wait_for(page, lambda: held, "the request is held")
    page.clock.fast_forward(400)
    page.locator("body.loading").wait_for()
    page.clock.fast_forward(5000)
    page.locator("#live", has_text="waits for the server").wait_for()
    held[0].continue_()
    page.locator("#events").wait_for()
    page.locator("#live", has_text="live").wait_for()
    assert page.locator("body.loading").count() == 0
    page.unroute("**/jobs/u-run?tab=events*")
    page.locator("#tab-overview").click()
    page.locator("#timeline").wait_for()


def test_banner_says_that_the_server_is_away_or_another_one(browser: Browser, sample_server: Served) -> None:
    origin, away = sample_server.address, sample_server.away
    context = browser.new_context()
    page = open_page(context, origin).page
    page.clock.install()
    page.add_init_script(
        "const streams = []; window.EventSource = class extends EventSource {"
        " constructor(...words) { super(...words); streams.push(this); } };"
        "window.streamsEnded = () => streams.every((each) => each.readyState !== EventSource.OPEN);"
    )
    page.goto(f"{origin}/jobs/u-run")
    page.locator(LIVE).wait_for()
    wait_for_a_slow_answer(page)
    away.set()
    try:
        until(page, "window.streamsEnded()")  # a beat that is on its way would count
        page.clock.fast_forward(6000)
        page.locator(".banner").wait_for()
        assert "pumice ui does not answer. This is the state at " in page.locator(".banner").inner_text()
        assert page.evaluate("document.body.classList.contains('stale')")
        page.locator(".crumb a").click()
        assert page.url.startswith(f"{origin}/jobs/u-run"), "what is known stays on screen"
        sample_server.refuses = True
        page.clock.fast_forward(2000)
        page.locator("#away", has_text="This page needs its token").wait_for()
        page.get_by_role("button", name="Try now").click()
    finally:
        away.clear()
        sample_server.refuses = False
    page.locator(LIVE).wait_for()
    assert page.locator(".banner").count() == 0
    context.close()


def test_a_job_that_is_removed_is_said_to_be_gone(watched: Watched, sample_server: Served) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-fail")
    page.locator(LIVE).wait_for()
    sample_server.missing = "u-fail"
    try:
        sample_server.send("gone")
        page.locator("h1", has_text="No such job").wait_for()
    finally:
        sample_server.missing = ""
    assert page.locator(".banner").count() == 0


def test_a_redraw_that_comes_late_does_not_replace_what_was_chosen_since(
    watched: Watched, sample_server: Served
) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-fail")
    page.locator(LIVE).wait_for()
    held: list[Route] = []
    page.route("**/jobs/u-fail", lambda route: held.append(route))  # noqa: PLW0108 - Playwright wants a function
    sample_server.send("job")
    wait_for(page, lambda: held, "the request is held")
    page.locator("#tab-events").click()
    page.locator("#events").wait_for()
    with page.expect_response("**/jobs/u-fail"):
        held[0].continue_()
    assert page.evaluate("new Promise(done => setTimeout(() => done(location.search), 50))") == "?tab=events&attempt=3"
    assert page.locator("#events").count() == 1
    page.unroute("**/jobs/u-fail")


def test_a_change_during_a_redraw_is_drawn(watched: Watched, sample_server: Served) -> None:
    page = watched.page
    page.add_init_script(
        "window.jobs = 0; window.EventSource = class extends EventSource {"
        " constructor(...words) { super(...words); this.addEventListener('job', () => { window.jobs += 1; }); } };"
    )
    page.goto(f"{watched.origin}/jobs/u-fail")
    page.locator(LIVE).wait_for()
    held: list[Route] = []
    page.route("**/jobs/u-fail", lambda route: held.append(route))  # noqa: PLW0108 - Playwright wants a function
    sample_server.send("job")
    wait_for(page, lambda: held, "the redraw is held")
    sample_server.send("job")
    until(page, "window.jobs === 2")
    held[0].continue_()
    wait_for(page, lambda: len(held) > 1, "another redraw follows")
    held[1].continue_()
    page.unroute("**/jobs/u-fail")


def test_rows_do_not_move_while_one_has_the_focus(watched: Watched, sample_server: Served) -> None:
    page = watched.page
    page.goto(watched.origin)
    page.locator(LIVE).wait_for()
    names = "[...document.querySelectorAll('tr.job .jn')].map(each => each.textContent)"
    before = page.evaluate(names)
    page.keyboard.press("j")
    sample_server.turned = True
    try:
        sample_server.send("job")
        page.locator("#changed").wait_for()
        assert page.evaluate(names) == before
        assert "changed" in page.locator("#changed").inner_text()
        page.locator("#changed button").click()
        after = page.evaluate(names)
    finally:
        sample_server.turned = False
    assert after != before
    assert sorted(after) == sorted(before)


def test_new_lines_are_followed_until_the_reader_scrolls_up(watched: Watched, sample_server: Served) -> None:
    page = watched.page
    page.goto(f"{watched.origin}/jobs/u-run")
    page.locator(LIVE).wait_for()
    until(page, "document.querySelectorAll('#lines .ln').length === 44")
    logs = running().logs
    assert logs is not None
    sample_server.send("line", grown(logs, 3))
    until(page, "document.querySelectorAll('#lines .ln').length === 47")
    box = "document.querySelector('#lines')"
    end = f"({box}.scrollHeight - {box}.scrollTop - {box}.clientHeight < 4)"
    until(page, end)
    assert page.locator("#log-total").inner_text().startswith("47 lines")
    sample_server.send("line", grown(logs, 4))  # two of these lines are here already
    until(page, "document.querySelectorAll('#lines .ln').length === 48")
    assert page.evaluate("[...document.querySelectorAll('#lines .ln')].map(row => Number(row.dataset.n))") == [
        *range(48)
    ]
    page.locator("#lines").hover()
    page.mouse.wheel(0, -200)
    page.locator('[data-log="follow"][aria-pressed="false"]').wait_for()
    sample_server.send("line", grown(logs, 6))
    until(page, f"!{end}")
    page.keyboard.press("f")
    until(page, end)
    page.reload()
    page.locator(LIVE).wait_for()
    until(page, end)
    sample_server.send("line", structs.replace(grown(logs, 3), share=20, rate=2300))
    page.locator("#share", has_text="About 2,300 lines a second: shown is 1 in 20").wait_for()
    page.locator("#lines").hover()
    page.mouse.wheel(0, -200)
    until(page, "document.querySelector('#share').hidden")


def grown(logs: LogWindow, more: int) -> LogWindow:
    """Return what the stream sends when there are more lines."""
    last = logs.items[-1]
    items = tuple(structs.replace(last, number=logs.total + i, text=f"new line {i}") for i in range(more - 3, more))
    window = structs.replace(logs, total=logs.total + more, at=items[0].number, items=items)
    return draw_lines(window, running().job.tasks)

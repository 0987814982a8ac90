"""Made-up runs in a real browser: long logs, notes, a pod that was killed, a run that was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pumice.engines.local.clock import wall_clock
from pumice.model.findings import SPEC
from pumice.store.files.run_store import RunStore
from pumice.store.sample_file import Usage
from scripts.made_runs import Ends, RunMaker, Story, Try
from tests.local.commands import Terminal, open_terminal
from tests.page.browser import Watched, until, wait_for
from tests.page.ui_server import ui_page
from tests.recorded_runs import INTERRUPTED, RecordedRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

pytestmark = pytest.mark.needs("chromium")
GIB = 1 << 30
HUGE = 100_000
NEEDLES = (40, 333, 700)  # the lines of the long log with a word
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  policies: [{{event: PodFailed, action: RestartJob}}]
  tasks:
  - name: worker
    replicas: {pods}
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: worker
          image: train
          resources:
            limits:
              cpu: 500m
              memory: 1Gi
"""
MEMORY_LINE = JOB.splitlines().index("              memory: 1Gi") + 1
# Whether all of an element is within the box of lines.
SEEN = """(row => { if (!row) return false;
    const [inner, outer] = [row, document.querySelector('#lines')].map(each => each.getBoundingClientRect());
    return inner.height > 0 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1; })"""
LAST = "document.querySelector('#lines .rows').lastElementChild"


def story(name: str, *tries: Try, pods: int = 1, **more: object) -> Story:
    values = {"phase": "Completed", "text": JOB.format(name=name, pods=pods), **more}
    return Story(name, tries, **values)  # type: ignore[arg-type] # fields of a story


def long_lines(_pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    texts = [f"epoch {i} needle" if i in NEEDLES else f"epoch {i}" for i in range(800)]
    return [(1 + i / 100, "stdout", text) for i, text in enumerate(texts)]


def huge_lines(_pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    batches = [range(begin, begin + 100) for begin in range(0, HUGE, 100)]
    return [(1 + i / 100, "stdout", "\n".join(f"epoch {n}" for n in batch)) for i, batch in enumerate(batches)]


def use(pod: str, _attempt: int, at: float) -> Usage:
    """A pod that is killed has nothing left when it is measured for the last time."""
    grows = int(min(0.9, at / 20) * GIB) if at < 29 else 0
    return Usage(at / 5, grows if pod == "worker-0" else GIB // 5)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("made")
    terminal = Terminal(directory)
    state = terminal.workspace.state
    now = wall_clock()
    maker = RunMaker(RunStore(state), directory / "jobs", now)
    killed = [
        Ends("worker-0", 30.5, 137, "step 7", "OOMKilled"),
        Ends("worker-1", 30.8, 1, "connection closed by peer"),
    ]
    failed = Ends("worker-0", 9.5, 1, "ValueError: nan")
    for each in (
        story("long", Try(9.0, [Ends("worker-0", 8.9)]), lines=long_lines),
        story("huge", Try(12.0, [Ends("worker-0", 11.9)]), lines=huge_lines),
        story(
            "oom",
            Try(31.0, killed),
            pods=2,
            phase="Failed",
            samples=use,
            note="lr=4",
            unenforced={"worker": ("cpu",)},
        ),
        story(
            "again", Try(10.0, [failed], SPEC / "policies" / 0), Try(10.0, [Ends("worker-0", 9.9)]), lines=long_lines
        ),
    ):
        maker.make(each)
    interrupted = RecordedRun.make(state.parent, now, "<b>baseline</b>")
    interrupted.write(*INTERRUPTED)
    maker.store.finish(interrupted.run)
    with open_terminal(directory) as opened, ui_page(opened, browser) as watched:
        yield watched


def show(watched: Watched, run: str) -> Page:
    page = watched.page
    page.goto(watched.origin)
    page.locator("tr.job .jn", has_text=run).click()
    page.locator("#live:not(.off)").wait_for()
    return page


@pytest.mark.parametrize(("run", "total"), [("long:1", 800), ("huge:1", HUGE)])
def test_the_log_of_a_finished_run_opens_at_its_end(
    watched_requests: list[str], page: Watched, run: str, total: int
) -> None:
    shown = show(page, run)
    until(shown, f"{SEEN}({LAST})")
    assert "Completed" in shown.locator("#lines .ln").last.inner_text()
    assert f"epoch {total - 1}" in shown.locator("#lines .ln:not(.sys)").last.inner_text()
    assert [each for each in watched_requests if "/logs" in each] == [], "the page has these lines"
    shown.locator("#lines").hover()
    shown.mouse.wheel(0, -4000)
    until(shown, f"[...document.querySelectorAll('#lines .ln')].some({SEEN}) && !{SEEN}({LAST})")


def test_lines_are_drawn_where_a_reader_scrolled_to_while_others_were_on_their_way(page: Watched) -> None:
    shown = show(page, "long:1")
    until(shown, f"{SEEN}({LAST})")
    held: list[Route] = []
    shown.route("**/api/jobs/*/logs?*", lambda route: held.append(route) if not held else route.continue_())
    box = shown.locator("#lines")
    box.evaluate("box => { box.scrollTop = box.querySelector('.rows').offsetTop + 100; }")
    wait_for(shown, lambda: held, "the request is held")
    box.evaluate("box => { box.scrollTop = 0; }")
    held[0].continue_()
    until(shown, f"{SEEN}(document.querySelector('#lines .ln[data-n=\"0\"]'))")
    shown.unroute_all()


@pytest.fixture
def watched_requests(page: Watched) -> Iterator[list[str]]:
    """Return the addresses of requests for data, as they come."""
    found: list[str] = []

    def note(request: Request) -> None:
        if "/api/jobs/" in request.url:
            found.append(request.url)

    page.page.on("request", note)
    yield found
    page.page.remove_listener("request", note)


def test_a_page_of_a_long_log_is_no_larger_than_that_of_a_short_one(page: Watched) -> None:
    """`benchmarks/page_log.py` measures how fast it opens."""
    sizes = []
    for run, total in (("long:1", 803), ("huge:1", HUGE + 3)):
        shown = show(page, run)
        until(shown, f"{SEEN}({LAST})")
        assert shown.locator("#log-total").inner_text().startswith(f"{total:,} lines")
        answer = shown.request.get(shown.url)
        sizes.append((shown.locator("#lines .ln").count(), len(answer.body())))
    (rows, size), (huge_rows, huge_size) = sizes
    assert huge_rows <= rows
    assert huge_size < size * 1.2


def test_another_choice_of_lines_is_shown_where_a_reader_looks_first(page: Watched) -> None:
    shown = show(page, "again:1")
    until(shown, f"{SEEN}({LAST})")
    shown.locator("[data-choice=attempt]").select_option("1")
    until(shown, f"{SEEN}(document.querySelector('.ln.first'))")
    assert "ValueError: nan" in shown.locator(".ln.first").inner_text()
    shown.locator("[data-choice=attempt]").select_option("2")
    until(shown, f"!document.querySelector('.ln.first') && {SEEN}({LAST})")


def test_enter_goes_to_the_first_match_and_on(page: Watched) -> None:
    shown = show(page, "long:1")
    shown.locator("#search").fill("needle")
    for number, keys in (
        (1, ["Enter"]),
        (2, ["Enter"]),
        (1, ["Shift+Enter"]),
        (3, ["Shift+Enter"]),
        (2, ["Enter"] * 2),
    ):
        for key in keys:
            shown.keyboard.press(key)
        until(shown, f"document.querySelector('#matches').textContent === '{number} of 3 matches'")
        until(shown, f"{SEEN}(document.querySelector('.ln.match'))")
        assert shown.locator(".ln.match").inner_text().endswith(f"epoch {NEEDLES[number - 1]} needle")
    shown.locator("#search").fill("epoch 700")
    shown.keyboard.press("Shift+Enter")
    until(shown, "document.querySelector('#matches').textContent === '1 of 1 match'")
    shown.locator("#search").fill("nowhere")
    shown.keyboard.press("Enter")
    until(shown, "document.querySelector('#matches').textContent === '0 matches'")
    assert shown.locator(".ln.match").count() == 0


def test_a_group_has_the_number_of_the_jobs_that_are_shown(page: Watched) -> None:
    shown = page.page
    shown.goto(page.origin)
    number = shown.locator("tr.grp span")
    assert number.all_inner_texts() == ["5"]
    shown.locator("[data-filter=failed]").click()
    shown.wait_for_url("**phase=failed")
    until(shown, "document.querySelectorAll('tr.job').length === 1")
    assert number.all_inner_texts() == ["1"]
    shown.goto(f"{page.origin}/?phase=done&q=long")
    assert number.all_inner_texts() == ["1"]


def test_every_bar_of_the_timeline_has_a_colour_of_the_legend(page: Watched) -> None:
    shown = show(page, "oom:1")
    colour = "[...document.querySelectorAll('%s')].map(each => getComputedStyle(each).%s)"
    legend = set(shown.evaluate(colour % ("#timeline .legend .k", "backgroundColor")))
    bars = shown.evaluate(colour % (".tl .br:not(.wait, .init)", "fill"))
    assert len(bars) == 2 + 2, "and the close-up"
    assert set(bars) <= legend
    assert shown.locator(".tl-row.bad .br").count() > 0


def test_the_verdict_on_a_pod_that_was_killed_names_the_cause(page: Watched) -> None:
    shown = show(page, "oom:1")
    facts = shown.locator(".verdict .facts").inner_text()
    assert f"cause\nit used more than its memory limit, 1Gi (oom.yaml:{MEMORY_LINE})" in facts.replace("\t", "\n")
    assert "last line" not in facts, "as on the terminal"


def test_the_memory_of_a_pod_that_was_killed_is_its_peak(page: Watched) -> None:
    shown = show(page, "oom:1")
    memory = shown.locator("#pod-worker-0 td").nth(6)
    assert memory.inner_text().strip() == "0.9 / 1"
    line = memory.locator(".spark > path").last.get_attribute("d") or ""
    assert float(line.rpartition(" ")[2]) < 20 / 2, "it does not fall at its end"
    plot = shown.locator("#against figure", has_text="Memory")
    assert plot.locator("div.muted").inner_text() == "0.9, others 0.2 to 0.2"


def test_a_cpu_limit_that_nothing_enforces_is_not_drawn_as_one(page: Watched) -> None:
    shown = show(page, "oom:1")
    cells = shown.locator("#pod-worker-0 td")
    assert "/" not in cells.nth(5).inner_text()
    assert [cells.nth(each).locator(".lim").count() for each in (5, 6)] == [0, 1], "that of memory is drawn"
    assert "CPU cores; limit 0.5 is not enforced" in shown.locator("#against").inner_text()
    shown.locator("#tab-resources").click()
    shown.locator("#resources thead", has_text="CPU cores; limit 0.5 is not enforced").wait_for()


@pytest.mark.parametrize("width", [1280, 390])
def test_notes_are_shown_in_the_list_and_with_the_job(page: Watched, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    shown = page.page
    for run, note in (("oom:1", "lr=4"), ("pytorch-job:1", "<b>baseline</b>")):
        shown.goto(page.origin)
        row = shown.locator("tr.job", has_text=run)
        assert row.locator(".note").inner_text() == note
        assert row.locator(".note").is_visible()
        assert page.fits
        row.locator(".jn").click()
        shown.locator("h1", has_text=run).wait_for()
        assert f"note {note}" in shown.locator(".meta").inner_text()
        assert page.fits
    page.page.set_viewport_size({"width": 1280, "height": 900})


def test_times_of_a_run_that_was_interrupted(page: Watched) -> None:
    shown = show(page, "pytorch-job:1")
    meta = shown.locator(".meta").inner_text()
    assert "ran 1 m 25 s" in meta
    assert "waited 4.5 s" in meta


def test_a_run_that_was_stopped_is_not_green(page: Watched) -> None:
    shown = show(page, "pytorch-job:1")
    edge = "getComputedStyle(document.querySelector('.verdict')).borderLeftColor"
    assert shown.evaluate(edge) == "rgb(92, 87, 79)", "that of what was stopped"


def test_pods_have_lifelines_until_the_process_of_their_run_was_killed(page: Watched) -> None:
    shown = show(page, "pytorch-job:1")
    widths = shown.evaluate(
        """[...document.querySelectorAll('.tl-row')].filter(row => row.querySelector('a.tl-label')).map(row =>
            [...row.querySelectorAll('.br.stopped')].map(bar => parseFloat(bar.getAttribute('width'))))"""
    )
    assert len(widths) == 3
    whole = 150 - 2.0
    for row in widths:
        assert row == pytest.approx([100 * seconds / whole for seconds in (37, 27, 18.8)], abs=1.5)

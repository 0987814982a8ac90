"""Hostile names, notes, lines, messages and annotations are text: on every view, and in every answer below /api."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import pytest

from pumice.client.local.local_backend import LocalBackend
from pumice.engines.local.clock import wall_clock
from pumice.model.findings import SPEC
from pumice.store.files.run_store import RunStore
from pumice.ui.data.actions import ACTIONS
from pumice.ui.queries import TABS
from pumice.ui.server import PageServer
from scripts.made_runs import Ends, RunMaker, Story, Try
from tests.local.commands import Terminal, open_terminal
from tests.page.browser import Watched, until
from tests.page.ui_server import ui_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.needs("chromium")
HOSTILE: Final = (
    "\"'></title></script></style></pre><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    "<svg/onload=window.hacked=1>{{7*7}}{% raw %}${7*7}javascript:hacked \x1b[31mred\x1b[0m\u202e\x07\u2028&amp;"
)
WORDS: Final = json.dumps(HOSTILE)  # also of YAML
JOB: Final = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: hostile, annotations: {{evil: {WORDS}}}, labels: {{a: b}}}}
spec:
  # {WORDS}
  policies: [{{event: PodFailed, action: RestartJob}}]
  tasks:
  - name: worker
    replicas: 2
    template:
      metadata: {{annotations: {{evil: {WORDS}}}}}
      spec:
        restartPolicy: Never
        containers:
        - name: worker
          image: train
          command: [sh, -c, {WORDS}]
          workingDir: {json.dumps("/" + HOSTILE)}
          env: [{{name: EVIL, value: {WORDS}}}]
"""
Q: Final = quote(HOSTILE)
NAME: Final = quote("\"'><img src=x onerror=window.hacked=1>")  # a part of a path
QUERY: Final = urlencode({"q": HOSTILE[:60], "pod": HOSTILE, "task": HOSTILE})
VIEWS: Final = (
    "/",
    f"/?q={Q}",
    f"/?phase=failed&q={Q}",
    f"/?phase={Q}",
    f"/?after={Q}",
    f"/jobs/{NAME}",
    *(f"/jobs/UID?tab={tab}" for tab in TABS),
    f"/jobs/UID?tab={Q}",
    f"/jobs/UID?{QUERY}",
    f"/jobs/UID?attempt=0&q={quote('<script>')}&only=1",
    f"/jobs/UID?stream={Q}",
    f"/jobs/UID?tab=rendered&pod=worker-0&compare={Q}",
    f"/jobs/UID?tab=rendered&pod={Q}",
    f"/jobs/UID?tab=resources&pod={Q}",
    f"/jobs/UID?tab=events&after={Q}",
    *(f"/jobs/UID/actions/{name}" for name in ACTIONS),
    f"/jobs/UID/actions/{NAME}",
    *(f"/jobs/WAITS?tab={tab}" for tab in TABS),
)
DATA: Final = (
    "/api/info",
    "/api/jobs",
    f"/api/jobs?q={Q}",
    f"/api/jobs?phase={Q}",
    f"/api/jobs/{NAME}",
    "/api/jobs/UID",
    *(f"/api/jobs/UID/{name}" for name in ("timeline", "pods", "metrics", "events", "policies", "file", "logs")),
    *(f"/api/jobs/UID/{name}" for name in ("rendered", "logs/volume", "logs/search?q=script", "logs?html=1&q=script")),
    *(f"/api/jobs/UID/{name}?{QUERY}" for name in ("rendered", "metrics", "logs", "logs/search")),
    *(f"/api/jobs/UID/actions/{name}" for name in ACTIONS),
)
STREAMS: Final = ("/api/stream", "/api/stream?job=UID&last=0.0.0", "/api/stream?job=UID&last=0.0.0&html=1")
# What a run may not bring into a page: elements that load or run something, and attributes that do.
INTRUDERS: Final = """(() => {
    const loads = ["script", "img", "iframe", "object", "style", "base", "meta"].map(name => `main ${name}`).join();
    const runs = ({ name, value }) => name.startsWith("on") || name === "style" || /^javascript:/i.test(value);
    const bad = [...document.querySelectorAll("body :not(.pad)")].filter(
        each => each.matches(loads) || [...each.attributes].some(runs));
    return [window.hacked ?? null, bad.map(each => each.outerHTML)];
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Watched, dict[str, str]]]:
    directory = tmp_path_factory.mktemp("hostile")
    maker = RunMaker(RunStore(Terminal(directory).workspace.state), directory / "jobs", wall_clock())
    ends = [Ends("worker-0", 8.0, 3, HOSTILE), Ends("worker-1", 8.2, 1, HOSTILE)]
    failed = Story(
        "hostile",
        [Try(9.0, ends, SPEC / "policies" / 0), Try(9.0, ends)],
        "Failed",
        message=HOSTILE,
        lines=lambda _pod, _attempt: [(1.0, "stderr", HOSTILE), (1.1, "stdout", HOSTILE * 20), (1.2, "stdout", "a\rb")],
        note=HOSTILE,
        text=JOB,
    )
    waits = Story("hostile", (), "Pending", note=HOSTILE, message=HOSTILE, text=JOB)
    uids = {"UID": maker.make(failed).record.uid, "WAITS": maker.make(waits).record.uid}
    with open_terminal(directory) as opened, ui_page(opened, browser) as watched:
        yield watched, uids


def address(path: str, uids: dict[str, str]) -> str:
    for name, uid in uids.items():
        path = path.replace(f"/{name}", f"/{uid}").replace(f"={name}", f"={uid}")
    return path


def check(watched: Watched) -> None:
    """Nothing of the run was taken for markup, and the browser had nothing to refuse."""
    assert watched.page.evaluate(INTRUDERS) == [None, []]
    refused = [each for each in watched.wrong if not each.startswith("Failed to load resource: the server responded")]
    watched.wrong.clear()
    assert refused == []


@pytest.mark.parametrize("path", VIEWS)
def test_view_shows_hostile_text_as_text(page: tuple[Watched, dict[str, str]], path: str) -> None:
    watched, uids = page
    answer = watched.page.goto(watched.origin + address(path, uids))
    assert answer is not None
    policy = answer.header_value("content-security-policy") or ""
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'")
    if answer.ok and "/actions/" not in path:
        watched.page.locator("#live:not(.off)").wait_for()
    if "/actions/" not in path or path.endswith("again"):
        assert "window.hacked=1" in watched.page.content()
    assert not set(watched.page.content()) & set("\x1b\x07\u202e"), "hidden characters are named"
    check(watched)


@pytest.mark.parametrize("path", DATA)
def test_answer_with_hostile_text_is_no_page(page: tuple[Watched, dict[str, str]], path: str) -> None:
    watched, uids = page
    answer = watched.page.goto(watched.origin + address(path, uids))
    assert answer is not None
    assert answer.header_value("content-type") == "application/json"
    assert answer.header_value("x-content-type-options") == "nosniff"
    assert isinstance(answer.json(), dict)
    check(watched)


@pytest.mark.parametrize("path", STREAMS)
def test_stream_with_hostile_text_is_no_page(page: tuple[Watched, dict[str, str]], path: str) -> None:
    watched, uids = page
    watched.page.goto(f"{watched.origin}/jobs/{uids['UID']}")
    kinds = watched.page.evaluate(
        """async (path) => {
            const source = new EventSource(path);
            const kinds = new Set();
            const beat = new Promise((resolve) => source.addEventListener("beat", resolve));
            const note = (event) => JSON.parse(event.data) && kinds.add(event.type);
            for (const kind of ["job", "line"]) source.addEventListener(kind, note);
            await beat;
            source.close();
            return [...kinds];
        }""",
        address(path, uids),
    )
    assert sorted(kinds) == (["job", "line"] if "job=" in path else [])
    check(watched)


def test_drawn_lines_have_no_markup_of_a_line(page: tuple[Watched, dict[str, str]]) -> None:
    """The script puts lines in place that the server drew: a scroll, a search and a line as a whole."""
    watched, uids = page
    shown = watched.page
    shown.goto(f"{watched.origin}/jobs/{uids['UID']}?attempt=0")
    shown.locator("#live:not(.off)").wait_for()
    shown.locator("#search").fill("<script>")
    shown.locator(".ln mark", has_text="<script>").first.wait_for()
    shown.locator("#only").check()
    shown.locator("#log-total", has_text="only matches").wait_for()
    shown.locator(".ln [data-whole]").first.click()
    until(
        shown, f"[...document.querySelectorAll('.ln .msg')].some(each => each.textContent.length > {len(HOSTILE) * 10})"
    )
    check(watched)


def test_every_route_is_visited(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = PageServer(LocalBackend({"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}))
    routes = {each.canonical for each in server.http.app.router.resources()} - {"/static/{name}", "/favicon.ico"}
    visited = [path.partition("?")[0] for path in (*VIEWS, *DATA, *STREAMS)]
    patterns = {route: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route))) for route in routes}
    assert [route for route, pattern in patterns.items() if not any(map(pattern.fullmatch, visited))] == []

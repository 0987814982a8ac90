"""`pumice ui` over HTTP: access to it, and what it shows of real runs."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork_server import fork_server
from tests.local.commands import WAITING, Terminal
from tests.local.pages import MODULES, Page, Pages, as_another_user
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

POLICIES = [{"event": "PodFailed", "action": "RestartJob"}]
FAILS_ONCE = (
    "echo attempt; if [ ! -e failed ]; then touch failed; echo 'ValueError: bad batch' >&2; exit 3; fi; " + WAITING
)


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    found = Pages(tmp_path, Terminal(tmp_path).workspace.env)
    yield found
    found.stop()


@pytest.fixture
def page(pages: Pages) -> Page:
    return pages.start().open()


def test_only_the_browser_with_the_token_gets_an_answer(pages: Pages) -> None:
    page = pages.start()
    own = f"http://{page.host}"
    strangers = {
        "no cookie": ("/", {}),
        "no cookie, data": ("/api/jobs", {}),
        "no cookie, a file of the page": ("/static/page.js", {}),
        "a wrong cookie": ("/", {"Cookie": "pumice=guess"}),
        "an empty token": ("/open?token=", {}),
        "a wrong token": ("/open?token=guess", {}),
        "a path that does not exist": ("/nothing", {}),
        "another host, with the token": (page.address.partition(page.host)[2], {"Host": "evil.example"}),
        "no port": (page.address.partition(page.host)[2], {"Host": "127.0.0.1"}),
    }
    for name, (target, headers) in strangers.items():
        answer = page.get(target, headers)
        assert (answer.status, answer.body) == (403, b""), name
    opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
    for target in ("/", "/jobs/x", "/open?token=guess"):
        answer = page.get(target, opened)
        assert (answer.status, "This page needs its token" in answer.text) == (403, True), "a person reads what to do"
    assert page.get("/", {**opened, "Sec-Fetch-Site": "cross-site"}).body == b""
    assert page.get("/", {**opened, "Host": "evil.example"}).body == b""
    page.open()
    assert page.get(page.address.partition(page.host)[2], {"Cookie": ""}).status == 403, "the token works once"
    assert page.get(page.address.partition(page.host)[2]).status == 303, "a browser that has the cookie goes on"
    token = dict(page.token())
    refused = {
        "another host": ("GET", "/", {"Host": "evil.example"}),
        "another port of this host": ("GET", "/", {"Origin": "http://127.0.0.1:1"}),
        "another origin": ("GET", "/api/jobs", {"Origin": "https://evil.example"}),
        "a request of another site": ("GET", "/api/jobs", {"Sec-Fetch-Site": "cross-site"}),
        "a request of another port": ("GET", "/api/jobs", {"Sec-Fetch-Site": "same-site"}),
        "POST without a token": ("POST", "/api/jobs/x/actions/stop", {"Origin": own}),
        "POST with a wrong token": ("POST", "/api/jobs/x/actions/stop", {**token, "X-Pumice-Token": "guess"}),
        "POST without an origin": ("POST", "/api/jobs/x/actions/stop", {"X-Pumice-Token": token["X-Pumice-Token"]}),
        "POST of another origin": ("POST", "/api/jobs/x/actions/stop", {**token, "Origin": "http://evil.example"}),
        "another method": ("PUT", "/", token),
    }
    for name, (method, target, headers) in refused.items():
        answer = page.get(target, headers, method)
        assert (answer.status, answer.body) == (403, b""), name
    assert page.post("/api/jobs/x/actions/stop", token).status == 404


def test_answers_say_what_browsers_may_do_with_them(page: Page) -> None:
    for target in ("/", "/api/jobs", "/static/page.css", "/jobs/none", "/nothing"):
        headers = page.get(target).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy, target
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        expected = ("nosniff", "same-origin", "DENY", "same-origin")
        names = ("X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cross-Origin-Resource-Policy")
        assert tuple(headers[name] for name in names) == expected


def test_another_user_of_the_machine_gets_nothing(pages: Pages) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can act as another user")
    page = pages.start()
    code = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).status)"
    done = as_another_user(code, page.address)
    assert "403" in done.stderr, done
    assert page.open().data("/api/jobs")["total"] == 0, "the token is still good"


def test_bad_requests_get_a_reason(page: Page) -> None:
    assert page.get("/jobs/none").status == 404
    assert "none" in page.get("/jobs/none").text
    assert page.get("/api/jobs/none").json == {"error": "none: no run has this uid"}
    assert page.get("/api/jobs?phase=wild").json["error"].startswith("phase: wild: must be one of all, active")
    assert page.get("/api/jobs/x/logs?at=-1").json == {"error": "at: -1: must be a whole number"}
    assert page.get(f"/api/jobs/x/logs?q={'a' * 400}").status == 400
    assert page.get("/static/..%2f..%2fserver.py").status == 404
    assert page.get("/" + "a" * 20_000).status in (400, 414)


def test_a_page_without_runs(page: Page) -> None:
    assert page.data("/api/jobs")["counts"]["all"] == 0
    assert page.get("/").status == 200
    assert page.data("/api/info")["capacity"]["cpu"] > 0


def test_a_busy_port_and_a_bad_one_are_refused(pages: Pages, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = fork_server(*MODULES).run(["ui", "--no-open", "--port", port], cwd=tmp_path, env=pages.env)
        hint = "\n  hint: without --port a free one is chosen\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pumice ui: port {port} is in use{hint}")
    for wrong in ("65536", "http", "-1"):
        done = fork_server(*MODULES).run(["ui", f"--port={wrong}"], cwd=tmp_path, env=pages.env)
        assert done.returncode == 2
        assert "must be a port, 0 to 65535" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_page_stops_at_once_though_a_stream_is_open(pages: Pages, number: int) -> None:
    page = pages.start().open()
    with page.stream() as events:
        assert next(events)[0] == "beat"
        page.process.send_signal(number)
        assert page.process.wait(PATIENCE) == 0


def test_a_run_from_its_start_through_a_failure_to_its_end(terminal: Terminal, page: Page) -> None:
    need_namespaces()
    with page.stream() as changes:
        terminal.submit(job(task("w", FAILS_ONCE), policies=POLICIES, maxRetry=3))
        row = next(data for kind, data, _ in changes if kind == "job")
        assert row["run"] == "trial:1"
    address = f"/api/jobs/{row['uid']}"
    page.until(address, lambda job: job["attempt"] == 2 and job["tasks"][0]["states"] == ["running"])
    found = page.until(address, lambda job: job["phase"] == "Running")
    assert [(each["outcome"], each["first"], each["exitCode"]) for each in found["attempts"]] == [
        ("failed", "w-0", 3),
        ("running", "", None),
    ]
    assert found["attempts"][0]["lastLine"] == "ValueError: bad batch"
    assert (found["phase"], found["group"], found["budget"]["spent"]) == ("Running", "active", 1)
    (policy,) = page.data(f"{address}/policies")["items"]
    assert [(each["attempt"], each["pod"], each["spent"]) for each in policy["firings"]] == [(1, "w-0", 1)]
    submitted = page.data(f"{address}/file")
    assert (submitted["asSubmitted"], submitted["name"]) == (True, "job.yaml")
    assert "\n".join(submitted["lines"]) + "\n" == (terminal.workspace.directory / "job.yaml").read_text()
    lines = page.until(f"{address}/logs?attempt=all", lambda logs: logs["total"] >= 4)["items"]
    said = [line["text"] for line in lines if line["kind"] == "line"]
    assert said[:4] == ["attempt", "ValueError: bad batch", "attempt", "up"]
    assert [line["number"] for line in lines] == list(range(len(lines)))
    error = next(line for line in lines if line["error"])
    assert (error["text"], error["stream"], error["attempt"]) == ("ValueError: bad batch", "stderr", 1)
    assert page.data(f"{address}/logs?attempt=1")["firstError"] is not None
    search = page.data(f"{address}/logs/search?q=BATCH&attempt=all")
    assert (search["total"], search["positions"]) == (1, [error["number"]])
    with page.stream(f"/api/stream?job={row['uid']}") as events:
        seen = ""
        for kind, _data, position in events:
            seen = position
            if kind == "beat":
                break
    (terminal.workspace.directory / "go").touch()
    page.until(address, lambda job: job["phase"] == "Completed")
    with page.stream(f"/api/stream?job={row['uid']}", last=seen) as events:
        kind, data, _ = next(events)
        assert (kind, data["phase"]) == ("job", "Completed")
        missed = next(data for kind, data, _ in events if kind == "line")
        assert "done" in [line["text"] for line in missed["items"]]
    done = page.until(address, lambda job: job["finished"] is not None)
    assert (done["verdict"], done["exitCode"], done["text"]) == (None, 0, "1 succeeded, in the 2nd attempt")
    assert page.get(f"/jobs/{row['uid']}").status == 200
    for tab in ("resources", "rendered", "events", "policies"):
        assert page.get(f"/jobs/{row['uid']}?tab={tab}").status == 200


def test_a_foreground_run_is_shown_and_stopped_by_a_form(terminal: Terminal, page: Page) -> None:
    need_namespaces()
    process = terminal.workspace.start(job(task("w", WAITING)))
    listing = page.until("/api/jobs", lambda jobs: [each["phase"] for each in jobs["items"]] == ["Running"])
    (row,) = listing["items"]
    assert (row["mode"], row["group"]) == ("foreground", "active")
    plan = page.data(f"/api/jobs/{row['uid']}/actions/stop")
    assert (plan["allowed"], plan["button"], plan["phases"]) == (
        True,
        "Stop 1 pod",
        ["Running", "Terminating", "Terminated"],
    )
    assert not page.data(f"/api/jobs/{row['uid']}/actions/delete")["allowed"]
    token = page.token()
    refused = page.post(f"/api/jobs/{row['uid']}/actions/delete", token)
    assert (refused.status, refused.json["message"]) == (409, "trial:1: it has not finished: stop it first")
    stopped = page.post(f"/jobs/{row['uid']}/actions/stop", token)
    assert (stopped.status, stopped.headers["Location"]) == (303, f"/jobs/{row['uid']}")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    page.until(f"/api/jobs/{row['uid']}", lambda found: found["finished"] is not None)
    again = page.post(f"/api/jobs/{row['uid']}/actions/again", token).json
    assert (again["done"], again["run"]) == (True, "trial:2"), again
    (terminal.workspace.directory / "go").touch()
    page.until(f"/api/jobs/{again['uid']}", lambda found: found["finished"] is not None)
    with page.stream(f"/api/stream?job={row['uid']}") as events:
        next(events)
        assert page.post(f"/api/jobs/{row['uid']}/actions/delete", token).json["done"]
        assert [kind for kind, _, _ in events][-1] == "gone"
    with page.stream(f"/api/stream?job={row['uid']}") as events:
        assert [kind for kind, _, _ in events] == ["gone"], "a browser that comes back learns it too"
    gone = page.get(f"/jobs/{row['uid']}")
    assert (gone.status, "trial:1 is gone" in gone.text, "It was deleted" in gone.text) == (404, True, True)
    assert [each["run"] for each in page.data("/api/jobs")["items"]] == ["trial:2"]

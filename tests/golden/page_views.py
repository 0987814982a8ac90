"""What the page shows: the DOM of its views, and what each endpoint below /api answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.golden.console import Console, Goldens
from tests.golden.dom import normalised
from tests.golden.page_server import Page
from tests.golden.store_archive import Recorded

_WIDTH: Final = 150
# Of each run.
DATA: Final = ("", "/timeline", "/pods", "/metrics", "/events", "/policies", "/logs?lines=20")
# Of some runs: these answers are long, or the same for many.
MORE_DATA: Final = (
    "/rendered",
    "/rendered?pod=worker-0&compare=worker-1",
    "/file",
    "/logs?lines=5&at=0",
    "/logs?lines=5&q=up&only=1",
    "/logs?lines=5&task=worker&stream=stderr",
    "/logs/search?q=up",
    "/metrics?step=5&pod=worker-0",
    "/timeline?attempt=1&every=1",
    "/pods?attempt=1",
    "/actions/stop",
    "/actions/suspend",
    "/actions/resume",
    "/actions/restart",
    "/actions/again",
    "/actions/delete",
)
TABS: Final = ("resources", "rendered", "events", "policies")
IN_DETAIL: Final = ("done", "exception", "restarts", "long-life", "running", "queue", "hostile")
DATA_LISTS: Final = ("", "phase=waiting", "phase=failed", "q=oom", "phase=failed&q=exit")
LISTS: Final = ("phase=waiting", "phase=running", "phase=failed", "q=baseline", "phase=failed&q=exit")
# Routes that serve no data of runs.
NOT_SHOWN: Final = frozenset({"/static/{name}", "/favicon.ico"})


@dataclass(slots=True)
class Views:
    page: Page
    console: Console
    names: Mapping[str, str] = field(default_factory=dict)  # of runs, by uid
    asked: set[tuple[str, str]] = field(default_factory=set)  # method and path

    def data(self, path: str) -> dict[str, str]:
        """Return the section of an endpoint."""
        status, text, _ = self.page.ask("GET", path)
        return self._section("GET", path, status, formatted(json.loads(self._clean(text))))

    def view(self, path: str, *, whole: bool = False) -> dict[str, str]:
        """Return the section of a page; what every page has around its contents is left out if it is not asked for."""
        status, text, _ = self.page.ask("GET", path)
        return self._section("GET", path, status, normalised(self._clean(text), whole=whole))

    def stream(self, path: str) -> dict[str, str]:
        lines = []
        for line in self._clean(self.page.stream(path)).splitlines():
            name, _, value = line.partition(": ")
            lines.append(f"data:\n{formatted(json.loads(value))}" if name == "data" else f"{line}\n")
        return self._section("GET", path, 200, "".join(lines))

    def post(self, path: str) -> dict[str, str]:
        status, text, headers = self.page.post(path)
        text = self._clean(text)
        if headers.get("Location"):
            shown = f"Location: {headers['Location']}\n"
        else:
            shown = formatted(json.loads(text)) if path.startswith("/api") else normalised(text)
        return self._section("POST", path, status, shown)

    def _section(self, method: str, path: str, status: int, text: str) -> dict[str, str]:
        self.asked.add((method, path.partition("?")[0]))
        for uid, name in self.names.items():
            path = path.replace(uid, name)
        return {f"{method} {path}{f'  ({status})' if status != 200 else ''}": text}

    def _clean(self, text: str) -> str:
        return self.console.clean(text).replace(self.page.token, "TOKEN")

    def not_asked(self) -> list[str]:
        """Return the routes of the server that no golden has."""
        found = []
        for method, route in sorted(self.page.routes):
            pattern = re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(route)))
            if route not in NOT_SHOWN and not any(m == method and pattern.fullmatch(p) for m, p in self.asked):
                found.append(f"{method} {route}")
        return found


def empty_page(views: Views) -> Goldens:
    """Return what there is to see without any run, and without the token of the address."""
    data = views.data("/api/jobs") | views.data("/api/info")
    html = views.view("/") | views.view("/jobs/nope")
    opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
    status, text, _ = views.page.without_cookie().ask("GET", "/", **opened)
    html[f"GET / without its token  ({status})"] = normalised(text)
    return {"api/empty": data, "page/empty": html}


def page_goldens(views: Views, stories: Mapping[str, Sequence[Recorded]]) -> Goldens:
    found: Goldens = {}
    for story, runs in stories.items():
        data = found[f"api/{story}"] = dict[str, str]()
        html = found[f"page/{story}"] = dict[str, str]()
        for run in filter(lambda each: each.uid, runs):
            in_detail = story in IN_DETAIL and run is runs[0]
            for end in (*DATA, *(MORE_DATA if in_detail else ())):
                data |= views.data(f"/api/jobs/{run.uid}{end}")
            html |= views.view(f"/jobs/{run.uid}")
            for tab in TABS if in_detail else ():
                html |= views.view(f"/jobs/{run.uid}?tab={tab}")
            if in_detail:
                data |= views.stream(f"/api/stream?job={run.uid}&last=0.0.0")
    found["api/all"], found["page/all"] = _lists(views, {run.ref: run.uid for runs in stories.values() for run in runs})
    return found


def _lists(views: Views, uids: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the lists of runs, what is refused, and what an action does; the last of them removes a run."""
    data, html = views.data("/api/info"), views.view("/", whole=True)
    for query in DATA_LISTS:
        data |= views.data(f"/api/jobs?{query}")
    for query in LISTS:
        html |= views.view(f"/?{query}")
    data |= views.data(f"/api/jobs/{uids['long-log:1']}/logs/volume")
    data |= views.stream("/api/stream")
    for path in (
        "/api/jobs/nope",
        "/api/jobs/nope/logs",
        "/api/jobs?phase=nope",
        f"/api/jobs/{uids['done:1']}/logs?stream=x",
    ):
        data |= views.data(path)
    html |= views.view(f"/jobs/{uids['exception:1']}?attempt=1&pod=worker-1&q=Error&only=1", whole=True)
    for run, action in (("running:1", "stop"), ("done:1", "again"), ("done:1", "delete"), ("suspended:1", "resume")):
        html |= views.view(f"/jobs/{uids[run]}/actions/{action}")
    for path in ("/jobs/nope", "/?phase=nope", f"/jobs/{uids['done:1']}?tab=nope"):
        html |= views.view(path)
    for run, action in (("done:1", "stop"), ("elsewhere:1", "stop"), ("done:1", "delete")):
        data |= views.post(f"/api/jobs/{uids[run]}/actions/{action}")
    for run, action in (("done:2", "stop"), ("done:2", "delete")):
        html |= views.post(f"/jobs/{uids[run]}/actions/{action}")
    html |= views.view(f"/jobs/{uids['done:1']}")
    return data, html


def formatted(value: Any) -> str:
    """Return JSON with as much on a line as fits."""
    return f"{_formatted(value, '')}\n"


def _formatted(value: Any, space: str) -> str:
    plain = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(space) + len(plain) <= _WIDTH:
        return plain
    inner = f"{space} "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(key)}: {_formatted(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{space}}}"
    if all(isinstance(each, int | float | None) for each in value):
        return _numbers(value, inner) + f"\n{space}]"
    parts = [f"{inner}{_formatted(each, inner)}" for each in value]
    return "[\n" + ",\n".join(parts) + f"\n{space}]"


def _numbers(values: Sequence[float | None], space: str) -> str:
    """Return the beginning of a list of numbers, with many on a line."""
    texts, lines = [json.dumps(each) for each in values], [""]
    for text in texts:
        if len(lines[-1]) + len(text) > _WIDTH:
            lines.append("")
        lines[-1] += f"{text}, " if lines[-1] else f"{space}{text}, "
    return "[\n" + "\n".join(line.rstrip() for line in lines).rstrip(",")

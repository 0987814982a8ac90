"""Serves the made-up views as `pumice ui` serves real ones: the same headers, files, JSON and stream."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from pumice.ui import pages
from pumice.ui.detail_values import JobView, LogWindow, PodPage, SearchResult
from pumice.ui.security import HEADERS
from tests.page import samples, samples_failed, samples_live

STATIC: Final = Path(pages.__file__).parent / "static"
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
JOBS: Final[dict[str, Callable[[], JobView]]] = {
    "u-fail": samples_failed.failed,
    "u-run": samples_live.running,
    "u-hang": samples_live.hanging,
    "u-wait": samples_live.waiting,
    "u-many": samples_live.many,
    "u-hostile": samples_live.hostile,
    "u-tasks": samples_live.seven_tasks,
}
ERROR: Final = (samples.FRAME, "No such job", "mpi-bench-7: no run has this uid")
# Every view that the pictures show, by name
VIEWS: Final[dict[str, str]] = {
    "jobs": "/",
    "empty": "/empty",
    "job-failed": "/jobs/u-fail",
    "job-running": "/jobs/u-run",
    "job-hanging": "/jobs/u-hang",
    "job-waiting": "/jobs/u-wait",
    "job-1000": "/jobs/u-many",
    "job-hostile": "/jobs/u-hostile",
    "resources": "/jobs/u-fail?tab=resources",
    "rendered": "/jobs/u-fail?tab=rendered",
    "events": "/jobs/u-fail?tab=events",
    "policies": "/jobs/u-fail?tab=policies",
    "action": "/jobs/u-run/actions/stop",
    "error": "/jobs/none",
}


@cache
def view_of(uid: str) -> JobView:
    """Return the view of a job, made once: that of 1,000 pods takes long."""
    return JOBS[uid]()


def page(path: str, query: dict[str, list[str]], *, turned: bool = False) -> str:
    """Return a page."""
    _, *parts = path.split("/")
    if path == "/":
        return pages.jobs_page(*samples.jobs(samples.ROWS[::-1] if turned else samples.ROWS))
    if path == "/empty":
        return pages.jobs_page(*samples.empty())
    if len(parts) < 2 or parts[1] not in JOBS:
        return pages.error_page(*ERROR)
    view = view_of(parts[1])
    if len(parts) > 2:
        return pages.action_page(samples.FRAME, view.job, samples.STOP)
    tab = query.get("tab", ["overview"])[0]
    pod = query.get("pod", [""])[0]
    view = replace(view, tab=tab, chosen=msgspec.structs.replace(view.chosen, pod=pod))
    return pages.job_page(samples_live.with_every_line(view) if "every" in query else view)


def data(path: str, query: dict[str, list[str]]) -> msgspec.Struct | None:
    """Return what an endpoint answers."""
    parts = path.split("/")
    view = view_of(parts[3]) if len(parts) > 3 and parts[3] in JOBS else None
    if view is None:
        return None
    if path.endswith("/logs"):
        window = _window(view.logs, query)
        return (
            pages.draw_lines(window, view.job.tasks, query.get("q", [""])[0]) if window and "html" in query else window
        )
    if path.endswith("/search") and view.logs:
        q = query["q"][0].lower()
        found = tuple(line.number for line in view.logs.items if q in line.text.lower())
        return SearchResult(q=q, total=len(found), positions=found, lines=view.logs.total)
    if path.endswith("/pods"):
        return view.pods or PodPage(attempt=1, items=(), total=0)
    return samples.STOP if "/actions/" in path else None


def _window(logs: LogWindow | None, query: dict[str, list[str]]) -> LogWindow | None:
    if logs is None:
        return None
    at, lines = (int(query.get(name, [default])[0]) for name, default in (("at", "0"), ("lines", "200")))
    if "only" in query:
        found = tuple(line for line in logs.items if query["q"][0].lower() in line.text.lower())
        shown = found[at : at + lines]
        return msgspec.structs.replace(logs, at=at, items=shown, total=len(found), lines=logs.total)
    start = max(0, min(at, logs.total - 1))
    items = logs.items[start : start + lines]
    if "whole" in query:
        items = tuple(msgspec.structs.replace(line, text=line.text * 3, cut=None, redraws=0) for line in items)
    return msgspec.structs.replace(logs, at=start, items=items)


@dataclass(slots=True)
class Served:
    """The server as a test sees it: it can go away, show the list in another order, and send events."""

    address: str = ""
    away: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    turned: bool = False
    missing: str = ""  # the uid of a job that was removed
    refuses: bool = False  # as a server that was started again, and does not know the browser
    streams: list[queue.SimpleQueue[bytes]] = field(default_factory=list)

    def send(self, kind: str, data: msgspec.Struct | None = None) -> None:
        """Send an event on all streams."""
        event = f"event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
        for stream in list(self.streams):
            stream.put(event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ClassVar[Served]

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        path, query = split.path, parse_qs(split.query)
        state = self.server_state
        if (state.away.is_set() or state.refuses) and not path.startswith("/static/"):
            self.send_error(403 if state.refuses else 503)
        elif path.startswith("/static/"):
            file = STATIC / path.removeprefix("/static/")
            self._answer(file.read_bytes(), TYPES[file.suffix])
        elif path == "/api/stream":
            self._stream()
        elif path.startswith("/api/"):
            self._answer(msgspec.json.encode(data(path, query)), "application/json")
        else:
            found = (
                pages.error_page(*ERROR) if path == f"/jobs/{state.missing}" else page(path, query, turned=state.turned)
            )
            self._answer(found.encode(), "text/html; charset=utf-8")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        for name, value in {**HEADERS, "Content-Type": "text/event-stream", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        state, events = self.server_state, queue.SimpleQueue[bytes]()
        state.streams.append(events)
        while not state.stopping.is_set() and not state.away.is_set() and not state.refuses:
            try:
                event = events.get(timeout=0.3)
            except queue.Empty:
                event = b"event: beat\ndata: {}\n\n"
            try:
                self.wfile.write(event)
            except OSError:
                break
        state.streams.remove(events)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@contextmanager
def served() -> Iterator[Served]:
    """Serve in a thread."""
    state = Served()
    handler = type("Sample", (Handler,), {"server_state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()

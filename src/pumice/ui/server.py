"""The server of `pumice ui`: pages, JSON, a stream of changes, and the static files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from pumice.client.local_client import LocalClient
from pumice.engines.local.run_errors import RunError
from pumice.runtime.http_server import HttpServer
from pumice.ui import html_job, html_jobs
from pumice.ui.data.actions import ACTIONS
from pumice.ui.detail_values import ActionResult
from pumice.ui.html.text import ago
from pumice.ui.page_data import NoSuchJobError, PageData
from pumice.ui.queries import BadQueryError, JobQuery, group_of_query
from pumice.ui.security import Gate, Rate
from pumice.ui.stream import Read, Streams
from pumice.ui.values import Value
from pumice.ui.views import OVERVIEW, ActionView, ErrorView, Frame, JobsView

_LARGEST_BODY: Final = 64 << 10
_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
T = TypeVar("T")


@dataclass(slots=True)
class PageServer:
    client: LocalClient
    gate: Gate = field(default_factory=lambda: Gate(rate=Rate(time.monotonic)))
    data: PageData = field(init=False)
    streams: Streams = field(init=False)
    _http: HttpServer = field(init=False)
    # One thread reads, so that no value changes while it is read; logs have a thread of their own, they may be large.
    _reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "page-data"))
    _logs: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "page-logs"))
    # A process that does not respond must not keep the page from being read.
    _actor: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "page-actions"))
    _files: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = PageData(self.client)
        self.streams = Streams(self.data, self.read, self.read_logs)
        self._files = _static_files()
        app = web.Application(middlewares=[self.gate.middleware, self._errors], client_max_size=_LARGEST_BODY)
        app.router.add_get("/", self._jobs_page)
        app.router.add_get("/static/{name}", self._file)
        app.router.add_get("/favicon.ico", self._no_icon)
        app.router.add_get("/jobs/{uid}", self._job_page)
        app.router.add_get("/jobs/{uid}/actions/{name}", self._action_page)
        app.router.add_post("/jobs/{uid}/actions/{name}", self._action_form)
        app.router.add_get("/api/info", self._info)
        app.router.add_get("/api/jobs", self._listing)
        app.router.add_get("/api/jobs/{uid}", self._job)
        for name, (read, work) in {
            "timeline": (self.read, self.data.timeline),
            "pods": (self.read, self.data.pods),
            "metrics": (self.read, self.data.metrics),
            "rendered": (self.read, self.data.rendered),
            "events": (self.read, self.data.events),
            "policies": (self.read, self.data.policies),
            "file": (self.read, self.data.file),
            "logs": (self.read_logs, self.data.logs),
            "logs/search": (self.read_logs, self.data.search),
            "logs/volume": (self.read_logs, self.data.volume),
        }.items():
            app.router.add_get(f"/api/jobs/{{uid}}/{name}", self._endpoint(read, work))
        app.router.add_get("/api/jobs/{uid}/actions/{name}", self._plan)
        app.router.add_post("/api/jobs/{uid}/actions/{name}", self._act)
        app.router.add_get("/api/stream", self._stream)
        self._http = HttpServer(app)

    async def start(self, port: int = 0) -> str:
        """Listen on loopback, and return the address with the token. Raises OSError if the port is taken."""
        self.gate.port = await self._http.start("127.0.0.1", port)
        return self.gate.address

    async def stop(self) -> None:
        self.streams.stop()
        await self._http.stop()
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._logs.shutdown(wait=False, cancel_futures=True)
        self._actor.shutdown(wait=False, cancel_futures=True)

    async def read(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work, *args)

    async def read_logs(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._logs, work, *args)

    async def act(self, request: web.Request) -> ActionResult:
        work = partial(self.data.act, request.match_info["uid"], _action(request))
        return await asyncio.get_running_loop().run_in_executor(self._actor, work)

    # --- pages ----------------------------------------------------------------------------------------------------

    async def _frame(self) -> Frame:
        return Frame(await self.read(self.data.info), self.gate.form_token)

    async def _jobs_page(self, request: web.Request) -> web.Response:
        query = request.query
        group = group_of_query(query)
        listing = await self.read(self.data.listing, group, query.get("q", ""), query.get("after", ""))
        return _html(html_jobs.page(JobsView(await self._frame(), listing)))

    async def _job_page(self, request: web.Request) -> web.Response:
        query = JobQuery.of(request.match_info["uid"], request.query)
        view = await self.read(self.data.job_view, await self._frame(), query)
        if query.tab == OVERVIEW:
            view = await self.read_logs(self.data.with_logs, view, query)
        return _html(html_job.page(view))

    async def _action_page(self, request: web.Request) -> web.Response:
        uid, name = request.match_info["uid"], _action(request)
        job, plan = await self.read(self.data.job, uid), await self.read(self.data.action_plan, uid, name)
        return _html(html_job.action(ActionView(await self._frame(), job, plan)))

    async def _action_form(self, request: web.Request) -> web.Response:
        """Act, and redirect to the job, the new run or the list."""
        uid, name = request.match_info["uid"], _action(request)
        result = await self.act(request)
        if result.done:
            return web.Response(status=303, headers={"Location": f"/jobs/{result.uid}" if result.uid else "/"})
        job, plan = await self.read(self.data.job, uid), await self.read(self.data.action_plan, uid, name)
        return _html(html_job.action(ActionView(await self._frame(), job, plan, result.message)), status=409)

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            return web.Response(status=404)
        return web.Response(
            body=found[0], content_type=found[1], charset="utf-8", headers={"Cache-Control": "no-cache"}
        )

    async def _no_icon(self, _request: web.Request) -> web.Response:
        return web.Response(status=204)

    # --- data -----------------------------------------------------------------------------------------------------

    async def _info(self, _request: web.Request) -> web.Response:
        return _json(await self.read(self.data.info))

    async def _listing(self, request: web.Request) -> web.Response:
        query = request.query
        group = group_of_query(query)
        return _json(await self.read(self.data.listing, group, query.get("q", ""), query.get("after", "")))

    async def _job(self, request: web.Request) -> web.Response:
        return _json(await self.read(self.data.job, request.match_info["uid"]))

    def _endpoint(self, read: Read, work: Callable[[JobQuery], Value]) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            return _json(await read(work, JobQuery.of(request.match_info["uid"], request.query)))

        return answer

    async def _plan(self, request: web.Request) -> web.Response:
        return _json(await self.read(self.data.action_plan, request.match_info["uid"], _action(request)))

    async def _act(self, request: web.Request) -> web.Response:
        result = await self.act(request)
        return _json(result, 200 if result.done else 409)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        return await self.streams.serve(request)

    @web.middleware
    async def _errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer invalid requests: in JSON below /api, else as a page."""
        try:
            response: web.StreamResponse = await handler(request)
        except NoSuchJobError as error:
            status, title, message = 404, "No such job", str(error)
            if error.gone is not None and not request.path.startswith("/api/"):
                run, when = error.gone
                title = f"{run} is gone"
                message = f"It was deleted {ago(when, self.data.client.now())}, with its record."
        except BadQueryError as error:
            status, title, message = 400, "Bad request", str(error)
        except (OSError, RunError) as error:
            status, title, message = 500, "The store cannot be read", str(error)
        else:
            return response
        if request.path.startswith("/api/"):
            return web.Response(
                body=msgspec.json.encode({"error": message}), status=status, content_type="application/json"
            )
        return _html(html_job.error(ErrorView(await self._frame(), title, message)), status=status)


def _action(request: web.Request) -> str:
    name = request.match_info["name"]
    if name not in ACTIONS:
        raise BadQueryError(f"{name}: no such action; there are {', '.join(ACTIONS)}")
    return name


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", status=status)


def _json(value: Value, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Read the static files at the start. They are few and small, and so no request is used as a path."""
    found = {}
    for path in files("pumice.ui").joinpath("static").iterdir():
        kind = next((kind for suffix, kind in _TYPES.items() if path.name.endswith(suffix)), None)
        if kind is not None:
            found[path.name] = (path.read_bytes(), kind)
    return found

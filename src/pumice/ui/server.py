"""The server of `pumice ui`: pages, JSON, a stream of changes, and the static files."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from pumice.client.backend import Backend
from pumice.runtime.http_server import HttpServer
from pumice.store.run_errors import ConnectionFailed, NoSuchRun, RunError
from pumice.ui import pages
from pumice.ui.data.actions import ACTIONS
from pumice.ui.data.jobs import NoSuchJobError
from pumice.ui.detail_values import Frame, LogWindow
from pumice.ui.page_data import PageData
from pumice.ui.queries import OVERVIEW, BadQueryError, JobQuery, group_of_query
from pumice.ui.security import Gate, Rate
from pumice.ui.stream import Streams
from pumice.ui.values import Listing, Value
from pumice.ui.words import ago

_LARGEST_BODY: Final = 64 << 10
_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}


@dataclass(slots=True)
class PageServer:
    backend: Backend
    gate: Gate = field(default_factory=lambda: Gate(rate=Rate(time.monotonic)))
    data: PageData = field(init=False)
    streams: Streams = field(init=False)
    http: HttpServer = field(init=False)
    _files: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = PageData(self.backend)
        self.streams = Streams(self.data)
        # They are few and small, and so no request is used as a path.
        for file in files("pumice.ui").joinpath("static").iterdir():
            kind = _TYPES.get(Path(file.name).suffix)
            if kind is not None:
                self._files[file.name] = (file.read_bytes(), kind)
        data = self.data
        app = web.Application(middlewares=[self.gate.middleware, self._errors], client_max_size=_LARGEST_BODY)
        app.router.add_get("/", self._jobs_page)
        app.router.add_get("/static/{name}", self._file)
        app.router.add_get("/favicon.ico", self._no_icon)
        app.router.add_get("/jobs/{uid}", self._job_page)
        app.router.add_get("/jobs/{uid}/actions/{name}", self._action_page)
        app.router.add_post("/jobs/{uid}/actions/{name}", self._action_form)
        answers: Mapping[str, Callable[[web.Request], Awaitable[Value]]] = {
            "info": lambda _: data.info(),
            "jobs": self._listing,
            "jobs/{uid}": lambda request: data.job(request.match_info["uid"]),
            "jobs/{uid}/logs": self._logs,
            "jobs/{uid}/actions/{name}": lambda request: data.action_plan(request.match_info["uid"], _action(request)),
            "jobs/{uid}/timeline": lambda request: data.timeline(_query(request)),
            "jobs/{uid}/pods": lambda request: data.pods(_query(request)),
            "jobs/{uid}/metrics": lambda request: data.metrics(_query(request)),
            "jobs/{uid}/rendered": lambda request: data.rendered(_query(request)),
            "jobs/{uid}/events": lambda request: data.events(_query(request)),
            "jobs/{uid}/policies": lambda request: data.policies(_query(request)),
            "jobs/{uid}/file": lambda request: data.file(_query(request)),
            "jobs/{uid}/logs/search": lambda request: data.search(_query(request)),
            "jobs/{uid}/logs/volume": lambda request: data.volume(_query(request)),
        }
        for path, answer in answers.items():
            app.router.add_get(f"/api/{path}", _endpoint(answer))
        app.router.add_post("/api/jobs/{uid}/actions/{name}", self._act)
        app.router.add_get("/api/stream", self.streams.serve)
        self.http = HttpServer(app)

    async def start(self, port: int = 0) -> str:
        """Listen on loopback, and return the address with the token.

        Raises OSError if the port is taken, and RunError if runs cannot be read at all.
        """
        await self.data.observer.open()
        # While the browser starts.
        threading.Thread(target=pages.compile_templates, daemon=True).start()
        self.gate.port = await self.http.start("127.0.0.1", port)
        return self.gate.address

    async def stop(self) -> None:
        self.streams.stop()
        await self.http.stop()
        await self.data.observer.close()

    # --- pages ----------------------------------------------------------------------------------------------------

    async def _frame(self) -> Frame:
        return await self.data.frame(self.gate.form_token)

    async def _jobs_page(self, request: web.Request) -> web.Response:
        listing = await self._listing(request)
        return _html(pages.jobs_page(await self._frame(), listing))

    async def _job_page(self, request: web.Request) -> web.Response:
        query = _query(request)
        view = await self.data.job_view(await self._frame(), query)
        if query.tab == OVERVIEW:
            view = await self.data.with_logs(view, query)
        return _html(pages.job_page(view))

    async def _action_page(self, request: web.Request) -> web.Response:
        uid, name = request.match_info["uid"], _action(request)
        job, plan = await self.data.job(uid), await self.data.action_plan(uid, name)
        return _html(pages.action_page(await self._frame(), job, plan))

    async def _action_form(self, request: web.Request) -> web.Response:
        """Act, and redirect to the job, the new run or the list."""
        uid, name = request.match_info["uid"], _action(request)
        result = await self.data.act(uid, name)
        if result.done:
            return web.Response(status=303, headers={"Location": f"/jobs/{result.uid}" if result.uid else "/"})
        job, plan = await self.data.job(uid), await self.data.action_plan(uid, name)
        return _html(pages.action_page(await self._frame(), job, plan, result.message), status=409)

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

    async def _listing(self, request: web.Request) -> Listing:
        query = request.query
        return await self.data.listing(group_of_query(query), query.get("q", ""), query.get("after", ""))

    async def _logs(self, request: web.Request) -> LogWindow:
        query = _query(request)
        window = await self.data.logs(query)
        return pages.draw_lines(window, await self.data.tasks(query.uid), query.q) if query.html else window

    async def _act(self, request: web.Request) -> web.Response:
        result = await self.data.act(request.match_info["uid"], _action(request))
        return _json(result, 200 if result.done else 409)

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
                message = f"It was deleted {ago(when, self.backend.now())}, with its record."
        except NoSuchRun as error:
            # It was removed just now.
            status, title, message = 404, "No such job", str(error)
        except BadQueryError as error:
            status, title, message = 400, "Bad request", str(error)
        except ConnectionFailed as error:
            status, title, message = 503, "No connection", str(error)
        except (OSError, RunError) as error:
            status, title, message = 500, "The store cannot be read", str(error)
        else:
            return response
        if request.path.startswith("/api/"):
            return _json({"error": message}, status)
        return _html(pages.error_page(await self._frame(), title, message), status=status)


def _endpoint(work: Callable[[web.Request], Awaitable[Value]]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return _json(await work(request))

    return answer


def _query(request: web.Request) -> JobQuery:
    return JobQuery.of(request.match_info["uid"], request.query)


def _action(request: web.Request) -> str:
    name = request.match_info["name"]
    if name not in ACTIONS:
        raise BadQueryError(f"{name}: no such action; there are {', '.join(ACTIONS)}")
    return name


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", status=status)


def _json(value: Value | dict[str, str], status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)

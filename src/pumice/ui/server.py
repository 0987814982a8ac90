"""The server of `pumice ui`: pages, JSON, a stream of changes, and the static files."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from pumice.client.backend import Backend
from pumice.runtime.http_server import HttpServer
from pumice.store.run_errors import ConnectionFailed, NoSuchRun, RunError
from pumice.ui import pages
from pumice.ui.data.actions import ACTIONS
from pumice.ui.data.runs import NoSuchJobError
from pumice.ui.page_data import PageData
from pumice.ui.queries import BadQueryError, JobQuery, group_of_query
from pumice.ui.security import Gate, Rate
from pumice.ui.stream import Streams
from pumice.ui.values import Value
from pumice.ui.views import OVERVIEW, ActionView, ErrorView, Frame, JobsView
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
        answers: Mapping[str, Callable[[JobQuery], Awaitable[Value]]] = {
            "timeline": self.data.timeline,
            "pods": self.data.pods,
            "metrics": self.data.metrics,
            "rendered": self.data.rendered,
            "events": self.data.events,
            "policies": self.data.policies,
            "file": self.data.file,
            "logs/search": self.data.search,
            "logs/volume": self.data.volume,
        }
        for name, answer in answers.items():
            app.router.add_get(f"/api/jobs/{{uid}}/{name}", _endpoint(answer))
        app.router.add_get("/api/jobs/{uid}/logs", self._logs)
        app.router.add_get("/api/jobs/{uid}/actions/{name}", self._plan)
        app.router.add_post("/api/jobs/{uid}/actions/{name}", self._act)
        app.router.add_get("/api/stream", self._stream)
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
        query = request.query
        group = group_of_query(query)
        listing = await self.data.listing(group, query.get("q", ""), query.get("after", ""))
        return _html(pages.jobs_page(JobsView(await self._frame(), listing)))

    async def _job_page(self, request: web.Request) -> web.Response:
        query = JobQuery.of(request.match_info["uid"], request.query)
        view = await self.data.job_view(await self._frame(), query)
        if query.tab == OVERVIEW:
            view = await self.data.with_logs(view, query)
        return _html(pages.job_page(view))

    async def _action_page(self, request: web.Request) -> web.Response:
        uid, name = request.match_info["uid"], _action(request)
        job, plan = await self.data.job(uid), await self.data.action_plan(uid, name)
        return _html(pages.action_page(ActionView(await self._frame(), job, plan)))

    async def _action_form(self, request: web.Request) -> web.Response:
        """Act, and redirect to the job, the new run or the list."""
        uid, name = request.match_info["uid"], _action(request)
        result = await self.data.act(uid, name)
        if result.done:
            return web.Response(status=303, headers={"Location": f"/jobs/{result.uid}" if result.uid else "/"})
        job, plan = await self.data.job(uid), await self.data.action_plan(uid, name)
        return _html(pages.action_page(ActionView(await self._frame(), job, plan, result.message)), status=409)

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
        return _json(await self.data.info())

    async def _listing(self, request: web.Request) -> web.Response:
        query = request.query
        group = group_of_query(query)
        return _json(await self.data.listing(group, query.get("q", ""), query.get("after", "")))

    async def _job(self, request: web.Request) -> web.Response:
        return _json(await self.data.job(request.match_info["uid"]))

    async def _logs(self, request: web.Request) -> web.Response:
        query = JobQuery.of(request.match_info["uid"], request.query)
        window = await self.data.logs(query)
        if query.html:
            window = pages.draw_lines(window, await self.data.tasks(query.uid), query.q)
        return _json(window)

    async def _plan(self, request: web.Request) -> web.Response:
        return _json(await self.data.action_plan(request.match_info["uid"], _action(request)))

    async def _act(self, request: web.Request) -> web.Response:
        result = await self.data.act(request.match_info["uid"], _action(request))
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
            return web.Response(
                body=msgspec.json.encode({"error": message}), status=status, content_type="application/json"
            )
        return _html(pages.error_page(ErrorView(await self._frame(), title, message)), status=status)


def _endpoint(work: Callable[[JobQuery], Awaitable[Value]]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return _json(await work(JobQuery.of(request.match_info["uid"], request.query)))

    return answer


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

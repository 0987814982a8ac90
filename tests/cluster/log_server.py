"""A proxy of the API server that serves logs, as a kubelet writes them: the cluster of these tests has no node."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass, field

from aiohttp import web

from tests.cluster.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy


@dataclass(slots=True)
class ContainerOutput:
    """The lines of one execution, each with its time; `ended` ends the connections that follow it."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    ended: bool = True

    def after(self, since: str) -> bytes:
        """The server knows seconds only."""
        first = dt.datetime.fromisoformat(since) if since else None
        shown = [
            f"{time} {text}\n"
            for time, text in self.lines
            if first is None or dt.datetime.fromisoformat(f"{time[:19]}+00:00") >= first
        ]
        # As os.fsencode: a program may print any bytes.
        return "".join(shown).encode("utf-8", "surrogateescape")


class LogServer(FaultProxy):
    """`cut_after`: after so many bytes, a connection that follows is cut, wherever that is in a line.

    While `hangs`, logs do not come, as of a node that has gone. `asked` are the pods whose logs were asked for.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.outputs: dict[tuple[str, bool], ContainerOutput] = {}  # by pod, and whether it is the previous execution
        self.cut_after = 0
        self.cuts = 0
        self.hangs = False
        self.asked: list[str] = []
        self.silent_nodes: set[str] = set()  # pods whose nodes do not answer

    def output(self, pod: str, container: str, *, is_previous: bool) -> ContainerOutput | None:
        """Return what a container printed; here all containers of a pod have the same output."""
        del container
        return self.outputs.get((pod, is_previous))

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/log") and not self.is_down:
            return await self._log(request)
        return await super()._serve(request)

    async def _log(self, request: web.BaseRequest) -> web.StreamResponse:
        query, pod = request.query, request.path.split("/")[-2]
        self.asked.append(pod)
        if self.hangs:
            # Until the client goes away.
            await asyncio.Event().wait()
        output = self.output(pod, query.get("container", ""), is_previous=query.get("previous") == "true")
        if pod in self.silent_nodes:
            text = f"Get https://10.0.0.9:10250/containerLogs/ns/{pod}/main: dial tcp 10.0.0.9:10250: connect: refused"
            status = {"kind": "Status", "reason": "InternalError", "code": 500, "message": text}
            return web.json_response(status, status=500)
        if output is None:
            return web.json_response({"kind": "Status", "reason": "BadRequest", "code": 400}, status=400)
        content = output.after(query.get("sinceTime", ""))
        if "tailLines" in query:
            content = b"".join(content.splitlines(keepends=True)[-int(query["tailLines"]) :])
        if "limitBytes" in query:
            content = content[: int(query["limitBytes"])]
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        follows = query.get("follow") == "true"
        sent = 0
        while True:
            if self.is_down:
                assert request.transport is not None
                request.transport.abort()
                return response
            if self.cut_after and follows and len(content) - sent > self.cut_after:
                await response.write(content[sent : sent + self.cut_after])
                self.cuts += 1
                assert request.transport is not None
                # What is on its way arrives first.
                request.transport.close()
                return response
            await response.write(content[sent:])
            sent = len(content)
            if not follows or output.ended:
                await response.write_eof()
                return response
            await asyncio.sleep(0.02)
            content = output.after(query.get("sinceTime", ""))

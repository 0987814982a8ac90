"""A small API server with a memory: lists in pages, watches from any version it remembers, and faults on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.unit.engines.kubernetes.played_api import cut, event, refusing

# A fault gets the request and says how to answer instead; None lets the request through.
Fault = Callable[[web.BaseRequest], Any]


@dataclass
class PlayedStore:
    version: int = 100
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    # (version, kind, object as it was)
    history: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    remembered_from: int = 0
    faults: list[Fault] = field(default_factory=list)
    lists: int = 0
    watches: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _cutting: int = 0
    _watched_since: int = -1

    # --- what happens on the server -----------------------------------------------------------------------------------

    def write(self, name: str, **content: Any) -> dict[str, Any]:
        known = name in self.objects
        uid = self.objects[name]["metadata"]["uid"] if known else f"{name}-{self.version + 1}"
        return self._happen("MODIFIED" if known else "ADDED", name, uid, content)

    def delete(self, name: str) -> dict[str, Any]:
        return self._happen("DELETED", name, self.objects[name]["metadata"]["uid"], {})

    def bookmark(self) -> None:
        """What a server says each minute."""
        self._record("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}})

    def forget(self) -> None:
        """Compaction: watches can start only from the present on."""
        self.remembered_from = self.version

    @property
    def is_watched(self) -> bool:
        """Whether a watch has begun since the last time that they were cut."""
        return self._watched_since == self._cutting

    def cut_watches(self) -> None:
        self._cutting += 1
        self._wake()

    def restore(self, version: int) -> None:
        """Back to an earlier count, as from a backup; the objects are what the test makes of them."""
        self.version = version
        self.history.clear()
        self.remembered_from = 0
        self.cut_watches()

    def _happen(self, kind: str, name: str, uid: str, content: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.version)}
        happened = {"kind": "Pod", "metadata": metadata, **content}
        if kind == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = happened
        self._record(kind, happened)
        return happened

    def _record(self, kind: str, content: dict[str, Any]) -> None:
        self.history.append((self.version, kind, content))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        for fault in list(self.faults):
            answer = fault(request)
            if answer is not None:
                self.faults.remove(fault)
                made: web.StreamResponse = await answer(request)
                return made
        return await (self._watch(request) if "watch" in request.query else self._list(request))

    async def _list(self, request: web.BaseRequest) -> web.StreamResponse:
        self.lists += 1
        offset = int(request.query.get("continue", "0"))
        end = offset + int(request.query["limit"])
        items = [self.objects[name] for name in sorted(self.objects)]
        metadata = {"resourceVersion": str(self.version)} | ({"continue": str(end)} if end < len(items) else {})
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": items[offset:end]})

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        self.watches.append(request.query["resourceVersion"])
        since, cutting = int(request.query["resourceVersion"]), self._cutting
        if since < self.remembered_from:
            return await refusing(410, "Expired")(request)
        response = web.StreamResponse()
        await response.prepare(request)
        self._watched_since = cutting
        told = 0
        while self._cutting == cutting:
            news = self._news
            for version, kind, content in self.history[told:]:
                if version > since or kind == "BOOKMARK":
                    await response.write(event(kind, content))
            told = len(self.history)
            await news.wait()
        return await cut(request)

    def held(self) -> dict[str, str]:
        return {name: content["metadata"]["resourceVersion"] for name, content in self.objects.items()}


def on_watch(answer: Any) -> Fault:
    return lambda request: answer if "watch" in request.query else None


def on_list(answer: Any) -> Fault:
    return lambda request: answer if "watch" not in request.query else None


def replayed(told: list[tuple[str | None, str | None]]) -> dict[str, str]:
    """What a listener would hold who knows nothing but what he is told; each `before` must be what he holds."""
    held: dict[str, str] = {}
    for before, after in told:
        if before is not None:
            uid, version = before.split("@")
            assert held.pop(uid) == version
        if after is not None:
            uid, version = after.split("@")
            held[uid] = version
    return held

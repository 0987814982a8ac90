"""A fake API server with state: paged lists, watches from any remembered version, and scripted failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.unit.engines.kubernetes.played_api import cut, event, refusing

# Takes a request and returns another handler for it, or None to let it pass.
Failure = Callable[[web.BaseRequest], Any]


@dataclass
class PlayedStore:
    version: int = 100
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    # (version, kind, object as it was)
    history: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    remembered_from: int = 0
    failures: list[Failure] = field(default_factory=list)
    lists: int = 0
    watches: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _cutting: int = 0
    _watched_since: int = -1

    # --- changes on the server ----------------------------------------------------------------------------------------

    def write(self, name: str, **content: Any) -> dict[str, Any]:
        known = name in self.objects
        uid = self.objects[name]["metadata"]["uid"] if known else f"{name}-{self.version + 1}"
        return self._happen("MODIFIED" if known else "ADDED", name, uid, content)

    def delete(self, name: str) -> dict[str, Any]:
        return self._happen("DELETED", name, self.objects[name]["metadata"]["uid"], {})

    def bookmark(self) -> None:
        """Send a bookmark, as a server does every minute."""
        self._record("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}})

    def forget(self) -> None:
        """Compact: watches can start only from the current version."""
        self.remembered_from = self.version

    @property
    def is_watched(self) -> bool:
        """Whether a watch has begun since the last `cut_watches`."""
        return self._watched_since == self._cutting

    def cut_watches(self) -> None:
        self._cutting += 1
        self._wake()

    def restore(self, version: int) -> None:
        """Return to an earlier version, as from a backup; the test sets the objects."""
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

    # --- requests -----------------------------------------------------------------------------------------------------

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        for failure in list(self.failures):
            answer = failure(request)
            if answer is not None:
                self.failures.remove(failure)
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
        notified = 0
        while self._cutting == cutting:
            news = self._news
            for version, kind, content in self.history[notified:]:
                if version > since or kind == "BOOKMARK":
                    await response.write(event(kind, content))
            notified = len(self.history)
            await news.wait()
        return await cut(request)

    def held(self) -> dict[str, str]:
        return {name: content["metadata"]["resourceVersion"] for name, content in self.objects.items()}


def on_watch(answer: Any) -> Failure:
    return lambda request: answer if "watch" in request.query else None


def on_list(answer: Any) -> Failure:
    return lambda request: answer if "watch" not in request.query else None


def replayed(notified: list[tuple[str | None, str | None]]) -> dict[str, str]:
    """Rebuild the state from the notifications; each `before` must match it."""
    held: dict[str, str] = {}
    for before, after in notified:
        if before is not None:
            uid, version = before.split("@")
            assert held.pop(uid) == version
        if after is not None:
            uid, version = after.split("@")
            held[uid] = version
    return held

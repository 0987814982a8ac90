"""Why a change of a Job is refused: a right that this user lacks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.client.backend import Change, RemoveRun, RestartRun, ResumeRun, RunRef, StopRun, SuspendRun
from pumice.client.cluster.connection import Connection
from pumice.client.observer import Refusals, Repeat
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import COMMANDS, JOBS, Resource

_FRESH: Final = 60.0  # seconds for which an answer holds
_PATIENCE: Final = 3.0  # seconds
Right = tuple[str, Resource]  # a verb, and what it is about
_STOP: Final[Right] = ("create", COMMANDS)
_RIGHTS: Final[Mapping[type[Change | Repeat], Right]] = {
    StopRun: _STOP,
    SuspendRun: _STOP,
    ResumeRun: _STOP,
    RestartRun: _STOP,
    RemoveRun: ("delete", JOBS),
    Repeat: ("create", JOBS),
}


@dataclass(slots=True)
class Rights:
    connection: Connection
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, Right], tuple[float, bool]] = field(default_factory=dict)  # by namespace

    async def refusals(self, run: RunRef, *, asks: bool = True) -> Refusals:
        """Return for each change why it cannot be made. One that is not in it can be. `asks`: the server answers."""
        rights = tuple(dict.fromkeys(_RIGHTS.values()))
        answers = await asyncio.gather(*(self._may(run.namespace, each) for each in rights)) if asks else [True] * 3
        allowed = dict(zip(rights, answers, strict=True))
        found = {}
        for change, right in _RIGHTS.items():
            if not allowed[right]:
                verb, resource = right
                found[change] = (
                    f"you have no right to {verb} {resource.full_name} in {run.namespace}: ask an administrator"
                )
        return found

    async def _may(self, namespace: str, right: Right) -> bool:
        """Ask the API server. Without an answer, the change itself will say what is wrong."""
        now = self.clock()
        known = self._known.get((namespace, right))
        if known is not None and now - known[0] < _FRESH:
            return known[1]
        try:
            async with asyncio.timeout(_PATIENCE):
                allowed = await self.connection.may(*right, namespace, attempts=1)
        except (ApiError, TimeoutError, msgspec.MsgspecError):
            return True if known is None else known[1]
        self._known[namespace, right] = (now, allowed)
        return allowed

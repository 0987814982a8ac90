"""Commands for the controller of a Job: created as vcctl creates them, and followed until they have an effect.

Volcano's controller removes a Command before it acts, and may die in between; in phase Restarting it obeys nothing. So
a Command that was taken without an effect is sent again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import read_current
from pumice.client.cluster.live_objects import Patience
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import COMMANDS, JOBS
from pumice.model.job import Job
from pumice.model.vocabulary import Action
from pumice.reconcile.phases import FINAL
from pumice.store.run_errors import ConnectionFailed, WrongState

TAKEN_WITHIN: Final = 30.0  # seconds in which a controller at work removes a Command
_SILENCE: Final = 3.0  # seconds after which the user learns what is waited for
_EFFECT: Final = 3.0  # seconds from the removal of a Command to its effect
_MOST_SENT: Final = 10
_POLLS: Final = (0.1, 1.0)
_LONGEST_BASE: Final = 57  # of a name, before what makes it unique


@dataclass(slots=True)
class Commander:
    connection: Connection
    run: RunRef
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    within: float = TAKEN_WITHIN
    _sent: list[str] = field(default_factory=list)  # names of Commands that may not have been taken
    _count: int = 0

    async def command(
        self, job: Job, action: Action, is_done: Callable[[Job], bool], first: Action | None = None
    ) -> None:
        """Send a Command, after the `first` one, and return once the Job shows the effect.

        Raises NoSuchRun, Denied, ConnectionFailed if no controller takes it, WrongState if the Job ends otherwise.
        """
        if first is not None:
            await self._send(first, job)
        await self._send(action, job)
        patience = Patience(self.connection)
        since, told, pause = self.clock(), False, _POLLS[0]
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, _POLLS[1])
            try:
                job = await read_current(self.connection, self.run)
                if is_done(job):
                    return
                waits = await self._are_waiting()
            except ApiError as error:
                await patience.after(error)
                continue
            patience.succeeded()
            passed = self.clock() - since
            if job.status.state.phase in FINAL:
                raise WrongState(f"{self.run}: it ended meanwhile: {job.status.state.phase}")
            if not waits and passed > _EFFECT:
                if self._count >= _MOST_SENT:
                    message = f"{self.run}: the controller took {self._count} Commands, and the Job is"
                    hint = "the log of the controller may say why"
                    raise ConnectionFailed(f"{message} {job.status.state.phase}", hint)
                await self._send(action, job)
                since = self.clock()
            elif waits and passed > self.within:
                await self._withdraw()
                message = f"{self.run}: no controller took the Command within {self.within:.0f} s"
                hint = f"pumice contexts says whether a controller works on {self.connection.name}"
                raise ConnectionFailed(f"{message}, so nothing was changed", hint)
            elif waits and passed > _SILENCE and not told:
                told = True
                self.tell(f"{self.run}: waiting for the controller to take the Command {action}")

    async def _send(self, action: Action, job: Job) -> None:
        """Create a Command. Its name is chosen here, so that a creation whose answer is lost can be repeated."""
        base = f"{job.name}-{action.lower()}"[:_LONGEST_BASE].rstrip("-.")
        name = f"{base}-{secrets.token_hex(3)}"[-63:]
        body = command_object(job, action, name)
        try:
            await self._create(body, job.namespace)
        except ApiError as error:
            # The plugin OwnerReferencesPermissionEnforcement asks for the right to update finalizers of Jobs.
            if not (error.is_forbidden and "blockOwnerDeletion" in str(error)):
                raise self.connection.explained(error) from error
            for each in (*body["metadata"]["ownerReferences"], body["target"]):
                each["blockOwnerDeletion"] = False
            with self.connection.explaining():
                await self._create(body, job.namespace)
        self._sent.append(name)
        self._count += 1

    async def _create(self, body: dict[str, Any], namespace: str) -> None:
        try:
            await self.connection.client.create(COMMANDS, namespace, msgspec.json.encode(body), attempts=4)
        except ApiError as error:
            if not error.already_exists:
                raise

    async def _are_waiting(self) -> bool:
        """Whether a Command has not been taken. A user who may not read Commands sees only their effects."""
        for name in list(self._sent):
            try:
                await self.connection.client.get(COMMANDS, self.run.namespace, name)
            except ApiError as error:
                if error.is_forbidden:
                    return True
                if not error.not_found:
                    raise
                self._sent.remove(name)
        return bool(self._sent)

    async def _withdraw(self) -> None:
        """Remove the Commands: one that is obeyed hours later is a surprise."""
        for name in self._sent:
            try:
                await self.connection.client.delete(COMMANDS, self.run.namespace, name, attempts=3)
            except ApiError as error:
                if not error.not_found:
                    self.tell(f"{self.run}: the Command {name} is still there: {error}")
        self._sent.clear()


def command_object(job: Job, action: Action, name: str) -> dict[str, Any]:
    """Return a Command as vcctl makes it. The uid is in the target: a Job that replaces this one is not affected."""
    target: dict[str, Any] = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {"name": name, "namespace": job.namespace, "ownerReferences": [dict(target)]},
        "target": target,
        "action": str(action),
    }

"""One pod of a job on this machine: its init containers one after the other, then its containers side by side."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pumice.engines.local.containers import CANNOT_START, Container
from pumice.engines.local.sandbox.problems import SandboxError, StartError
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase

DEFAULT_GRACE = 30


class PodSandbox(Protocol):
    async def create_pod(self, pod: str, address: str, hostname: str) -> None: ...

    async def remove_pod(self, pod: str) -> None: ...


@dataclass(slots=True)
class LocalPod:
    manifest: Manifest
    uid: str
    address: str
    sandbox: PodSandbox
    make_container: Callable[[Manifest], Container]
    changed: Callable[[], None]
    now: Callable[[], dt.datetime]
    created_at: dt.datetime
    phase: PodPhase = PodPhase.PENDING
    deleted_at: dt.datetime | None = None
    reason: str = ""
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    _trouble: ContainerEnd | None = None  # what kept the pod as a whole from living
    _life: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def short_name(self) -> str:
        annotations = self.manifest["metadata"]["annotations"]
        return f"{annotations[keys.TASK_SPEC]}-{annotations[keys.TASK_INDEX]}"

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.manifest["spec"]
        return spec

    def begin(self) -> None:
        self._life = asyncio.create_task(self._live(), name=f"pod {self.short_name}")

    async def gone(self) -> None:
        if self._life is not None:
            await asyncio.wait([self._life])

    async def delete(self, grace: float | None = None) -> None:
        """End it gracefully; returns when nothing of it is left."""
        given = self.spec.get("terminationGracePeriodSeconds")
        seconds = float(DEFAULT_GRACE if given is None else given) if grace is None else grace
        self.deleted_at = self.now() + dt.timedelta(seconds=seconds)
        self.changed()
        running = [*self.init_containers, *self.containers]
        await asyncio.gather(*(container.stop(seconds) for container in running))
        await self.gone()
        with contextlib.suppress(SandboxError, StartError):
            await self.sandbox.remove_pod(self.name)

    async def kill(self, number: int) -> None:
        await asyncio.gather(*(container.kill(number) for container in self.containers))

    def observed(self) -> ObservedPod:
        annotations = self.manifest["metadata"]["annotations"]
        everyone = [*self.init_containers, *self.containers]
        return ObservedPod(
            name=self.name,
            uid=self.uid,
            task=annotations[keys.TASK_SPEC],
            index=int(annotations[keys.TASK_INDEX]),
            version=int(annotations[keys.JOB_VERSION]),
            retry=int(annotations[keys.JOB_RETRY_COUNT]),
            phase=self._visible_phase(),
            created_at=self.created_at,
            deleted_at=self.deleted_at,
            ready=bool(self.containers) and all(container.ready for container in self.containers),
            restarts=sum(container.restarts for container in everyone),
            reason=self.reason,
            ends=self._ends(everyone),
        )

    def _visible_phase(self) -> PodPhase:
        """Running only once a container has run, however long the start takes."""
        if self.phase is PodPhase.RUNNING and not any(each.running or each.ends for each in self.containers):
            return PodPhase.PENDING
        return self.phase

    def _ends(self, everyone: list[Container]) -> tuple[ContainerEnd, ...]:
        ends = tuple(end for container in everyone for end in container.ends[-1:])
        return ends if self._trouble is None else (*ends, self._trouble)

    async def _live(self) -> None:
        """Whatever goes wrong ends in a pod that failed and says why: nobody else would hear of it."""
        try:
            await self._live_well()
        except Exception as error:  # noqa: BLE001 - a pod whose task is lost would be waited for for ever
            self.reason = error.kind if isinstance(error, StartError) else "SandboxError"
            self._trouble = ContainerEnd("", CANNOT_START, self.reason, 0, self.now(), f"{self.short_name}: {error}")
            self.phase = PodPhase.FAILED
        finally:
            self.changed()

    async def _live_well(self) -> None:
        await self.sandbox.create_pod(self.name, self.address, str(self.spec.get("hostname") or self.name))
        policy = str(self.spec.get("restartPolicy") or "Always")
        helpers: list[asyncio.Task[ContainerEnd]] = []
        try:
            if await self._initialise(policy, helpers) and self.deleted_at is None:
                await self._run_containers(policy)
            else:
                self.phase = PodPhase.FAILED
        finally:
            await self._end_helpers(helpers)

    async def _initialise(self, policy: str, helpers: list[asyncio.Task[ContainerEnd]]) -> bool:
        """Init containers, one after the other; a sidecar (restartPolicy: Always) is started and goes on."""
        for manifest in self.spec.get("initContainers") or []:
            container = self.make_container(manifest)
            self.init_containers.append(container)
            if manifest.get("restartPolicy") == "Always":
                helpers.append(asyncio.create_task(container.run("Always")))
                while not container.started and not container.ends:  # noqa: ASYNC110 - two things may end it
                    await asyncio.sleep(0.02)
            else:
                # A pod that always restarts its containers restarts init containers only when they fail.
                end = await container.run("Never" if policy == "Never" else "OnFailure")
                if end.exit_code != 0:
                    return False
            if self.deleted_at is not None:
                return False
        return True

    async def _run_containers(self, policy: str) -> None:
        for manifest in self.spec.get("containers") or []:
            self.containers.append(self.make_container(manifest))
        lives = [asyncio.create_task(container.run(policy)) for container in self.containers]
        self.phase = PodPhase.RUNNING
        self.changed()
        await asyncio.wait(lives, return_when=asyncio.FIRST_EXCEPTION)
        for container, life in zip(self.containers, lives, strict=True):
            if not life.done():
                await container.stop(0)
        await asyncio.wait(lives)
        failed = any(life.result().exit_code != 0 for life in lives)
        self.phase = PodPhase.FAILED if failed else PodPhase.SUCCEEDED

    async def _end_helpers(self, helpers: list[asyncio.Task[Any]]) -> None:
        await asyncio.gather(*(container.stop(DEFAULT_GRACE) for container in self.init_containers))
        await asyncio.gather(*helpers, return_exceptions=True)

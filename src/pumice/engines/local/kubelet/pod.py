"""One pod of a job on this machine: init containers one after the other, then the containers together."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from pumice.diagnosis.pod_ends import how_it_ended
from pumice.diagnosis.pod_waits import UNSCHEDULABLE
from pumice.engines.local.container_spec.etc_files import pod_hostname
from pumice.engines.local.kubelet.container import CANNOT_START, DEFAULT_GRACE, Container
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.sandbox.specs import ContainerSpec
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.snapshot import EVICTED, ContainerEnd, ObservedPod, PodPhase, Waiting
from pumice.store.run_errors import NoSuchPod, WrongState

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
_GLANCE: Final = 0.02
_VOLUMES_PAUSE: Final = 5.0
_EVICTION_GRACE: Final = 1.0  # of a kubelet


class Scheduler(Protocol):
    """Decides when there is room for a pod."""

    async def acquire(self, pod: str, spec: Manifest, waits: Callable[[], None]) -> None: ...

    def release(self, pod: str) -> None: ...

    def pod_removed(self, pod: str) -> None: ...


def grace_of(spec: Manifest) -> float:
    given = spec.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if given is None else float(given)


def longest_grace(manifests: Sequence[Manifest]) -> float:
    return max(grace_of(manifest["spec"]) for manifest in manifests)


class LocalPod(Struct):
    manifest: Manifest
    uid: str
    address: str
    sandbox: SandboxPort
    make_container: Callable[[Manifest], Container]
    changed: Callable[[], None]
    now: Callable[[], dt.datetime]
    created_at: dt.datetime
    scheduler: Scheduler | None = None  # None: there is always room
    make_holder: Callable[[], ContainerSpec] | None = None  # what holds the pid namespace that containers share
    warn: Callable[[str], None] = lambda _message: None
    volume_excess: Callable[[], str] | None = None  # says which volume is too large; None: none has a limit
    removed: Callable[[], None] = lambda: None  # nothing of it is left, and its volumes can go
    grace_period: float | None = None  # seconds, instead of those of the spec
    phase: PodPhase = PodPhase.PENDING
    deleted_at: dt.datetime | None = None
    reason: str = ""
    message: str = ""
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    _failure: ContainerEnd | None = None  # of the pod as a whole
    _life: asyncio.Task[None] | None = None
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _grace: float | None = None  # for what is still there, once it is ended
    _observed: ObservedPod | None = None
    _observed_state: tuple[object, ...] = ()  # what `_observed` was made of

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def short_name(self) -> str:
        annotations = self.manifest["metadata"]["annotations"]
        return f"{annotations[keys.TASK_SPEC]}-{annotations[keys.TASK_INDEX]}"

    @property
    def attempt(self) -> int:
        """The job's attempt that it belongs to; the first one is 1."""
        return int(self.manifest["metadata"]["annotations"][keys.JOB_RETRY_COUNT]) + 1

    @property
    def started_at(self) -> dt.datetime:
        """When the first of the containers that run now has started; before, when the pod was created."""
        starts = (each.changed_at for each in (*self.init_containers, *self.containers) if each.running)
        return min(filter(None, starts), default=self.created_at)

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.manifest["spec"]
        return spec

    @property
    def _own_grace(self) -> float:
        return grace_of(self.spec) if self.grace_period is None else self.grace_period

    def begin(self) -> None:
        self._life = asyncio.create_task(self._live(), name=f"pod {self.short_name}")

    async def gone(self) -> None:
        if self._life is not None:
            await asyncio.wait([self._life])

    async def end(self, grace: float | None = None) -> None:
        """End the pod gracefully; return when none of its processes is left."""
        seconds = self._own_grace if grace is None else grace
        self.deleted_at = self.now() + dt.timedelta(seconds=seconds)
        self.changed()
        await self._end_containers(seconds)
        await self.gone()

    async def delete(self) -> None:
        """End the pod gracefully and remove its namespaces and files; return when nothing is left."""
        await self.end()
        with contextlib.suppress(SandboxError, StartError):
            await self.sandbox.remove_pod(self.name)
        if self.scheduler is not None:
            self.scheduler.pod_removed(self.name)
        try:
            self.removed()
        except OSError as error:
            # The end of the run removes the files, or the next run.
            self.warn(f"files of its volumes could not be removed: {error}")

    @property
    def is_running(self) -> bool:
        return any(each.running for each in (*self.init_containers, *self.containers))

    def container(self, name: str = "") -> Container:
        """Return a running container, by default the first. Raises NoSuchPod or WrongState."""
        name = name or str(self.spec["containers"][0]["name"])
        if name not in (str(each["name"]) for each in all_containers(self.spec)):
            raise NoSuchPod(f"pod {self.short_name} has no container {name}")
        for each in (*self.init_containers, *self.containers):
            if each.name == name and each.running:
                return each
        raise WrongState(f"container {name} of pod {self.short_name} is not running")

    async def kill(self, number: int) -> bool:
        """Send a signal to the running containers; False if there are none."""
        running = [each for each in (*self.init_containers, *self.containers) if each.running]
        await asyncio.gather(*(container.kill(number) for container in running))
        return bool(running)

    def observed(self) -> ObservedPod:
        """Return the pod as it is now: the same value as before, unless it has changed.

        Each pass over the job asks all its pods, of which few have changed since the last one.
        """
        containers = [*self.init_containers, *self.containers]
        state: tuple[object, ...] = (
            *(self.phase, self.deleted_at, self.reason, self.message, self._failure),
            *((one.ready, one.restarts, one.waiting_for, one.changed_at, len(one.ends)) for one in containers),
        )
        if self._observed is None or state != self._observed_state:
            self._observed, self._observed_state = self._observe(containers), state
        return self._observed

    def _observe(self, containers: Sequence[Container]) -> ObservedPod:
        annotations = self.manifest["metadata"]["annotations"]
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
            restarts=sum(container.restarts for container in containers),
            reason=self.reason,
            message=self.message,
            ends=self._ends(),
            waiting=self._waiting(containers),
            changed_at=max(filter(None, (container.changed_at for container in containers)), default=None),
        )

    def _waiting(self, containers: Sequence[Container]) -> Waiting | None:
        """What it waits for: room, or the end of the back-off after a container has failed."""
        if self.reason == UNSCHEDULABLE and self.phase is PodPhase.PENDING:
            return Waiting(UNSCHEDULABLE, "this machine has no room for it now")
        for container in containers:
            if container.waiting_for:
                return Waiting(container.waiting_for, f"container {container.name}: {how_it_ended(container.ends[-1])}")
        return None

    def _visible_phase(self) -> PodPhase:
        """Return Running only after the first container has started, however long that takes."""
        # A container that has ended, and whose output is still read, neither runs nor has an end yet.
        if self.phase is PodPhase.RUNNING and all(each.changed_at is None for each in self.containers):
            return PodPhase.PENDING
        return self.phase

    def _ends(self) -> tuple[ContainerEnd, ...]:
        """Leave out sidecars: we end them ourselves, or they restart."""
        deciding = [each for each in self.init_containers if not each.is_sidecar]
        ends = tuple(end for container in (*deciding, *self.containers) for end in container.ends[-1:])
        return ends if self._failure is None else (*ends, self._failure)

    async def _live(self) -> None:
        """Run the pod. Any error makes it a failed pod that says why."""
        try:
            if await self._is_placed():
                await self._run()
            else:
                self.phase = PodPhase.FAILED
        except Exception as error:  # noqa: BLE001 - the job would wait forever for a pod whose task is lost
            self.reason = error.kind if isinstance(error, StartError) else "SandboxError"
            self._failure = ContainerEnd("", CANNOT_START, self.reason, 0, self.now(), f"{self.short_name}: {error}")
            self.phase = PodPhase.FAILED
        finally:
            if self.scheduler is not None:
                self.scheduler.release(self.name)
            self.changed()

    async def _is_placed(self) -> bool:
        """Wait for one, but no longer than the pod is wanted."""
        if self.scheduler is None:
            return not self._ending.is_set()
        taking = asyncio.create_task(self.scheduler.acquire(self.name, self.spec, self._waits))
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait([taking, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            taking.cancel()
            ending.cancel()
        if not taking.done():
            return False
        await taking
        self.reason = ""
        return not self._ending.is_set()

    def _waits(self) -> None:
        if self.reason != UNSCHEDULABLE:
            self.reason = UNSCHEDULABLE
            self.changed()

    async def _run(self) -> None:
        await self.sandbox.create_pod(self.name, self.address, pod_hostname(self.manifest))
        policy = str(self.spec.get("restartPolicy") or "Always")
        deadline = self.spec.get("activeDeadlineSeconds")
        sidecars: list[asyncio.Task[ContainerEnd]] = []
        holder = await self._hold_processes()
        alarms = [] if deadline is None else [asyncio.create_task(self._end_at_deadline(float(deadline)))]
        if self.volume_excess is not None:
            alarms.append(asyncio.create_task(self._watch_volumes(self.volume_excess)))
        try:
            succeeded = await self._initialise(policy, sidecars) and await self._run_containers(policy)
        finally:
            for alarm in alarms:
                alarm.cancel()
            # End the last one first: later sidecars may need the earlier ones.
            grace = self._own_grace if self._grace is None else self._grace
            for container in reversed([each for each in self.init_containers if each.is_sidecar]):
                await container.stop(grace)
            await asyncio.gather(*sidecars, return_exceptions=True)
            if holder:
                await self.sandbox.signal(holder, int(signal.SIGKILL))
        self.phase = PodPhase.SUCCEEDED if succeeded and not self.reason else PodPhase.FAILED

    async def _hold_processes(self) -> str:
        """Start the holder of the pid namespace that the containers share; it outlives each of them."""
        if self.make_holder is None or not self.spec.get("shareProcessNamespace"):
            return ""
        holder = self.make_holder()
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            await self.sandbox.start_container(holder, nothing, nothing)
        finally:
            os.close(nothing)
        return holder.id

    async def _end_at_deadline(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.reason = DEADLINE_EXCEEDED
        self.warn(f"ran for its activeDeadlineSeconds ({seconds:g}) and is stopped")
        why = f"the pod ran longer than its activeDeadlineSeconds, {seconds:g}"
        await self._end_containers(self._own_grace, (DEADLINE_EXCEEDED, why))

    async def _watch_volumes(self, excess: Callable[[], str]) -> None:
        """Evict the pod when a volume is larger than it may be."""
        while not (why := await asyncio.to_thread(excess)):  # noqa: ASYNC110 - a file system has no such event
            await asyncio.sleep(_VOLUMES_PAUSE)
        self.reason, self.message = EVICTED, why
        self.warn(f"is evicted: {why}")
        await self._end_containers(min(self._own_grace, _EVICTION_GRACE), (EVICTED, why))

    async def _end_containers(self, grace: float, why: tuple[str, str] = ("", "")) -> None:
        """End all but the sidecars, which end after the others."""
        self._grace = grace
        self._ending.set()
        running = [*(each for each in self.init_containers if not each.is_sidecar), *self.containers]
        await asyncio.gather(*(container.stop(grace, why) for container in running))

    async def _initialise(self, policy: str, sidecars: list[asyncio.Task[ContainerEnd]]) -> bool:
        """Run the init containers one after the other; a sidecar (restartPolicy: Always) keeps running."""
        for manifest in self.spec.get("initContainers") or []:
            container = self.make_container(manifest)
            self.init_containers.append(container)
            if container.is_sidecar:
                life = asyncio.create_task(container.run("Always"))
                sidecars.append(life)
                while not (container.started or self._ending.is_set() or life.done()):  # noqa: ASYNC110 - see which is first
                    await asyncio.sleep(_GLANCE)
                if life.done():
                    # A sidecar that cannot start fails the pod.
                    await life
            else:
                # A pod that always restarts its containers restarts init containers only when they fail.
                end = await container.run("Never" if policy == "Never" else "OnFailure")
                if end.exit_code != 0:
                    return False
            if self._ending.is_set():
                return False
        # The pod may have been asked to end before it had containers.
        return not self._ending.is_set()

    async def _run_containers(self, policy: str) -> bool:
        """Run the containers; whether all of them succeeded."""
        self.containers += [self.make_container(manifest) for manifest in self.spec.get("containers") or []]
        lives = [asyncio.create_task(container.run(policy)) for container in self.containers]
        self.phase = PodPhase.RUNNING
        self.changed()
        await asyncio.wait(lives, return_when=asyncio.FIRST_EXCEPTION)
        for container, life in zip(self.containers, lives, strict=True):
            if not life.done():
                await container.stop(0)
        await asyncio.wait(lives)
        return all([life.result().exit_code == 0 for life in lives])  # noqa: C419 - raise the first exception

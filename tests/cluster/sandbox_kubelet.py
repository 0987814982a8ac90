"""A kubelet that runs pods as real processes, in the sandboxes of the local engine.

It reads ConfigMaps, Secrets and claims from the API; Services and pods resolve through /etc/hosts, as in `pumice run`.
It writes the state of the processes to the status of the pods, and gives deleted pods their grace period. It writes
changed ConfigMaps and Secrets as kubelet's atomic writer does (`AtomicVolumeFiles`).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pumice.admission.admit import admit
from pumice.engines.local.container_spec.builder import SandboxFacts, SpecBuilder
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.isolation import open_sandbox
from pumice.engines.local.kubelet.container import Container
from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.network.addresses import Addresses
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.stored_data import make_claim_directories
from pumice.engines.local.volumes.apply import VolumeFiles
from pumice.engines.local.volumes.volume_plan import Step, WriteFiles
from pumice.model import keys
from pumice.model.problem import Problem
from pumice.model.snapshot import ContainerEnd
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.offline_context import offline_context
from pumice.store.events import LogLine
from pumice.store.journal import SequenceNumbers
from pumice.store.logs.log_file import LogFile
from pumice.store.options import Isolation
from pumice.store.settings import Settings
from tests.cluster import pod_status
from tests.cluster.api import Object, path_of
from tests.cluster.cluster import Cluster
from tests.cluster.kubelet import Kubelet

_READ = ("Service", "ConfigMap", "Secret", "PersistentVolumeClaim")
_PAUSE = 0.1
# Seconds between two looks at the ConfigMaps and Secrets of running pods. A real kubelet takes about a minute.
_SYNC = 0.5
_ENDED = ("Succeeded", "Failed")


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - a kubelet uses the real time


class AtomicVolumeFiles(VolumeFiles):
    """The files of volumes, replaced as a kubelet replaces them when their ConfigMap or Secret changes.

    Kubelet writes all files to a new directory and removes the old one. A pod that mounts the whole volume sees the new
    files; a pod that mounts a directory of it by subPath still has the removed one, which is empty.
    """

    def _execute(self, step: Step) -> Problem | None:
        if isinstance(step, WriteFiles) and self._written.get(step.path, step) != step:
            for path in step.path.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
        return super()._execute(step)


@dataclass(slots=True)
class PodRun:
    """A pod with processes."""

    manifest: Object
    spec_builder: SpecBuilder
    local: LocalPod
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    # Held from the look at the processes until the status is written, so that no older status overtakes a newer one.
    write_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SandboxKubelet(Kubelet):
    """`log_lines` is the output of the pods, `warnings` are those of the local engine."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        settings: Settings,
        *,
        bind: bool = True,
        max_grace: float = 60.0,
    ) -> None:
        super().__init__(cluster, namespace, bind=bind)
        self._longest_grace = max_grace
        self.log_lines: list[LogLine] = []
        self.warnings: list[str] = []
        self._settings = settings
        self._addresses = Addresses()
        self._runs: dict[str, PodRun] = {}  # by uid
        self._objects: list[Object] = []
        self._leftovers: list[asyncio.Task[None]] = []
        self._host_key = make_key_pair("ed25519")
        self._sandbox: SandboxPort | None = None

    def lines(self, pod: str) -> list[str]:
        """Return the output of a pod, named by task and index."""
        return [line.text for line in self.log_lines if line.pod == pod and not line.unfinished]

    def kill(self, name: str, number: int = 9) -> None:
        """Send a signal to a pod's containers."""
        self.submit(self._runs[self.newest_pod(name)["metadata"]["uid"]].local.kill(number))

    async def main(self) -> None:
        async with self._open_sandbox():
            await super().main()

    async def sync_volumes(self) -> None:
        """Write the files of ConfigMaps and Secrets that have changed to the volumes of running pods."""
        synced: list[Object] = []
        while True:
            await asyncio.sleep(_SYNC)
            if self._runs:
                self._objects = [each for kind in _READ for each in await self._list(kind)]
            if self._objects == synced:
                continue
            synced = self._objects
            for uid, run in self._runs.items():
                # A pod keeps the files of an object that was removed.
                if not run.finished.is_set() and self._references_exist(run.manifest):
                    for container in run.manifest["spec"]["containers"]:
                        run.spec_builder.spec(run.manifest, uid, run.local.address, container, 0)

    @asynccontextmanager
    async def _open_sandbox(self) -> AsyncIterator[None]:
        directory = self._settings.state / "stage"
        self._sandbox = await open_sandbox(self.namespace[:20], directory, Isolation.AUTO, self.warnings.append)
        try:
            yield
        finally:
            await asyncio.gather(*self._leftovers)
            await asyncio.gather(*(self._finish(run, 0.0) for run in self._runs.values() if not run.finished.is_set()))
            await self._sandbox.close()

    async def run_pod(self, pod: Object) -> None:
        """Start a pod when all objects that it refers to exist; write its status at every change."""
        await self._wait_for_predecessor(pod["metadata"]["name"])
        spec_builder = await self._spec_builder(pod)
        run = PodRun(pod, spec_builder, self._local(pod, spec_builder))
        self._runs[pod["metadata"]["uid"]] = run
        run.local.begin()
        try:
            while not run.finished.is_set():
                await run.changed.wait()
                run.changed.clear()
                async with run.write_lock:
                    status = _status(pod, run.local)
                    await (self.write_end if status["phase"] in _ENDED else self.write)(pod, status)
        except asyncio.CancelledError:
            # The pod was deleted without a grace period: kill its processes as well.
            if not run.finished.is_set():
                self._leftovers.append(asyncio.create_task(self._finish(run, 0.0)))
            raise

    async def stop_pod(self, pod: Object) -> None:
        run = self._runs.get(pod["metadata"]["uid"])
        if run is None:
            if task := self._pod_tasks.get(pod["metadata"]["uid"]):
                task.cancel()
            return
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        await self._finish(run, min(grace, self._longest_grace))
        async with run.write_lock:
            await self.write(pod, _status(pod, run.local))

    async def _finish(self, run: PodRun, grace: float) -> None:
        await run.local.end(grace)
        await run.local.delete()
        run.finished.set()
        run.changed.set()

    async def _wait_for_predecessor(self, name: str) -> None:
        """Wait for the processes of an earlier pod with this name."""
        for run in list(self._runs.values()):
            if run.local.name == name:
                await run.finished.wait()

    def _local(self, pod: Object, spec_builder: SpecBuilder) -> LocalPod:
        assert self._sandbox is not None
        sandbox = self._sandbox
        uid = pod["metadata"]["uid"]
        address = spec_builder.inputs.address_of(_short_name(pod))

        def changed() -> None:
            if uid in self._runs:
                self._runs[uid].changed.set()

        def make_container(container: Object) -> Container:
            return Container(
                manifest=container,
                sandbox=sandbox,
                make_spec=lambda attempt: spec_builder.spec(pod, uid, address, container, attempt),
                open_logs=lambda attempt: self._open_logs(pod, container["name"], attempt),
                changed=changed,
                restarted=lambda _end, _count: None,
                now=now,
            )

        return LocalPod(pod, uid, address, sandbox, make_container, changed, now, now())

    def _open_logs(self, pod: Object, container: str, attempt: int) -> tuple[LogPump, LogPump]:
        name = _short_name(pod)
        log = self._settings.state / "logs" / f"{name}.{container}.{attempt}.log"
        file = LogFile(log, self.warnings.append, SequenceNumbers().next)
        return (
            LogPump(name, container, "stdout", file, self.log_lines.extend),
            LogPump(name, container, "stderr", file, self.log_lines.extend),
        )

    async def _spec_builder(self, pod: Object) -> SpecBuilder:
        """Wait for the ConfigMaps and Secrets of the pod, as a kubelet does, and read them."""
        while True:
            self._objects = [each for kind in _READ for each in await self._list(kind)]
            if self._references_exist(pod):
                break
            await asyncio.sleep(_PAUSE)
        owner = pod["metadata"]["labels"][keys.JOB_NAME]
        document = await self.api.call("GET", path_of("Job", self.namespace, owner))
        named = [each["metadata"]["name"] for each in self._objects if each["kind"] == "PersistentVolumeClaim"]
        claims = {name: self._settings.state / "claims" / name for name in named}
        make_claim_directories(claims.values())
        assert self._sandbox is not None
        inputs = JobInputs(
            job=admit({**document, "status": {}}, offline_context()).job,
            settings=self._settings,
            scratch=self._settings.state / "scratch" / pod["metadata"]["uid"],
            documents=[],
            objects=lambda: self._objects,
            claims=claims,
            address_of=lambda short: self._addresses.of(f"{owner}/{short}"),
            image_of=lambda _name: None,
        )
        facts = SandboxFacts(
            all_users=self._sandbox.all_users,
            only_user=self._sandbox.only_user,
            kernel_limits=self._sandbox.limits,
            host_key=self._host_key,
        )
        builder = SpecBuilder(inputs=inputs, sandbox=facts, warn=self.warnings.append)
        builder.files = AtomicVolumeFiles(inputs.scratch)
        return builder

    def _references_exist(self, pod: Object) -> bool:
        return _references(pod) <= {(each["kind"], each["metadata"]["name"]) for each in self._objects}

    async def _list(self, kind: str) -> list[Object]:
        found = await self.api.call_until_done("GET", path_of(kind, self.namespace))
        return [{**each, "kind": kind} for each in found["items"]]


def _short_name(pod: Object) -> str:
    annotations = pod["metadata"]["annotations"]
    return f"{annotations[keys.TASK_SPEC]}-{annotations[keys.TASK_INDEX]}"


def _references(pod: Object) -> set[tuple[str, str]]:
    """Return the required ConfigMaps and Secrets of the volumes and variables of a pod."""
    found = set()
    sources = list(pod["spec"].get("volumes") or [])
    for volume in list(sources):
        sources += (volume.get("projected") or {}).get("sources") or []
    for container in [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]:
        sources += container.get("envFrom") or []
        sources += [each["valueFrom"] for each in container.get("env") or [] if each.get("valueFrom")]
    for source in sources:
        for key, kind in {
            "configMap": "ConfigMap",
            "configMapRef": "ConfigMap",
            "configMapKeyRef": "ConfigMap",
            "secret": "Secret",
            "secretRef": "Secret",
            "secretKeyRef": "Secret",
        }.items():
            named = source.get(key)
            if named and not named.get("optional"):
                found.add((kind, named.get("name") or named.get("secretName")))
    return found


def _status(pod: Object, local: LocalPod) -> Object:
    observed = local.observed()
    containers = _container_statuses(pod["spec"]["containers"], local.containers, "ContainerCreating")
    inits = _container_statuses(pod["spec"].get("initContainers") or [], local.init_containers, "PodInitializing")
    status = pod_status.status(pod, str(observed.phase), containers, address=local.address, reason=observed.reason)
    return {**status, "initContainerStatuses": inits} if inits else status


def _container_statuses(manifests: list[Object], containers: list[Container], waiting: str) -> list[Object]:
    known = {container.name: container for container in containers}
    return [_container_status(manifest, known.get(manifest["name"]), waiting) for manifest in manifests]


def _container_status(manifest: Object, container: Container | None, waiting: str) -> Object:
    if container is None or container.changed_at is None:
        return pod_status.container_status(manifest, {"waiting": {"reason": waiting}})
    last = container.ends[-1] if container.ends else None
    if container.running or last is None:
        # Without an end, the rest of its output is being read.
        state = pod_status.running(pod_status.timestamp(container.changed_at))
    elif container.waiting_for:
        state = {"waiting": {"reason": container.waiting_for}}
    else:
        state = _ended(last)
    status = pod_status.container_status(manifest, state, ready=container.ready, restarts=container.restarts)
    if last is not None and (container.running or container.waiting_for):
        status["lastState"] = _ended(last)
    return status


def _ended(end: ContainerEnd) -> Object:
    # Like kubelet, without the signal: 128 and its number are the exit code.
    return pod_status.terminated(end.exit_code, reason=end.reason, finished=pod_status.timestamp(end.finished_at))

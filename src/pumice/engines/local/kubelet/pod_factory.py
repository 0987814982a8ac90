"""Creates the pods of a run, and emits what happens to them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.diagnosis.failure_lines import missing_module, waited_in_vain
from pumice.diagnosis.failures import Failures
from pumice.engines.local.clock import elapsed, now
from pumice.engines.local.container_spec.builder import SpecBuilder
from pumice.engines.local.container_spec.job_inputs import stop_signal
from pumice.engines.local.container_spec.restrictions import unsupported_fields
from pumice.engines.local.kubelet.container import STARTS_AT_ONCE, Container
from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.engines.local.kubelet.pod import LocalPod, grace_of
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.sandbox.specs import ContainerSpec
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.volumes.volume_plan import volume_excess
from pumice.model.job import Job, Manifest
from pumice.model.pod import all_containers
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.reconcile.consequences import what_ends_restarts, what_follows
from pumice.runtime.once import Once
from pumice.store.events import ContainerRestarted, Emitter, LogLine, LogOutput, PodChanged
from pumice.store.files.run_directory import RunDirectory

_RESTARTS_BEFORE_HINT: Final = 3


class PodFactory(Struct, kw_only=True):
    job: Callable[[], Job]  # as it is now
    sandbox: SandboxPort
    spec_builder: SpecBuilder
    scheduler: PodScheduler
    record: RunDirectory
    emit: Emitter
    changed: Callable[[], None]  # have the loop reconcile the job
    closed: bool = False  # the run ends: a container that starts now would create files that are never removed
    failures: Failures = field(default_factory=Failures)
    last_sign: float = field(default_factory=elapsed)  # when a pod last printed something or changed
    look: Callable[[], Awaitable[None]] | None = None  # notes what each pod does
    _looking: asyncio.Task[None] | None = None
    _phases: dict[str, str] = field(default_factory=dict)  # by uid
    _finished: set[str] = field(default_factory=set)  # short names
    _hints: Once = field(default_factory=Once)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTS_AT_ONCE))

    def create(self, manifest: Manifest, uid: str, address: str) -> LocalPod:
        for warning in unsupported_fields(manifest):
            self.emit.warn(warning)

        inputs = self.spec_builder.inputs

        def make_container(container: Manifest) -> Container:
            return Container(
                manifest=container,
                sandbox=self.sandbox,
                make_spec=lambda attempt: self._spec(pod, container, attempt),
                open_logs=lambda attempt: self._open_logs(pod, directory, str(container["name"]), attempt),
                changed=lambda: self._changed(pod),
                restarted=lambda end, count: self._restarted(pod, end, count),
                now=now,
                warn=lambda message: self.emit.warn(f"{pod.short_name}: {message}"),
                grace=grace_of(manifest["spec"]),
                stop_signal=stop_signal(container, inputs.image_of(str(container.get("image") or ""))),
                gate=self._gate,
            )

        pod = LocalPod(
            manifest=manifest,
            uid=uid,
            address=address,
            sandbox=self.sandbox,
            make_container=make_container,
            changed=lambda: self._changed(pod),
            now=now,
            created_at=now(),
            scheduler=self.scheduler,
            make_holder=lambda: self.spec_builder.holder(manifest),
            warn=lambda message: self.emit.warn(f"{pod.short_name}: {message}"),
            volume_excess=volume_excess(manifest["spec"], inputs.scratch, uid),
            removed=lambda: self.spec_builder.files.remove_pod(uid),
        )
        directory = self.record.add_pod(pod.short_name, manifest)
        self._changed(
            pod, {str(each["name"]): str(each.get("image") or "") for each in all_containers(manifest["spec"])}
        )
        return pod

    def _spec(self, pod: LocalPod, container: Manifest, attempt: int) -> ContainerSpec:
        """Raises InterruptedError if the run has ended meanwhile."""
        if self.closed:
            raise InterruptedError(errno.EINTR, "the run has ended")
        return self.spec_builder.spec(pod.manifest, pod.uid, pod.address, container, attempt)

    def _changed(self, pod: LocalPod, images: Mapping[str, str] | None = None) -> None:
        observed = pod.observed()
        if self.closed and not observed.is_deleting:
            # The run was ended by force, and the pod with it: it did not fail.
            observed = replace(observed, deleted_at=now())
        self.last_sign = elapsed()
        self.failures.record(observed)
        if self._phases.get(pod.uid) != observed.phase:
            self._phases[pod.uid] = observed.phase
            gpus = self.scheduler.gpus_of(pod.name)
            self.emit(PodChanged(observed, images or {}, self._follows(observed), gpus))
        end = observed.first_failure
        if self.look is not None and end is not None and waited_in_vain(end.last_line) and not observed.is_deleting:
            # A policy may end the pod that is to blame.
            self.look_first(self.changed)
        elif self._looking is None:
            self.changed()

    def look_first(self, then: Callable[[], object]) -> None:
        """Look what the pods do, once in a run; then go on."""
        if self.look is None:
            then()
            return

        async def look_and_go_on(look: Callable[[], Awaitable[None]]) -> None:
            try:
                await look()
            finally:
                self._looking = None
                then()
                self.changed()

        self._looking, self.look = asyncio.create_task(look_and_go_on(self.look)), None

    def _follows(self, pod: ObservedPod) -> str:
        """Return what the failure of a pod leads to. A pod that is being deleted was asked to end."""
        (self._finished.add if pod.is_finished else self._finished.discard)(pod.short_name)
        if pod.phase is not PodPhase.FAILED or pod.is_deleting:
            return ""
        job = self.job()
        return what_follows(job, pod, job.total_replicas - len(self._finished))

    def _restarted(self, pod: LocalPod, end: ContainerEnd, count: int) -> None:
        observed = pod.observed()
        self.failures.record_restart(observed)
        self.emit(ContainerRestarted(observed, end, count, self._hint(pod, end, count)))

    def _hint(self, pod: LocalPod, end: ContainerEnd, count: int) -> str:
        """Say what would end the restarts, once for each task."""
        task, inputs, hint = pod.observed().task, self.spec_builder.inputs, ""
        image = next((each.get("image") for each in all_containers(pod.spec) if each["name"] == end.container), None)
        missing = missing_module(end.last_line)
        if missing and inputs.image_of(str(image or "")) is None:
            hint = f"--python PATH, where PATH has {missing}; this is {inputs.settings.python_text}"
            if self._hints.first((task, hint)):
                return hint
        if end.exit_code == 0:
            hint = "restartPolicy Always, the default, restarts it forever; with Never or OnFailure the pod ends"
        elif count == _RESTARTS_BEFORE_HINT:
            hint = what_ends_restarts(self.job(), task)
        return hint if hint and self._hints.first((task, hint)) else ""

    def _open_logs(self, pod: LocalPod, directory: Path, container: str, attempt: int) -> tuple[LogPump, LogPump]:
        file = self.record.open_log(directory, container, attempt)
        return (
            LogPump(pod.short_name, container, "stdout", file, self._print, self.emit.gate),
            LogPump(pod.short_name, container, "stderr", file, self._print, self.emit.gate),
        )

    def _print(self, lines: Sequence[LogLine]) -> None:
        self.last_sign = elapsed()
        self.emit(LogOutput(lines))

"""The pods of a run, connected with all that they need, and with everyone who is told what becomes of them."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pumice.engines.local.clock import steady
from pumice.engines.local.container_spec.builder import SpecBuilder
from pumice.engines.local.container_spec.unsupported_fields import unsupported_fields
from pumice.engines.local.events import PodMoved, Printed, Restarted, Teller
from pumice.engines.local.isolation import AnySandbox
from pumice.engines.local.kubelet.container import STARTS_AT_ONCE, Container
from pumice.engines.local.kubelet.container_logs import LogLine, LogPump
from pumice.engines.local.kubelet.pod import LocalPod, grace_of
from pumice.engines.local.preflight import what_ends_restarts
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.state.run_directory import RunDirectory
from pumice.engines.local.verdict import Failures
from pumice.model.job import Job, Manifest
from pumice.model.pod import all_containers
from pumice.model.snapshot import ContainerEnd
from pumice.runtime.once import Once

_ENOUGH_RESTARTS: Final = 3


now = steady(dt.datetime.now(dt.UTC))  # noqa: TID251 - the clock of the run


@dataclass(slots=True, kw_only=True)
class PodMaker:
    job: Job
    sandbox: AnySandbox
    spec_builder: SpecBuilder
    scheduler: PodScheduler
    record: RunDirectory
    tell: Teller
    touch: Callable[[], None]  # the engine should look again
    failures: Failures = field(default_factory=Failures)
    _phases: dict[str, str] = field(default_factory=dict)  # by uid
    _hints: Once = field(default_factory=Once)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTS_AT_ONCE))

    def make(self, manifest: Manifest, uid: str, address: str) -> LocalPod:
        for warning in unsupported_fields(manifest):
            self.tell.warn(warning)

        def make_container(container: Manifest) -> Container:
            return Container(
                manifest=container,
                sandbox=self.sandbox,
                make_spec=lambda attempt: self.spec_builder.spec(manifest, uid, address, container, attempt),
                open_logs=lambda attempt: self._open_logs(pod, place, str(container["name"]), attempt),
                changed=lambda: self._changed(pod),
                restarted=lambda end, count: self._restarted(pod, end, count),
                now=now,
                tell=lambda message: self.tell.warn(f"{pod.short_name}: {message}"),
                grace=grace_of(manifest["spec"]),
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
            tell=lambda message: self.tell.warn(f"{pod.short_name}: {message}"),
            removed=lambda: self.spec_builder.files.remove_pod(uid),
        )
        place = self.record.add_pod(pod.short_name, manifest)
        self._changed(
            pod, {str(each["name"]): str(each.get("image") or "") for each in all_containers(manifest["spec"])}
        )
        return pod

    def _changed(self, pod: LocalPod, images: Mapping[str, str] | None = None) -> None:
        observed = pod.observed()
        self.failures.take(observed)
        if self._phases.get(pod.uid) != observed.phase:
            self._phases[pod.uid] = observed.phase
            self.tell(PodMoved(observed, images or {}))
        self.touch()

    def _restarted(self, pod: LocalPod, end: ContainerEnd, count: int) -> None:
        observed = pod.observed()
        self.tell(Restarted(observed, end, count, self._hint(observed.task, end, count)))

    def _hint(self, task: str, end: ContainerEnd, count: int) -> str:
        """What would put an end to restarts; for each task once."""
        hint = ""
        if end.exit_code == 0:
            hint = (
                "restartPolicy Always, the default, starts it again for ever; with Never or OnFailure the pod is done"
            )
        elif count == _ENOUGH_RESTARTS:
            hint = what_ends_restarts(self.job, task)
        return hint if hint and self._hints.first((task, hint)) else ""

    def _open_logs(self, pod: LocalPod, place: Path, container: str, attempt: int) -> tuple[LogPump, LogPump]:
        file = self.record.open_log(place, container, attempt)
        return (
            LogPump(pod.short_name, container, "stdout", file, self._printed),
            LogPump(pod.short_name, container, "stderr", file, self._printed),
        )

    def _printed(self, lines: Sequence[LogLine]) -> None:
        self.tell(Printed(lines))

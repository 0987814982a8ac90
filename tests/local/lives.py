"""Containers and pods of the local engine in a real sandbox."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pumice.engines.local.kubelet.container import Container
from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.engines.local.kubelet.pod import LocalPod, Scheduler, grace_of
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.snapshot import ContainerEnd
from pumice.store.events import LogGate, LogLine
from tests.local.sandbox.boxes import Box

ADDRESS = "10.77.0.10"


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - containers live in real time


class NoLogFile:
    """A log file that keeps nothing."""

    def write(self, data: bytes, _stream: str) -> int:
        return len(data)

    def close(self) -> None:
        return


def shell(script: str, **more: Any) -> Manifest:
    return {"name": "c", "command": ["sh", "-c", script], **more}


def pod_manifest(*containers: Manifest, **spec: Any) -> Manifest:
    annotations = {keys.TASK_SPEC: "task", keys.TASK_INDEX: "0", keys.JOB_VERSION: "0", keys.JOB_RETRY_COUNT: "0"}
    body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 20, "containers": list(containers), **spec}
    return {"metadata": {"name": "pod", "annotations": annotations}, "spec": body}


@dataclass
class Harness:
    """What a test sees of its containers: their output, warnings about them, and their restarts."""

    box: Box
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    messages: Path | None = None
    gate: LogGate = field(default_factory=LogGate)

    def container(self, manifest: Manifest, grace: float = 20) -> Container:
        def make_spec(_attempt: int) -> ContainerSpec:
            spec = self.box.spec("pod", *manifest["command"])._replace(id=f"pod/{manifest['name']}")
            if self.messages is None:
                return spec
            return spec._replace(mounts=(Mount(str(self.messages), manifest["terminationMessagePath"]),))

        def restarted(_end: ContainerEnd, count: int) -> None:
            self.restarts.append(count)

        return Container(
            manifest=manifest,
            sandbox=self.box.sandbox,
            make_spec=make_spec,
            open_logs=lambda _attempt: (self._pump(manifest, "stdout"), self._pump(manifest, "stderr")),
            changed=lambda: None,
            restarted=restarted,
            now=now,
            warn=self.warnings.append,
            grace=grace,
        )

    def pod(self, manifest: Manifest, scheduler: Scheduler | None = None) -> LocalPod:
        holder = self.box.spec("pod", "/bin/sh", "-c", "trap '' CHLD; exec sleep infinity")._replace(
            id="pod/.processes"
        )

        def make_container(container: Manifest) -> Container:
            made = self.container(container, grace_of(manifest["spec"]))
            if manifest["spec"].get("shareProcessNamespace"):
                make_spec = made.make_spec
                made.make_spec = lambda attempt: make_spec(attempt)._replace(share_pid_with=holder.id)
            return made

        return LocalPod(
            manifest=manifest,
            uid="uid",
            address=ADDRESS,
            sandbox=self.box.sandbox,
            make_container=make_container,
            changed=lambda: None,
            now=now,
            created_at=now(),
            scheduler=scheduler,
            make_holder=lambda: holder,
            warn=self.warnings.append,
        )

    def _pump(self, manifest: Manifest, stream: str) -> LogPump:
        def watch(lines: Sequence[LogLine] | LogLine) -> None:
            self.lines += [line.text for line in ([lines] if isinstance(lines, LogLine) else lines)]

        return LogPump("task-0", manifest["name"], stream, NoLogFile(), watch, self.gate)

"""A small job and what may happen to it, for tests of those who are told."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from pumice.engines.local.events import Moved, PodMoved
from pumice.engines.local.kubelet.container_logs import LogLine
from pumice.model.findings import SPEC
from pumice.model.job import Job, JobSpec, Metadata, TaskSpec
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.status import JobState, JobStatus
from pumice.reconcile.decision import JobEvent

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
ACTED = JobEvent("ExecuteAction", "", pod="w-0", policy=SPEC / "policies" / 0, event="PodFailed", action="RestartJob")


def _template(*names: str) -> dict[str, object]:
    return {"spec": {"containers": [{"name": name} for name in names]}}


JOB = Job(
    metadata=Metadata(name="j"),
    spec=JobSpec(
        min_available=3,
        max_retry=3,
        plugins={"svc": []},
        tasks=[
            TaskSpec(name="m", replicas=1, template=_template("one", "two")),
            TaskSpec(name="w", replicas=2, template=_template("main")),
        ],
    ),
)


def pod(task: str, index: int, phase: PodPhase, *ends: ContainerEnd) -> ObservedPod:
    return ObservedPod(f"j-{task}-{index}", f"{task}{index}", task, index, 0, 0, phase, START, ends=ends)


def pod_moved(task: str, index: int, phase: PodPhase, *ends: ContainerEnd) -> PodMoved:
    return PodMoved(pod(task, index, phase, *ends))


def end(code: int = 1, **fields: object) -> ContainerEnd:
    plain = ContainerEnd("main", code, finished_at=START + dt.timedelta(seconds=1), last_line="words")
    return replace(plain, **fields)  # type: ignore[arg-type] # fields of ContainerEnd


def moved(phase: str, *, attempt: int = 1, acted: JobEvent | None = None, message: str = "", **counts: Any) -> Moved:
    state = JobState(phase=phase, message=message, reason="Reason" if message else "")
    return Moved(JOB, JobStatus(state=state, **counts), attempt, acted)


def line(text: str, *, pod: str = "w-0", container: str = "main", unfinished: bool = False) -> LogLine:
    return LogLine(pod, container, "stdout", text, unfinished)

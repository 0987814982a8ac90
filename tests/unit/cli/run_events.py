"""A small job and the events of its run, for tests of listeners."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
from msgspec.structs import replace

from pumice.diagnosis.failures import Failure
from pumice.diagnosis.verdict import Evidence, judge
from pumice.model.findings import SPEC
from pumice.model.job import Job, JobSpec, JobState, JobStatus, Metadata, TaskSpec
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.reconcile.decision import JobEvent
from pumice.store.events import LogLine, PhaseChanged, PodChanged
from pumice.store.run_end import RunEnded, Stop, stop_reason

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


def pod_changed(task: str, index: int, phase: PodPhase, *ends: ContainerEnd) -> PodChanged:
    return PodChanged(pod(task, index, phase, *ends))


def end(code: int = 1, **fields: object) -> ContainerEnd:
    plain = ContainerEnd("main", code, finished_at=START + dt.timedelta(seconds=1), last_line="words")
    return replace(plain, **fields)


def entered(
    phase: str, *, attempt: int = 1, acted: JobEvent | None = None, message: str = "", cause: str = "", **counts: Any
) -> PhaseChanged:
    state = JobState(phase=phase, message=message, reason="Reason" if message else "")
    return PhaseChanged(JOB, JobStatus(state=state, **counts), attempt, acted, cause)


def outcome(phase: str, *ends: ContainerEnd, stop: Stop | None = None, **fields: Any) -> RunEnded:
    """Of a job whose pods w-0, w-1 and so on failed in this order."""
    status = JobStatus(state=JobState(phase=phase, reason="" if phase == "Completed" else "PodFailed"), retry_count=1)
    failures = [Failure(pod("w", index, PodPhase.FAILED, end), end) for index, end in enumerate(ends)]
    job = msgspec.structs.replace(JOB, status=status)
    verdict = judge(Evidence(job=job, failures=failures, stop=stop_reason(stop)))
    if verdict is not None:
        own = {name: fields.pop(name) for name in ("log", "next") if name in fields}
        verdict = msgspec.structs.replace(verdict, **own)
    return RunEnded(job, verdict, stop=stop, **fields)


def line(text: str, *, pod: str = "w-0", container: str = "main", unfinished: bool = False) -> LogLine:
    return LogLine(pod, container, "stdout", text, unfinished)

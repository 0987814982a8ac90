"""The warning about a job that waits in vain. The rest of a session is tested in tests/local/test_session.py."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.live_outcome import waits_in_vain
from pumice.model.job import DependsOn, Job, JobSpec, JobState, JobStatus, TaskSpec, TaskState

JOB = Job(
    spec=JobSpec(
        tasks=[
            TaskSpec(name="prepare", replicas=2),
            TaskSpec(name="train", replicas=1, depends_on=DependsOn(name=["prepare"])),
        ]
    )
)
DONE = {"prepare": TaskState(phase={"Failed": 1, "Succeeded": 1})}


def status(phase: str = "Pending", **values: Any) -> JobStatus:
    known = {"failed": 1, "succeeded": 1, "task_status_count": DONE, **values}
    return JobStatus(state=JobState(phase=phase), **known)


@pytest.mark.parametrize(
    ("found", "stalled"),
    [
        pytest.param(status(), True, id="no pod runs after a failure"),
        pytest.param(status("Running"), True, id="it was running"),
        pytest.param(status("Failed"), False, id="ended"),
        pytest.param(status("Restarting"), False, id="restarting"),
        pytest.param(status(failed=0), False, id="nothing failed"),
        pytest.param(status(running=1), False, id="a pod runs"),
        pytest.param(status(pending=1), False, id="a pod starts"),
        pytest.param(status(terminating=1), False, id="a pod ends"),
        pytest.param(status(task_status_count={**DONE, "train": TaskState()}), False, id="the task has started before"),
    ],
)
def test_a_job_that_waits_in_vain(found: JobStatus, stalled: bool) -> None:
    assert (
        waits_in_vain(JOB, found).startswith("train waits for prepare, and no pod runs any more: 1 failed") is stalled
    )

"""A job in which nothing runs and nothing will."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.stalled_job import Stall
from pumice.model.job import DependsOn, Job, JobSpec, TaskSpec
from pumice.model.status import JobState, JobStatus, TaskState

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
        pytest.param(status(), True, id="a failure, and nothing runs"),
        pytest.param(status("Running"), True, id="it has been running"),
        pytest.param(status("Failed"), False, id="it is over"),
        pytest.param(status("Restarting"), False, id="it is about to go on"),
        pytest.param(status(failed=0), False, id="nothing failed"),
        pytest.param(status(running=1), False, id="something runs"),
        pytest.param(status(pending=1), False, id="something starts"),
        pytest.param(status(terminating=1), False, id="something ends"),
        pytest.param(status(task_status_count={**DONE, "train": TaskState()}), False, id="it had its turn"),
    ],
)
def test_it_is_told_once_and_not_at_once(found: JobStatus, stalled: bool) -> None:
    stall = Stall()
    words = [stall.look(JOB, found) for _ in range(20)]
    assert words[0] == ""
    assert [each for each in words if each] == [each for each in words if each][:1]
    assert any(each.startswith("train waits for prepare, and nothing runs any more: 1 failed") for each in words) is (
        stalled
    )


def test_a_moment_between_two_tasks_is_none() -> None:
    stall = Stall()
    found = [status(), status(), status(running=1)] * 10
    assert not any(stall.look(JOB, each) for each in found)

from __future__ import annotations

import json
from typing import Any

import pytest

from pumice.engines.kubernetes.controller.engine import status_patch
from pumice.model.job import JobState, JobStatus, TaskState


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param(JobStatus(), JobStatus(running=2), {"running": 2}, id="number added"),
        pytest.param(JobStatus(running=2), JobStatus(), {"running": None}, id="number removed"),
        pytest.param(
            JobStatus(controlled_resources={"a": "1", "b": "2"}),
            JobStatus(controlled_resources={"a": "1", "c": "3"}),
            {"controlledResources": {"b": None, "c": "3"}},
            id="keys added and removed",
        ),
        pytest.param(
            JobStatus(task_status_count={"worker": TaskState(phase={"Pending": 2})}),
            JobStatus(task_status_count={"worker": TaskState(phase={"Running": 2})}),
            {"taskStatusCount": {"worker": {"phase": {"Pending": None, "Running": 2}}}},
            id="nested",
        ),
        pytest.param(
            JobStatus(state=JobState(phase="Running", reason="x")),
            JobStatus(state=JobState(phase="Completed")),
            {"state": {"phase": "Completed", "reason": None}},
            id="phase",
        ),
        pytest.param(JobStatus(running=1), JobStatus(running=1), {}, id="nothing"),
    ],
)
def test_status_patch(before: JobStatus, after: JobStatus, changes: dict[str, Any]) -> None:
    patch = json.loads(status_patch("17", before, after))
    assert patch == {"metadata": {"resourceVersion": "17"}, "status": changes}

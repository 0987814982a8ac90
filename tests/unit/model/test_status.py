from __future__ import annotations

import msgspec

from pumice.model.status import JobCondition, JobState, JobStatus, TaskState

WRITTEN = {
    "state": {"phase": "Running", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    "minAvailable": 3,
    "taskStatusCount": {"worker": {"phase": {"Running": 2, "Pending": 1}}},
    "pending": 1,
    "running": 2,
    "succeeded": 3,
    "failed": 4,
    "terminating": 5,
    "unknown": 6,
    "version": 7,
    "retryCount": 8,
    "runningDuration": "1m0s",
    "controlledResources": {"plugin-svc": "svc"},
    "conditions": [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}


def test_every_field_goes_both_ways() -> None:
    status = msgspec.convert(WRITTEN, JobStatus)
    assert status == JobStatus(
        state=JobState(phase="Running", reason="r", message="m", last_transition_time="2026-01-01T00:00:00Z"),
        min_available=3,
        task_status_count={"worker": TaskState(phase={"Running": 2, "Pending": 1})},
        pending=1,
        running=2,
        succeeded=3,
        failed=4,
        terminating=5,
        unknown=6,
        version=7,
        retry_count=8,
        running_duration="1m0s",
        controlled_resources={"plugin-svc": "svc"},
        conditions=[JobCondition(status="Pending", last_transition_time="2026-01-01T00:00:00Z")],
    )
    assert msgspec.to_builtins(status) == WRITTEN


def test_an_empty_status() -> None:
    assert msgspec.to_builtins(JobStatus()) == {}

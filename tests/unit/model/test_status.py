from __future__ import annotations

import msgspec

from pumice.model.job import JobStatus, first_min_available

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


def test_every_field_is_read_and_written() -> None:
    assert msgspec.to_builtins(msgspec.convert(WRITTEN, JobStatus)) == WRITTEN
    assert msgspec.to_builtins(JobStatus()) == {}


def test_the_first_min_available() -> None:
    entries = {
        "plugin-svc": "svc",
        "pumice/min-available": "4",
        "pumice/min-available/master": "1",
        "pumice/min-available/worker": "3",
        "pumice/min-available/a": "-1",
        "pumice/min-available/b": "9" * 10,
        "pumice/min-available/c": "\u0663",
        "pumice/min-availability": "7",
    }
    assert first_min_available(entries) == {"": 4, "master": 1, "worker": 3}

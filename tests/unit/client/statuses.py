"""The status of a run that exists only in a test."""

from __future__ import annotations

import datetime as dt

from pumice.client.values import Status
from pumice.diagnosis.outcome import Outcome
from pumice.store.run_record import PodCounts

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def a_status(**fields: object) -> Status:
    common = {
        "run": "ddp:1",
        "name": "ddp",
        "number": 1,
        "uid": "u",
        "namespace": "default",
        "outcome": Outcome.RUNNING,
        "phase": "Running",
        "reason": "",
        "message": "",
        "pods": PodCounts(running=2, total=4),
        "attempt": 2,
        "max_attempts": 3,
        "note": "",
        "args": [],
        "created": NOW,
        "started": NOW,
        "finished": None,
        "exit_code": None,
        "priority": 0,
        "mode": "detached",
        "host": "here",
        "file": "",
        "directory": "",
    }
    return Status(**{**common, **fields})  # type: ignore[arg-type] # fields of Status

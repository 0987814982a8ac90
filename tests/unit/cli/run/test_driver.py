"""What asyncio reports during a run."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pumice.cli.run import command
from pumice.engines.local.events import Listener, WarningIssued
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.session import LocalSession
from pumice.model.job import Job
from pumice.model.status import JobState, JobStatus


@pytest.mark.parametrize(
    ("context", "text"),
    [
        pytest.param(
            {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")},
            "socket.accept() out of system resource: Too many open files",
            id="system",
        ),
        pytest.param(
            {"message": "Task exception was never retrieved", "exception": ValueError("x")},
            "task exception was never retrieved: ValueError('x')",
            id="defect",
        ),
        pytest.param({"message": "Unclosed transport"}, "unclosed transport", id="no exception"),
    ],
)
def test_it_becomes_one_warning(context: dict[str, object], text: str) -> None:
    class Session:
        async def run(self, _listener: Listener) -> Outcome:
            for _ in range(3):
                asyncio.get_running_loop().call_exception_handler(context)
            return Outcome(Job(status=JobStatus(state=JobState(phase="Completed"))))

    shown: list[object] = []
    assert asyncio.run(command._Driver(cast(LocalSession, Session()), shown.append).run()) == 0
    assert shown == [WarningIssued(text)]

"""What asyncio reports in the process of a foreground run."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pumice.engines.local.supervisor.leased_process import LeasedProcess, LeaseWatch


class Published:
    """A control server that only remembers what it published."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def publish(self, event: object) -> None:
        self.events.append(event)


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
def test_an_error_that_asyncio_reports_becomes_one_warning(context: dict[str, object], text: str) -> None:
    async def story() -> list[str]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            published = Published()
            process = LeasedProcess(theirs, LeaseWatch(ours))
            process._server = published  # type: ignore[assignment] # all that a warning needs
            for _ in range(3):
                process._warn(context)
            process.connection.close()
            return [getattr(event, "message", "") for event in published.events]

    assert asyncio.run(story()) == [text]

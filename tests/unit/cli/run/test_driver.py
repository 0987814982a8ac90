"""A job that does not end when it is told to, which no real job should be."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pumice.cli.run import command
from pumice.engines.local.events import Teller, Warned
from pumice.engines.local.outcome import Stop
from pumice.engines.local.session import LocalRun


class _Stuck:
    """Answers to what a driver asks of a LocalRun."""

    def __init__(self) -> None:
        self.tell = Teller([])
        self.longest_grace = 0.0
        self.job = type("Named", (), {"name": "j"})
        self.stops: list[Stop] = []
        self.killed = 0

    async def run(self) -> int:
        await asyncio.sleep(1000)
        return 0

    def stop(self, stop: Stop) -> bool:
        self.stops.append(stop)
        return len(self.stops) == 1

    def was_killed(self, code: int) -> None:
        self.killed = code


def test_a_timeout_ends_even_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE", 0.01)
    stuck = _Stuck()
    driver = command._Driver(cast(LocalRun, stuck))
    assert asyncio.run(driver.drive(0.01, "10ms")) == 124
    assert stuck.killed == 124
    assert [stop.words for stop in stuck.stops] == ["j took longer than --timeout 10ms and was ended"]


@pytest.mark.parametrize(
    ("about", "told"),
    [
        pytest.param(
            {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")},
            "socket.accept() out of system resource: Too many open files",
            id="system",
        ),
        pytest.param(
            {"message": "Task exception was never retrieved", "exception": ValueError("x")},
            "task exception was never retrieved: ValueError('x')",
            id="ours",
        ),
        pytest.param({"message": "Unclosed transport"}, "unclosed transport", id="no exception"),
    ],
)
def test_what_asyncio_tells_is_one_warning(about: dict[str, object], told: str) -> None:
    stuck, heard = _Stuck(), list[object]()
    stuck.tell.listeners.append(heard.append)

    async def run() -> int:
        asyncio.get_running_loop().call_exception_handler(about)
        return 0

    stuck.run = run  # type: ignore[method-assign] # of this one only
    assert asyncio.run(command._Driver(cast(LocalRun, stuck)).drive(None, "")) == 0
    assert heard == [Warned(told)]

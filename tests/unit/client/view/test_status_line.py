"""The last line of a terminal."""

from __future__ import annotations

import pytest

from pumice.client.view.text_view import PodStates, state_line
from pumice.model.snapshot import PodPhase
from tests.unit.cli.run_events import JOB, pod


def _states(*phases: PodPhase) -> PodStates:
    states = PodStates()
    states.resize(JOB)
    states.scale({"w": max(2, len(phases))})
    for index, phase in enumerate(phases):
        states.record(pod("w", index, phase))
    return states


ALL = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.UNKNOWN)


@pytest.mark.parametrize(
    ("phase", "phases", "seconds", "shown"),
    [
        pytest.param("", (), 0, "Starting  00:00", id="nothing yet"),
        pytest.param("Pending", ALL, 7.9, "Pending  w ○●✓✗?  00:07", id="phases"),
        pytest.param("Running", ALL, 3600, "Running 1/6  w ○●✓✗?  1:00:00", id="running"),
        pytest.param(
            "Running", [PodPhase.RUNNING] * 20 + [PodPhase.FAILED], 59, "Running 20/22  w 20● 1✗  00:59", id="many"
        ),
    ],
)
def test_state_line(phase: str, phases: tuple[PodPhase, ...], seconds: float, shown: str) -> None:
    assert state_line(phase, _states(*phases), seconds, coloured=False) == shown


def test_pods_that_are_scaled_away_are_not_shown() -> None:
    states = _states(*[PodPhase.RUNNING] * 3)
    states.scale({"w": 1})
    states.record(pod("w", 2, PodPhase.FAILED))
    assert state_line("Running", states, 0, coloured=False) == "Running 1/2  w ●  00:00"


def test_marks_in_ascii() -> None:
    assert state_line("Pending", _states(*ALL), 0, coloured=False, unicode=False) == "Pending  w .o+x?  00:00"


def test_colours() -> None:
    assert "\x1b[31m✗\x1b[0m" in state_line("Pending", _states(*ALL), 0, coloured=True)


def test_a_new_pod_replaces_the_old_one_of_its_name() -> None:
    states = _states(PodPhase.FAILED)
    states.record(pod("w", 0, PodPhase.RUNNING))
    assert states.running == 1

"""How long a run ran and waited, and how long its pods lived, if it was suspended, or its process was killed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from pumice.client.local.local_backend import LocalBackend
from pumice.ui.queries import JobQuery
from tests.recorded_runs import HELD, INTERRUPTED, LOST, PODS, STOPPED, SUSPENDED, P, Q, R, RecordedRun, S
from tests.unit.ui.called import Called

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
HOUR = 3600.0  # since the run was made
MINUTES = tuple(float(each) for each in range(60, 660, 60))


def shown(directory: Path, run: RecordedRun) -> tuple[Called, JobQuery]:
    data = Called(LocalBackend({"XDG_STATE_HOME": str(directory)}, now=lambda: NOW))
    return data, JobQuery(run.run.record.uid)


@pytest.mark.parametrize(
    ("steps", "ran", "waited", "began"),
    [
        pytest.param([(0.1, Q), (2, S), (2.4, P), (3, "Running"), (50, STOPPED)], 48, 2, 2, id="queued"),
        pytest.param([(0.3, P), (0.4, "Running"), (10.3, STOPPED)], 10, 0.3, 0.3, id="foreground"),
        pytest.param([(0.3, P), (0.4, Q), (30, S), (31, "Running"), (40, STOPPED)], 10, 30, 30, id="foreground waits"),
        pytest.param(INTERRUPTED, 38 + 28 + 19.5, 2 + 2 + 0.5, 2, id="suspended, resumed, killed"),
        pytest.param(INTERRUPTED[:5], 38, 2, 2, id="suspended"),
        pytest.param(INTERRUPTED[:7], 38, None, None, id="waits again"),
        pytest.param([(0.1, Q), (2, S), (2.4, P), (3, "Running")], HOUR - 2, 2, 2, id="active"),
        pytest.param([*INTERRUPTED[:5], (100, S), (101, "Running")], 38 + HOUR - 100, 2, 2, id="active again"),
        pytest.param([(0.1, HELD), (60, R), (63, S), (64, "Running"), (70, STOPPED)], 7, 3, 63, id="held"),
        pytest.param([], None, None, None, id="nothing happened"),
    ],
)
def test_a_run_ran_while_it_had_its_room_and_waited_before(
    tmp_path: Path, steps: list[tuple[float, str]], ran: float | None, waited: float | None, began: float | None
) -> None:
    run = RecordedRun.make(tmp_path, NOW)
    run.write(*steps)
    data, query = shown(tmp_path, run)
    job = data.job(query.uid)
    start = None if job.started is None else (job.started - job.created).total_seconds()
    assert [job.ran, job.waited, start] == pytest.approx([ran, waited, began])


@pytest.mark.parametrize(
    ("steps", "measured", "lives"),
    [
        pytest.param(INTERRUPTED, (), [(3, 40), (103, 130), (131.2, 150)], id="noticed at once"),
        pytest.param(
            [(2, S), (3, "Running"), (900, LOST)], MINUTES, [(3, 600)], id="noticed late: the last measurement"
        ),
        pytest.param([(2, S), (3, "Running"), (660, LOST)], MINUTES, [(3, 660)], id="noticed between two measurements"),
        pytest.param([(2, S), (3, "Running"), (900, LOST)], (), [(3, 900)], id="nothing was measured"),
        pytest.param(
            [(2, S), (3, "Running"), (700, SUSPENDED), (1400, S), (1401, "Running"), (1700, LOST)],
            MINUTES,
            [(3, 700), (1401, 1700)],
            id="measured before it was suspended only",
        ),
    ],
)
def test_pods_lived_until_their_process_was_killed(
    tmp_path: Path, steps: list[tuple[float, str]], measured: tuple[float, ...], lives: list[tuple[float, float]]
) -> None:
    run = RecordedRun.make(tmp_path, NOW)
    run.write(*steps, measured=measured)
    data, query = shown(tmp_path, run)
    found = data.timeline(query)
    made = run.run.record.created
    assert [line.pod for line in found.pods] == list(PODS)
    for line in found.pods:
        assert all(part.end is not None for part in line.segments)
        ends = [((part.start - made), (part.end or part.start) - made) for part in line.segments if part.kind == "run"]
        assert [(start.total_seconds(), end.total_seconds()) for start, end in ends] == lives

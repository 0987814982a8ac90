"""A run that hangs, as a value, and its lines."""

from __future__ import annotations

import datetime as dt

import pytest

from pumice.diagnosis.hang import Hang, PodActivity, hang_groups, hang_lines, hang_note, hang_text

SINCE = dt.datetime(2026, 9, 18, 12, tzinfo=dt.UTC)
MASTER = PodActivity("master-0", "python3 sleeping in accept (socket.py:1)")
WORKERS = (PodActivity("worker-0", "python3 sleeping", True), PodActivity("worker-1", "python3 sleeping", True))


def hang(*doing: PodActivity, running: int = 3, silent: float = 60.4) -> Hang:
    return Hang(since=SINCE, silent=silent, running=running, doing=doing)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        pytest.param(
            hang(MASTER, *WORKERS),
            (
                "no pod has printed anything for 60s; 3 of them run",
                "  master-0: python3 sleeping in accept (socket.py:1)",
                "  worker-0: python3 sleeping",
                "  worker-1: python3 sleeping",
            ),
            id="all were looked at",
        ),
        pytest.param(
            hang(MASTER, running=9, silent=3725),
            (
                "no pod has printed anything for 1h02m; 9 of them run",
                "  master-0: python3 sleeping in accept (socket.py:1)",
                "  and 8 more",
            ),
            id="many",
        ),
        pytest.param(
            hang(running=2, silent=125), ("no pod has printed anything for 2m05s; 2 of them run",), id="none can be"
        ),
    ],
)
def test_the_lines_say_who_does_what(found: Hang, lines: tuple[str, ...]) -> None:
    assert hang_lines(found) == lines


@pytest.mark.parametrize(
    ("found", "last"),
    [
        pytest.param(
            hang(*WORKERS),
            "  hint: with py-spy in the Python of the pods (pip install py-spy), "
            "this shows in which functions they are",
            id="once for all pods",
        ),
        pytest.param(hang(MASTER), "  and 2 more", id="no pod lacks it"),
    ],
)
def test_the_text_says_what_would_show_more(found: Hang, last: str) -> None:
    *before, end = hang_text(found).split("\n")
    assert end == last
    assert not any("py-spy" in line for line in before)


def test_a_note_is_short_and_knows_the_time() -> None:
    found = hang(MASTER)
    assert hang_note(found) == "no output for 60s"
    assert hang_note(found.at(SINCE + dt.timedelta(seconds=80))) == "no output for 80s"
    # The clock of the machine was set back.
    assert hang_note(found.at(SINCE - dt.timedelta(hours=1))) == "no output for 60s"


def test_pods_that_do_the_same_share_a_row() -> None:
    found = hang(WORKERS[0], MASTER, WORKERS[1])
    assert hang_groups(found) == (
        "worker-0, worker-1: python3 sleeping",
        "master-0: python3 sleeping in accept (socket.py:1)",
    )
    assert hang_groups(found, without={"master-0", "worker-0"}) == ("worker-1: python3 sleeping",)


@pytest.mark.parametrize(
    ("found", "lacks"),
    [pytest.param(hang(MASTER, *WORKERS), True, id="some"), pytest.param(hang(MASTER), False, id="none")],
)
def test_py_spy_is_missed_where_a_python_program_has_none(found: Hang, lacks: bool) -> None:
    assert found.lacks_py_spy is lacks

"""What a person sees of a running job."""

from __future__ import annotations

import io

import pytest

from pumice.cli.run.screen import Screen
from pumice.cli.run.text_view import TextView
from pumice.engines.local.events import (
    Ended,
    Happening,
    Noted,
    Planned,
    Printed,
    Published,
    Restarted,
    Stopping,
    Teller,
    TimePassed,
    Warned,
)
from pumice.model.snapshot import PodPhase
from tests.unit.cli.happenings import ACTED, JOB, end, line, moved, pod, pod_moved
from tests.unit.cli.screens import SeenScreen

PLAN = Planned(JOB, "host (no registry)")
RUNNING = [pod_moved(task, index, PodPhase.RUNNING) for task, index in (("m", 0), ("w", 0), ("w", 1))]


class _Streams:
    """stdout and stderr, which are one terminal if `tty`."""

    def __init__(self, *, tty: bool = False) -> None:
        self.err = _Tty() if tty else io.StringIO()
        self.out = self.err if tty else io.StringIO()
        self.seconds = 0.0
        self.view = TextView(
            Screen(self.out, self.err, self.err if tty else None),
            lambda path: f"f:<{path}>",
            clock=lambda: self.seconds,
        )

    def tell(self, *happenings: Happening) -> None:
        for happening in happenings:
            self.view(happening)

    @property
    def seen(self) -> str:
        screen = SeenScreen()
        screen.feed(self.err.getvalue().replace("\n", "\r\n"))
        return screen.text


class _Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def streams() -> _Streams:
    return _Streams()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Streams:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return _Streams(tty=True)


def test_plan_is_one_line(streams: _Streams) -> None:
    streams.tell(PLAN)
    assert streams.err.getvalue() == "j  3 pods: m 1, w 2   gang 3   plugins svc   images: host (no registry)\n"


@pytest.mark.parametrize(
    ("happening", "told"),
    [
        pytest.param(moved("Pending"), "0.0s  Pending    starting 3 pods", id="pending"),
        pytest.param(moved("Pending", message="no room"), "0.0s  Pending    no room", id="waiting"),
        pytest.param(
            moved("Pending", attempt=2), "0.0s  Pending    attempt 2 of 3: starting 3 pods", id="another attempt"
        ),
        pytest.param(
            moved("Pending", attempt=2, running=2),
            "0.0s  Pending    attempt 2 of 3: starting 1 pod",
            id="only one is started again",
        ),
        pytest.param(moved("Running", running=1), "0.0s  Running    1/3", id="running"),
        pytest.param(moved("Completed", succeeded=3), "0.0s  Completed  3 succeeded in 0.0s", id="completed"),
        pytest.param(
            moved("Completed", succeeded=2, failed=1),
            "0.0s  Completed  2 succeeded, 1 failed in 0.0s",
            id="completed although one failed",
        ),
        pytest.param(
            moved("Failed", message="w-0 failed; 2 others followed"), "0.0s  Failed     w-0 failed", id="failed"
        ),
        pytest.param(moved("Aborted", message="w-0 failed; policy x"), "0.0s  Aborted    w-0 failed", id="aborted"),
        pytest.param(
            moved("Restarting", acted=ACTED, message="x"),
            "0.0s  Restarting w-0 failed: PodFailed -> RestartJob (policies[0], f:<spec.policies[0]>)",
            id="policy",
        ),
        pytest.param(
            Restarted(pod("w", 0, PodPhase.RUNNING), end(9), 1), "0.0s  w-0 restart 1: exit code 9: words", id="restart"
        ),
        pytest.param(
            Restarted(pod("w", 0, PodPhase.RUNNING), end(137, signal=9, reason="OOMKilled", last_line=""), 3, "do"),
            "0.0s  w-0 restart 3: signal 9 (SIGKILL), OOMKilled\n  hint: do",
            id="restart with a hint",
        ),
        pytest.param(
            Restarted(pod("w", 0, PodPhase.RUNNING), end(127, last_line="x\n  hint: \x1b[1my"), 1),
            "0.0s  w-0 restart 1: exit code 127: x; hint: y",
            id="restart of what could not be started",
        ),
        pytest.param(
            Restarted(pod("m", 0, PodPhase.RUNNING), end(9, container="two"), 1),
            "0.0s  m-0 two restart 1: exit code 9: words",
            id="one of two containers",
        ),
        pytest.param(Published("w-0", 80, "127.0.0.1:80"), "w-0:80 is published on 127.0.0.1:80", id="published"),
        pytest.param(Warned("beware"), "warning: beware", id="warning"),
        pytest.param(Noted("unpacking"), "unpacking", id="note"),
        pytest.param(Stopping(30), "stopping: the pods have up to 30s to end; Ctrl-C ends them at once", id="stopping"),
        pytest.param(Ended("Failed", 1, ["a", "  b"]), "\na\n  b", id="verdict"),
        pytest.param(Ended("Completed", 0, kept=["/x", "/y"]), "kept: /x\nkept: /y", id="kept"),
    ],
)
def test_talk_is_on_stderr(streams: _Streams, happening: Happening, told: str) -> None:
    streams.tell(PLAN)
    before = len(streams.err.getvalue())
    streams.tell(happening)
    assert streams.err.getvalue()[before:] == told + "\n"
    assert streams.out.getvalue() == ""


def test_nothing_more_is_said_when_all_is_well(streams: _Streams) -> None:
    streams.tell(Ended("Completed", 0), TimePassed())
    assert streams.err.getvalue() == ""


def test_that_all_pods_run_is_told_once_an_attempt(streams: _Streams) -> None:
    streams.tell(PLAN, RUNNING[0], moved("Running", running=1), *RUNNING[1:], *RUNNING)
    assert streams.err.getvalue().splitlines()[1:] == ["0.0s  Running    1/3", "0.0s  Running    3/3"]
    streams.tell(moved("Pending", attempt=2), moved("Running", attempt=2))
    assert streams.err.getvalue().splitlines()[4:] == ["0.0s  Running    3/3"]


def test_times_of_any_length_keep_their_column(streams: _Streams) -> None:
    streams.tell(moved("Pending", message="x"))
    streams.seconds = 31.24
    streams.tell(moved("Failed", message="y"))
    assert streams.err.getvalue() == "0.0s  Pending    x\n31.2s Failed     y\n"


def test_logs_are_on_stdout_each_with_its_pod(streams: _Streams) -> None:
    lines = [
        line("a"),
        line("b", container="first"),
        line("c", pod="m-0", container="one"),
        line("1%", unfinished=True),
    ]
    streams.tell(PLAN, Printed(lines))
    assert streams.out.getvalue() == "w-0  a\nw-0 first  b\nm-0 one  c\n"


def test_logs_without_prefix(streams: _Streams) -> None:
    streams.view.prefix = False
    streams.tell(PLAN, Printed([line("a"), line("b", container="first")]))
    assert streams.out.getvalue() == "a\nb\n"


def test_without_a_terminal_there_is_nothing_but_lines(streams: _Streams) -> None:
    streams.tell(PLAN, *RUNNING, Printed([line("a")]), TimePassed(), Ended("Failed", 1, ["x"]))
    assert not {"\r", "\x1b"} & set(streams.out.getvalue() + streams.err.getvalue())


def test_state_stays_at_the_bottom_and_is_gone_at_the_end(terminal: _Streams) -> None:
    terminal.tell(PLAN, moved("Pending"), *RUNNING, moved("Running"))
    terminal.seconds = 65
    terminal.tell(TimePassed(), Printed([line("a")]))
    assert terminal.seen.splitlines()[1:] == [
        "0.0s  Pending    starting 3 pods",
        "0.0s  Running    3/3",
        "w-0  a",
        "Running 3/3  m ● w ●●  01:05",
    ]
    terminal.tell(Ended("Failed", 1, ["w-0 failed first"]), TimePassed(), Printed([line("late")]), RUNNING[0])
    assert terminal.seen.splitlines()[3:] == ["w-0  a", "", "w-0 failed first", "w-0  late"]


def test_progress_bars_stay_under_their_prefix_until_they_end(terminal: _Streams) -> None:
    terminal.tell(PLAN, *RUNNING, moved("Running"))
    for number in range(3):
        bars = [line(f"{number}%", pod=f"w-{index}", unfinished=True) for index in range(2)]
        terminal.tell(Printed(bars), Printed([line(f"step {number}", pod="m-0", container="one")]))
    assert terminal.seen.splitlines()[2:] == [
        "m-0 one  step 0",
        "m-0 one  step 1",
        "m-0 one  step 2",
        "w-0  2%",
        "w-1  2%",
        "Running 3/3  m ● w ●●  00:00",
    ]
    terminal.tell(Printed([line("100%")]))
    assert terminal.seen.splitlines()[5:] == ["w-0  100%", "w-1  2%", "Running 3/3  m ● w ●●  00:00"]


@pytest.mark.parametrize(
    ("value", "coloured"), [pytest.param("", True, id="colour"), pytest.param("1", False, id="none")]
)
def test_no_color_is_respected(terminal: _Streams, monkeypatch: pytest.MonkeyPatch, value: str, coloured: bool) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    terminal.tell(PLAN, *RUNNING, Printed([line("a")]), Warned("x"))
    assert ("m\x1b[0m" in terminal.err.getvalue() or "\x1b[3" in terminal.err.getvalue()) is coloured
    assert "w ●●" in terminal.seen


def test_each_task_has_its_colour(terminal: _Streams) -> None:
    terminal.tell(PLAN, Printed([line("a"), line("b", pod="w-1"), line("c", pod="m-0", container="one")]))
    assert "\x1b[32mw-0\x1b[0m  a" in terminal.out.getvalue()
    assert "\x1b[32mw-1\x1b[0m  b" in terminal.out.getvalue()
    assert "\x1b[36mm-0 one\x1b[0m  c" in terminal.out.getvalue()


def test_a_warning_is_told_once() -> None:
    told: list[Happening] = []
    teller = Teller([told.append])
    for message in ("a", "b", "a"):
        teller.warn(message)
    assert told == [Warned("a"), Warned("b")]


def test_who_cannot_be_told_any_more_is_left_out() -> None:
    def broken(_happening: Happening) -> None:
        raise BrokenPipeError

    told: list[Happening] = []
    failures: list[OSError] = []
    teller = Teller([broken, told.append], failures.append)
    teller(TimePassed())
    teller(TimePassed())
    assert len(told) == 2
    assert [type(failure) for failure in failures] == [BrokenPipeError]

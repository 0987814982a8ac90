"""The output of `pumice run` for people."""

from __future__ import annotations

import datetime as dt
import io
import re

import pytest
from msgspec.structs import replace

from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.diagnosis.hang import Hang, PodActivity
from pumice.diagnosis.why import Hint, Why, WhyCode
from pumice.model.problem import Position
from pumice.model.snapshot import PodPhase
from pumice.store.events import (
    ContainerRestarted,
    HangEnded,
    LogOutput,
    PodChanged,
    PodKilled,
    PortPublished,
    Progress,
    RequestAccepted,
    RunEvent,
    RunHangs,
    RunPlanned,
    RunWaits,
    Stopping,
    Tick,
    WarningIssued,
)
from tests.unit.cli.run_events import ACTED, JOB, end, entered, line, outcome, pod, pod_changed
from tests.unit.cli.screens import SeenScreen
from tests.unit.store.history.test_run_history import history as fold_events

HANG = Hang(
    since=dt.datetime(2026, 9, 18, tzinfo=dt.UTC), silent=60, running=1, doing=(PodActivity("w-0", "python3 sleeping"),)
)
PLAN = RunPlanned(JOB, "host (no registry)")
RUNNING = [pod_changed(task, index, PodPhase.RUNNING) for task, index in (("m", 0), ("w", 0), ("w", 1))]


class _Streams:
    """stdout and stderr, which are one terminal if `tty`."""

    def __init__(self, *, tty: bool = False) -> None:
        self.err = _Tty() if tty else io.StringIO()
        self.out = self.err if tty else io.StringIO()
        self.seconds = 0.0
        self.view = TextView(
            Screen(self.out, self.err, self.err if tty else None),
            lambda path: Position(f"f:<{path}>"),
            clock=lambda: self.seconds,
        )

    def show(self, *events: RunEvent) -> None:
        for event in events:
            self.view(event)

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
    streams.show(PLAN)
    assert streams.err.getvalue() == "j  3 pods: m 1, w 2   gang 3   plugins svc   images: host (no registry)\n"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        pytest.param(entered("Pending"), "0.0s  Pending    starting 3 pods", id="pending"),
        pytest.param(entered("Pending", message="no room"), "0.0s  Pending    no room", id="waiting for something"),
        pytest.param(
            entered("Pending", attempt=2),
            "0.0s  Pending    attempt 2 of 3: starting 3 pods",
            id="another attempt",
        ),
        pytest.param(
            entered("Pending", attempt=2, running=2),
            "0.0s  Pending    attempt 2 of 3: starting 1 pod",
            id="only one pod restarts",
        ),
        pytest.param(entered("Running", running=1), "0.0s  Running    1/3", id="running"),
        pytest.param(entered("Completed", succeeded=3), "0.0s  Completed  in 0.0s: 3 succeeded", id="completed"),
        pytest.param(
            entered("Completed", succeeded=2, failed=1),
            "0.0s  Completed  in 0.0s: 2 succeeded, 1 failed",
            id="completed with a failed pod",
        ),
        pytest.param(
            entered("Failed", message="w-0 failed; 2 others followed", cause="w-0 failed"),
            "0.0s  Failed     w-0 failed",
            id="failed",
        ),
        pytest.param(entered("Aborted", message="w-0 failed"), "0.0s  Aborted    w-0 failed", id="no cause"),
        pytest.param(
            entered("Restarting", acted=ACTED, message="x"),
            "0.0s  Restarting w-0 failed: PodFailed -> RestartJob (policies[0], f:<spec.policies[0]>)",
            id="policy",
        ),
        pytest.param(
            ContainerRestarted(pod("w", 0, PodPhase.RUNNING), end(9), 1),
            "0.0s  w-0 restart 1: exit code 9: words",
            id="restart",
        ),
        pytest.param(
            ContainerRestarted(
                pod("w", 0, PodPhase.RUNNING), end(137, signal=9, reason="OOMKilled", last_line=""), 3, "do"
            ),
            "0.0s  w-0 restart 3: signal 9 (SIGKILL), OOMKilled\n  hint: do",
            id="restart with a hint",
        ),
        pytest.param(
            ContainerRestarted(pod("w", 0, PodPhase.RUNNING), end(127, last_line="x\n  hint: \x1b[1my\x1b[2J"), 1),
            "0.0s  w-0 restart 1: exit code 127: x; hint: y\\x1b[2J",
            id="restart after a failed start",
        ),
        pytest.param(
            ContainerRestarted(pod("m", 0, PodPhase.RUNNING), end(9, container="two"), 1),
            "0.0s  m-0 two restart 1: exit code 9: words",
            id="one of two containers",
        ),
        pytest.param(
            RunWaits(Why(run="job", code=WhyCode.QUEUE, since=None, message="no queue", hints=(Hint("make one"),))),
            "waits: no queue\n  hint: make one",
            id="a hint without a command",
        ),
        pytest.param(
            PodChanged(pod("w", 1, PodPhase.FAILED, end(5)), follows="no policy acts on PodFailed"),
            "0.0s  w-1 failed: exit code 5; no policy acts on PodFailed",
            id="failed pod",
        ),
        pytest.param(
            PodChanged(pod("m", 0, PodPhase.FAILED, end(127, reason="StartError", container="two")), follows="x"),
            "0.0s  m-0 failed: exit code 127, StartError in container two: words; x",
            id="a container that did not start",
        ),
        pytest.param(
            PodChanged(pod("w", 1, PodPhase.FAILED), follows="x"),
            "0.0s  w-1 failed: for an unknown reason; x",
            id="lost",
        ),
        pytest.param(PodKilled("w-0", "--kill w-0@2s"), "0.0s  w-0 killed by --kill w-0@2s", id="killed"),
        pytest.param(PortPublished("w-0", 80, "127.0.0.1:80"), "w-0:80 is published on 127.0.0.1:80", id="published"),
        pytest.param(WarningIssued("beware"), "warning: beware", id="warning"),
        pytest.param(
            RunHangs(HANG),
            "warning: no pod has printed anything for 60s; 1 of them run\n  w-0: python3 sleeping",
            id="hang",
        ),
        pytest.param(
            RunHangs(replace(HANG, doing=(PodActivity("w-0", "python3 sleeping", lacks_py_spy=True),))),
            "warning: no pod has printed anything for 60s; 1 of them run\n  w-0: python3 sleeping\n  hint: with py-spy "
            "in the Python of the pods (pip install py-spy), this shows in which functions they are",
            id="hang without py-spy",
        ),
        pytest.param(Progress("unpacking"), "unpacking", id="note"),
        pytest.param(Stopping(30), "stopping: the pods have up to 30s to end; Ctrl-C ends them at once", id="stopping"),
        pytest.param(
            outcome("Failed", end(last_line="\x1b[1mwhy\u202e")),
            "\nw-0 failed first: exit code 1 in container main after 1.0s\n  last line     why\\u202e",
            id="verdict",
        ),
        pytest.param(outcome("Completed", kept=["/x", "/y"]), "kept: /x\nkept: /y", id="kept"),
    ],
)
def test_messages_go_to_stderr(streams: _Streams, event: RunEvent, text: str) -> None:
    streams.show(PLAN)
    before = len(streams.err.getvalue())
    streams.show(event)
    assert streams.err.getvalue()[before:] == text + "\n"
    assert streams.out.getvalue() == ""


def test_a_silence_like_the_last_one_is_not_shown_again(streams: _Streams) -> None:
    """A program that prints every two minutes is silent again and again, and does the same each time."""
    later = replace(HANG, doing=(PodActivity("w-0", "python3 running"),))
    for event in (RunHangs(HANG), HangEnded(), RunHangs(replace(HANG, silent=61)), HangEnded(), RunHangs(later)):
        streams.show(event)
    shown = [line for line in streams.err.getvalue().splitlines() if line.startswith("  w-0: ")]
    assert shown == ["  w-0: python3 sleeping", "  w-0: python3 running"]


def test_a_completed_job_has_no_verdict(streams: _Streams) -> None:
    streams.show(outcome("Completed"))
    assert streams.err.getvalue() == ""


def test_pods_that_the_job_ended_are_counted(streams: _Streams) -> None:
    acted = replace(ACTED, action="CompleteJob")
    streams.show(PLAN, entered("Completing", acted=acted), entered("Completed", succeeded=1))
    assert streams.err.getvalue().splitlines()[-1] == "0.0s  Completed  in 0.0s: 1 succeeded, 2 ended by CompleteJob"


def test_the_header_names_the_run_and_its_directory(streams: _Streams) -> None:
    streams.show(RunPlanned(JOB, "host", name="j-00000000", directory="/s/runs/j-00000000"))
    assert streams.err.getvalue().splitlines()[1] == "  run j-00000000   /s/runs/j-00000000"


def test_log_lines_with_the_time(streams: _Streams) -> None:
    streams.view.timestamps = lambda: "12:00"
    streams.show(PLAN, LogOutput([line("a")]))
    assert streams.out.getvalue() == "12:00 w-0  a\n"


def test_phases_and_the_verdict_stand_out(terminal: _Streams) -> None:
    terminal.show(PLAN, entered("Running"), pod_changed("w", 0, PodPhase.FAILED, end(5)), entered("Failed"))
    terminal.show(entered("Completed"), outcome("Failed", end()))
    shown = terminal.err.getvalue()
    for painted in ("1mRunning", "1;31mFailed", "1;32mCompleted", "1;31mw-0 failed first: exit code 1"):
        assert f"\x1b[{painted}" in shown, painted


def test_all_pods_running_is_shown_once_per_attempt(streams: _Streams) -> None:
    streams.show(PLAN, RUNNING[0], entered("Running", running=1), *RUNNING[1:], *RUNNING)
    assert streams.err.getvalue().splitlines()[1:] == ["0.0s  Running    1/3", "0.0s  Running    3/3"]
    streams.show(entered("Pending", attempt=2), entered("Running", attempt=2))
    assert streams.err.getvalue().splitlines()[4:] == ["0.0s  Running    3/3"]


def test_times_are_aligned(streams: _Streams) -> None:
    streams.show(entered("Pending", message="x"))
    streams.seconds = 31.24
    streams.show(entered("Failed", message="y"))
    assert streams.err.getvalue() == "0.0s  Pending    x\n31.2s Failed     y\n"


def test_logs_go_to_stdout_with_the_name_of_the_pod(streams: _Streams) -> None:
    lines = [
        line("a"),
        line("b", container="first"),
        line("c", pod="m-0", container="one"),
        line("1%", unfinished=True),
    ]
    streams.show(PLAN, LogOutput(lines))
    assert streams.out.getvalue() == "w-0  a\nw-0 first  b\nm-0 one  c\n"


def test_logs_without_prefix(streams: _Streams) -> None:
    streams.view.prefix = False
    streams.show(PLAN, LogOutput([line("a"), line("b", container="first")]))
    assert streams.out.getvalue() == "a\nb\n"


def test_without_a_terminal_nothing_is_redrawn(streams: _Streams) -> None:
    streams.show(PLAN, *RUNNING, LogOutput([line("a")]), Tick(), outcome("Failed"))
    assert not {"\r", "\x1b"} & set(streams.out.getvalue() + streams.err.getvalue())


def test_the_state_stays_in_the_last_line_until_the_end(terminal: _Streams) -> None:
    terminal.show(PLAN, entered("Pending"), *RUNNING, entered("Running"))
    terminal.seconds = 65
    terminal.show(Tick(), LogOutput([line("a")]))
    assert terminal.seen.splitlines()[1:] == [
        "0.0s  Pending    starting 3 pods",
        "0.0s  Running    3/3",
        "w-0  a",
        "Running 3/3  m ● w ●●  01:05",
    ]
    terminal.show(outcome("Failed"))
    assert terminal.seen.splitlines()[3:] == ["w-0  a", "", "j failed: PodFailed"]


def test_the_state_has_the_number_of_pods_of_a_run_that_was_scaled(terminal: _Streams) -> None:
    terminal.show(PLAN, entered("Running"), *RUNNING, RequestAccepted(replicas={"w": 3}))
    assert terminal.seen.rstrip().endswith("Running 3/4  m ● w ●●  00:00")
    terminal.show(pod_changed("w", 2, PodPhase.RUNNING), RequestAccepted(replicas={"w": 1}))
    assert terminal.seen.rstrip().endswith("Running 2/2  m ● w ●  00:00")


def test_a_run_that_is_attached_to_is_never_shown_as_starting(terminal: _Streams) -> None:
    history = fold_events(PLAN, entered("Running"), *RUNNING, RequestAccepted(replicas={"w": 3}))
    terminal.view.catch_up(history, 300)
    assert "Starting" not in terminal.err.getvalue()
    assert terminal.seen.rstrip().endswith("Running 3/4  m ● w ●●  05:00")


def test_a_run_that_is_attached_to_is_shown_with_pods_that_came_by_scaling(terminal: _Streams) -> None:
    larger = (RequestAccepted(replicas={"w": 3}), pod_changed("w", 2, PodPhase.RUNNING))
    terminal.view.catch_up(fold_events(PLAN, entered("Running"), *RUNNING, *larger), 300)
    assert "4 pods: m 1, w 3" in terminal.seen
    drawn = set(re.findall("Running ./.", terminal.err.getvalue()))
    assert (drawn, terminal.seen.rstrip().splitlines()[-1]) == ({"Running 4/4"}, "Running 4/4  m ● w ●●●  05:00")


def test_the_state_is_not_drawn_after_the_end(terminal: _Streams) -> None:
    """The process of the run may still take a while to end."""
    terminal.show(PLAN, *RUNNING, outcome("Failed"))
    shown = terminal.seen
    terminal.show(Tick())
    assert terminal.seen == shown


def test_progress_bars_are_updated_in_place_until_they_end(terminal: _Streams) -> None:
    terminal.show(PLAN, *RUNNING, entered("Running"))
    for number in range(3):
        bars = [line(f"{number}%", pod=f"w-{index}", unfinished=True) for index in range(2)]
        terminal.show(LogOutput(bars), LogOutput([line(f"step {number}", pod="m-0", container="one")]))
    assert terminal.seen.splitlines()[2:] == [
        "m-0 one  step 0",
        "m-0 one  step 1",
        "m-0 one  step 2",
        "w-0  2%",
        "w-1  2%",
        "Running 3/3  m ● w ●●  00:00",
    ]
    terminal.show(LogOutput([line("100%")]))
    assert terminal.seen.splitlines()[5:] == ["w-0  100%", "w-1  2%", "Running 3/3  m ● w ●●  00:00"]


@pytest.mark.parametrize(
    ("value", "coloured"), [pytest.param("", True, id="colour"), pytest.param("1", False, id="none")]
)
def test_no_color_turns_colours_off(
    terminal: _Streams, monkeypatch: pytest.MonkeyPatch, value: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    terminal.show(PLAN, *RUNNING, LogOutput([line("a")]), WarningIssued("x"))
    assert ("m\x1b[0m" in terminal.err.getvalue() or "\x1b[3" in terminal.err.getvalue()) is coloured
    assert "w ●●" in terminal.seen


def test_each_task_has_its_colour_and_each_pod_its_shade(terminal: _Streams) -> None:
    terminal.show(PLAN, LogOutput([line("a"), line("b", pod="w-1"), line("c", pod="m-0", container="one")]))
    assert "\x1b[32mw-0\x1b[0m  a" in terminal.out.getvalue()
    assert "\x1b[92mw-1\x1b[0m  b" in terminal.out.getvalue()
    assert "\x1b[36mm-0 one\x1b[0m  c" in terminal.out.getvalue()

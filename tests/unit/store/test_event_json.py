"""The events of a run as JSON."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.diagnosis.hang import Hang, PodActivity
from pumice.model.snapshot import PodPhase
from pumice.store.event_json import JsonView
from pumice.store.events import (
    ContainerRestarted,
    LogOutput,
    PodChanged,
    PortPublished,
    RunEvent,
    RunHangs,
    RunPlanned,
    Stopping,
    Tick,
    WarningIssued,
)
from pumice.store.run_end import Stop
from tests.unit.cli.run_events import ACTED, JOB, START, end, entered, line, outcome, pod, pod_changed


def _written(*events: RunEvent, with_logs: bool = True) -> list[dict[str, Any]]:
    written: list[str] = []
    view = JsonView(written.append, lambda _outcome: "do", with_logs=with_logs)
    for event in events:
        view(event)
    return [json.loads(each) for each in "".join(written).splitlines()]


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        pytest.param(
            RunPlanned(JOB, "host"),
            {"type": "plan", "job": "j", "tasks": {"m": 1, "w": 2}, "minAvailable": 3, "images": "host"},
            id="plan",
        ),
        pytest.param(entered("Running"), {"type": "phase", "phase": "Running", "attempt": 1}, id="phase"),
        pytest.param(
            entered("Restarting", acted=ACTED, message="why"),
            {
                "type": "phase",
                "phase": "Restarting",
                "attempt": 1,
                "reason": "Reason",
                "message": "why",
                "pod": "w-0",
                "policy": "spec.policies[0]",
                "event": "PodFailed",
                "action": "RestartJob",
            },
            id="phase after a policy acted",
        ),
        pytest.param(
            PodChanged(pod("w", 0, PodPhase.PENDING), {"main": "busybox"}),
            {"type": "pod", "pod": "w-0", "phase": "Pending", "attempt": 1, "images": {"main": "busybox"}},
            id="pod created",
        ),
        pytest.param(
            pod_changed("w", 0, PodPhase.FAILED, end(137, signal=9, reason="OOMKilled")),
            {
                "type": "pod",
                "pod": "w-0",
                "phase": "Failed",
                "attempt": 1,
                "container": "main",
                "code": 137,
                "signal": 9,
                "reason": "OOMKilled",
                "line": "words",
            },
            id="pod failed",
        ),
        pytest.param(
            pod_changed("w", 0, PodPhase.SUCCEEDED, end(0)),
            {
                "type": "pod",
                "pod": "w-0",
                "phase": "Succeeded",
                "attempt": 1,
                "container": "main",
                "code": 0,
                "line": "words",
            },
            id="pod succeeded",
        ),
        pytest.param(
            PodChanged(replace(pod("w", 0, PodPhase.FAILED, end(143, signal=15)), deleted_at=START)),
            {
                "type": "pod",
                "pod": "w-0",
                "phase": "Failed",
                "attempt": 1,
                "container": "main",
                "code": 143,
                "signal": 15,
                "reason": "Deleted",
                "line": "words",
            },
            id="pod deleted",
        ),
        pytest.param(
            ContainerRestarted(pod("w", 0, PodPhase.RUNNING), end(9), 2, "hint"),
            {
                "type": "pod",
                "pod": "w-0",
                "phase": "Running",
                "attempt": 2,
                "container": "main",
                "code": 9,
                "reason": "Restarted",
                "line": "words",
            },
            id="container restarted",
        ),
        pytest.param(
            PortPublished("w-0", 80, "127.0.0.1:81"),
            {"type": "pod", "pod": "w-0", "reason": "Published", "port": 80, "address": "127.0.0.1:81"},
            id="published",
        ),
        pytest.param(WarningIssued("beware"), {"type": "warning", "message": "beware"}, id="warning"),
        pytest.param(
            RunHangs(Hang(since=START, silent=60, running=1, doing=(PodActivity("w-0", "sleep sleeping"),))),
            {
                "type": "warning",
                "message": "no pod has printed anything for 60s; 1 of them run\n  w-0: sleep sleeping",
            },
            id="hang",
        ),
        pytest.param(
            outcome("Failed", end(137, signal=9), kept=["/x"]),
            {
                "type": "verdict",
                "phase": "Failed",
                "code": 137,
                "signal": 9,
                "pod": "w-0",
                "container": "main",
                "reason": "PodFailed",
                "attempt": 1,
                "line": "words",
                "kept": ["/x"],
                "message": "w-0 failed first: signal 9 (SIGKILL) in container main after 1.0s\n  last line     words\n"
                "  next          do",
            },
            id="verdict",
        ),
        pytest.param(
            outcome("Completed", end(1)),
            {"type": "verdict", "phase": "Completed", "code": 0, "attempt": 2},
            id="completed",
        ),
        pytest.param(
            outcome("Terminated", stop=Stop(124, "Timeout", "too long")),
            {
                "type": "verdict",
                "phase": "Terminated",
                "code": 124,
                "reason": "Timeout",
                "message": "too long\n  next          do",
            },
            id="stopped",
        ),
    ],
)
def test_events(event: RunEvent, fields: dict[str, Any]) -> None:
    (written,) = _written(event)
    assert dt.datetime.fromisoformat(written.pop("time")).tzinfo is not None
    assert written == fields


def test_log_lines_are_events_but_states_of_progress_bars_are_not() -> None:
    output = LogOutput([line("a"), line("1%", unfinished=True), line(""), line('"\\\u2028é')])
    written = _written(output)
    assert [event["line"] for event in written] == ["a", "", '"\\\u2028é']
    assert {event["type"] for event in written} == {"log"}
    assert {(event["pod"], event["container"], event["stream"]) for event in written} == {("w-0", "main", "stdout")}


def test_events_for_people_only_are_left_out() -> None:
    assert _written(Tick(), Stopping(1)) == []
    assert _written(LogOutput([line("a")]), with_logs=False) == []

"""The events of a run for programs."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest

from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import (
    Ended,
    Happening,
    Planned,
    PodMoved,
    Printed,
    Published,
    Restarted,
    Stopping,
    TimePassed,
    Warned,
)
from pumice.model.snapshot import PodPhase
from tests.unit.cli.happenings import ACTED, JOB, START, end, line, moved, pod, pod_moved


def _told(*happenings: Happening, with_logs: bool = True) -> list[dict[str, Any]]:
    written: list[str] = []
    view = JsonView(written.append, with_logs=with_logs)
    for happening in happenings:
        view(happening)
    return [json.loads(each) for each in "".join(written).splitlines()]


@pytest.mark.parametrize(
    ("happening", "event"),
    [
        pytest.param(
            Planned(JOB, "host"),
            {"type": "plan", "job": "j", "tasks": {"m": 1, "w": 2}, "minAvailable": 3, "images": "host"},
            id="plan",
        ),
        pytest.param(moved("Running"), {"type": "phase", "phase": "Running", "attempt": 1}, id="phase"),
        pytest.param(
            moved("Restarting", acted=ACTED, message="why"),
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
            id="phase that a policy led to",
        ),
        pytest.param(
            PodMoved(pod("w", 0, PodPhase.PENDING), {"main": "busybox"}),
            {"type": "pod", "pod": "w-0", "phase": "Pending", "attempt": 1, "images": {"main": "busybox"}},
            id="pod made",
        ),
        pytest.param(
            pod_moved("w", 0, PodPhase.FAILED, end(137, signal=9, reason="OOMKilled")),
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
            pod_moved("w", 0, PodPhase.SUCCEEDED, end(0)),
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
            PodMoved(replace(pod("w", 0, PodPhase.FAILED, end(143, signal=15)), deleted_at=START)),
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
            Restarted(pod("w", 0, PodPhase.RUNNING), end(9), 2, "hint"),
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
            Published("w-0", 80, "127.0.0.1:81"),
            {"type": "pod", "pod": "w-0", "reason": "Published", "port": 80, "address": "127.0.0.1:81"},
            id="published",
        ),
        pytest.param(Warned("beware"), {"type": "warning", "message": "beware"}, id="warning"),
        pytest.param(
            Ended("Failed", 137, ["a", "b"], "w-0", "main", 9, "PodFailed", 2, "words", ["/x"]),
            {
                "type": "verdict",
                "phase": "Failed",
                "code": 137,
                "signal": 9,
                "pod": "w-0",
                "container": "main",
                "reason": "PodFailed",
                "attempt": 2,
                "line": "words",
                "kept": ["/x"],
                "message": "a\nb",
            },
            id="verdict",
        ),
        pytest.param(Ended("Completed", 0), {"type": "verdict", "phase": "Completed", "code": 0}, id="all well"),
    ],
)
def test_events(happening: Happening, event: dict[str, Any]) -> None:
    (told,) = _told(happening)
    assert dt.datetime.fromisoformat(told.pop("time")).tzinfo is not None
    assert told == event


def test_log_lines_are_events_even_empty_ones_but_not_the_states_of_progress_bars() -> None:
    printed = Printed([line("a"), line("1%", unfinished=True), line(""), line('"\\\u2028é')])
    told = _told(printed)
    assert [event["line"] for event in told] == ["a", "", '"\\\u2028é']
    assert {event["type"] for event in told} == {"log"}
    assert {(event["pod"], event["container"], event["stream"]) for event in told} == {("w-0", "main", "stdout")}


def test_what_is_for_people_only_is_no_event() -> None:
    assert _told(TimePassed(), Stopping(1)) == []
    assert _told(Printed([line("a")]), with_logs=False) == []

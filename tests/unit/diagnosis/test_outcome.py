from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.outcome import Facts, Outcome, StopReason, held_text, is_asked, outcome, phase_text, stop_text
from pumice.model.job import JobCondition, JobState, JobStatus
from pumice.model.vocabulary import COMMAND, SUSPENDED, Phase


def _ended(phase: str, *, asked: bool = False) -> dict[str, Any]:
    return {"phase": phase, "ended": True, "asked": asked}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(_ended("Completed"), Outcome.SUCCEEDED, id="completed"),
        pytest.param(_ended("Completed", asked=True), Outcome.SUCCEEDED, id="completed before a stop took effect"),
        pytest.param(_ended("Failed"), Outcome.FAILED, id="failed"),
        pytest.param(_ended("Terminated"), Outcome.FAILED, id="a policy, a timeout or a lost client terminated it"),
        pytest.param(_ended("Aborted"), Outcome.FAILED, id="a policy aborted it"),
        pytest.param(_ended("Terminated", asked=True), Outcome.STOPPED, id="a person stopped it"),
        pytest.param(_ended("Failed", asked=True), Outcome.STOPPED, id="a person stopped it while it failed"),
        pytest.param({"phase": "", "started": False}, Outcome.WAITING, id="before it has a phase"),
        pytest.param({"phase": "Pending", "started": False}, Outcome.WAITING, id="waits for its resources"),
        pytest.param({"phase": "", "started": True}, Outcome.STARTING, id="has them, and no phase yet"),
        pytest.param({"phase": "Pending"}, Outcome.STARTING, id="pods start"),
        pytest.param({"phase": "Running"}, Outcome.RUNNING, id="runs"),
        pytest.param({"phase": "Restarting"}, Outcome.RESTARTING, id="restarts"),
        *(
            pytest.param({"phase": str(phase)}, Outcome.STOPPING, id=f"{phase}, with pods that end")
            for phase in Phase
            if phase not in (Phase.PENDING, Phase.RUNNING, Phase.RESTARTING)
        ),
        pytest.param({"phase": "Running", "stopping": True}, Outcome.STOPPING, id="a stop was accepted"),
        pytest.param({"phase": "Pending", "started": False, "stopping": True}, Outcome.STOPPING, id="while it waited"),
        pytest.param(
            {"phase": "Aborted", "started": False, "needs_resume": True, "asked": True},
            Outcome.SUSPENDED,
            id="suspended",
        ),
        pytest.param({"phase": "Aborted", "started": False, "needs_resume": True}, Outcome.HELD, id="--hold"),
        pytest.param({"phase": "Pending", "started": False, "needs_resume": True}, Outcome.HELD, id="secrets missing"),
        pytest.param({"phase": "Aborted", "needs_resume": True}, Outcome.STOPPING, id="aborted a moment ago"),
    ],
)
def test_outcome(facts: dict[str, Any], expected: Outcome) -> None:
    assert outcome(Facts(**facts)) is expected


def test_there_are_no_others() -> None:
    words = "Held Waiting Starting Running Restarting Stopping Suspended Succeeded Failed Stopped"
    assert list(Outcome) == words.split()


@pytest.mark.parametrize("reason", [*StopReason, SUSPENDED, COMMAND])
def test_a_person_asked(reason: str) -> None:
    assert is_asked(reason)


@pytest.mark.parametrize(
    "reason",
    ["", "Timeout", "NoRoom", "ClientLost", "EngineCrashed", "DiskLimitExceeded", "OutputFailed", "PodFailed"],
)
def test_nobody_asked(reason: str) -> None:
    assert not is_asked(reason)


@pytest.mark.parametrize(
    ("reason", "message", "text"),
    [
        ("Stopped", "it was stopped", "stopped by you"),
        ("Killed", "", "stopped by you"),
        ("Interrupted", "", "stopped by Ctrl-C"),
        ("Terminated", "", "stopped by SIGTERM"),
        ("HungUp", "", "its terminal was closed"),
        ("OutputClosed", "", "its output was closed"),
        ("Suspended", "", "suspended by you"),
        ("Suspended", "the machine was restarted", "the machine was restarted"),
        ("Timeout", "it ran longer than its timeout of 10m", "it ran longer than its timeout of 10m"),
        ("ListenerFailed", "", "ListenerFailed"),
    ],
)
def test_stop_text(reason: str, message: str, text: str) -> None:
    assert stop_text(reason, message) == text


@pytest.mark.parametrize(
    ("phases", "stop", "text"),
    [
        ("Running Restarting", "", "restarted by you"),
        ("Restarting", "", "restarted by you"),
        ("Running Aborting", "suspended by you", "suspended by you"),
        ("Aborting Aborted", "", "suspended by you"),
        ("Aborted Restarting", "", "resumed by you"),
        ("Running Terminating", "stopped by Ctrl-C", "stopped by Ctrl-C"),
        ("Aborted Terminated", "", "stopped by you"),
    ],
)
def test_phase_text_after_a_command(phases: str, stop: str, text: str) -> None:
    conditions = [JobCondition(status=each) for each in phases.split()]
    status = JobStatus(state=JobState(phase=conditions[-1].status, reason="Command"), conditions=conditions)
    assert phase_text(status, stop) == text


def test_a_suspended_job_of_a_cluster_says_that_a_person_asked() -> None:
    assert held_text(JobState(phase="Aborted", reason=COMMAND, message="AbortJob ...")) == "a person suspended it"
    assert held_text(JobState(phase="Aborted", reason="PodFailed", message="worker-0 failed")) == "worker-0 failed"


def test_phase_text_without_a_command_is_what_the_status_says() -> None:
    assert phase_text(JobStatus(state=JobState(phase="Restarting", message="worker-0 failed")), "") == "worker-0 failed"

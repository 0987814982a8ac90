from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.pod_ends import Reason
from pumice.model.findings import SPEC
from pumice.model.job import Metadata
from pumice.model.snapshot import Command, CommandTarget, Failure
from pumice.model.vocabulary import Action, Event, Phase
from pumice.plugins.ssh import Ssh
from pumice.reconcile.decision import JobEvent, Severity
from pumice.reconcile.events import events_for
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import move_for
from pumice.reconcile.requested_action import Request
from pumice.reconcile.transition import Transition
from pumice.reconcile.waiting_pods import Wait
from tests.unit.reconcile.values import a_match, a_pod, a_state

MATCH = a_match(Action.RESTART_JOB, Event.POD_FAILED, "worker-0")
BY_POLICY = Request(Action.RESTART_JOB, (MATCH,))
BY_COMMAND = Request(Action.ABORT_JOB, command=Command(action="AbortJob", metadata=Metadata(name="stop")))
QUOTA = Failure("FailedCreate", "quota")


def _transition(request: Request | None = None, cause: str = "") -> Transition:
    return Transition(request, move_for(Phase.RUNNING, None), Phase.RUNNING, Reason(cause=cause))


def emitted(
    before: dict[str, Any], after: dict[str, Any], request: Request | None = None
) -> list[tuple[str, str, str]]:
    state = a_state(**after)
    wait = Wait(after.get("reason", ""), after.get("message", "")) if state.phase == "Running" else Wait()
    events = events_for(a_state(**before), state, _transition(request), wait, ())
    return [(event.reason, event.message, str(event.severity)) for event in events]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"phase": "Pending"}, {}, [("Running", "the job is Running", "Normal")], id="a phase"),
        pytest.param({}, {"phase": "Failed", "message": "why"}, [("Failed", "why", "Warning")], id="a failure"),
        pytest.param(
            {},
            {"reason": "FailedCreate", "message": "quota", "failures": (QUOTA,)},
            [("FailedCreate", "quota", "Warning")],
            id="a failure of the engine",
        ),
        pytest.param(
            {"reason": "FailedCreate", "message": "quota"},
            {"reason": "FailedCreate", "message": "quota", "failures": (QUOTA,)},
            [],
            id="a failure that was reported",
        ),
        pytest.param({"reason": "FailedCreate", "message": "quota"}, {}, [], id="a failure that is over"),
        pytest.param(
            {}, {"reason": "ClaimMissing", "message": "mine"}, [("PVCError", "mine", "Warning")], id="a missing claim"
        ),
        pytest.param(
            {}, {"reason": "Unschedulable", "message": "full"}, [("PodGroupPending", "full", "Warning")], id="no room"
        ),
        pytest.param(
            {"phase": "Aborting"},
            {"phase": "Aborting", "failures": (QUOTA,)},
            [("FailedCreate", "quota", "Warning")],
            id="a failure while winding down",
        ),
    ],
)
def test_which_events_are_emitted(
    before: dict[str, Any], after: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert emitted(before, after) == expected


PULL = {"ledger": Ledger(waiting="uid"), "reason": "ErrImagePull", "message": "w-0 waits: ErrImagePull: 403"}


@pytest.mark.parametrize(
    ("before", "phase", "wait", "expected"),
    [
        pytest.param({}, "Running", Wait("ErrImagePull", "403", "uid"), ["ErrImagePull"], id="a pod begins to wait"),
        pytest.param(PULL, "Running", Wait("ImagePullBackOff", "again", "uid"), [], id="a reason that alternates"),
        pytest.param(PULL, "Running", Wait("ErrImagePull", "other words", "uid"), [], id="in other words"),
        pytest.param(PULL, "Running", Wait("CrashLoopBackOff", "", "uid"), ["CrashLoopBackOff"], id="another cause"),
        pytest.param(PULL, "Running", Wait("ErrImagePull", "403", "other"), ["ErrImagePull"], id="another pod"),
        pytest.param(PULL, "Running", Wait(), [], id="it waits no more"),
        pytest.param({}, "Running", Wait("Unschedulable", "no room", "uid"), ["Unschedulable"], id="of a pod"),
        pytest.param({}, "Aborting", Wait("NodeLost", "n1", "uid"), ["NodeLost"], id="a lost node, winding down"),
        pytest.param(
            {"ledger": Ledger(waiting="uid"), "reason": "Command"},
            "Aborting",
            Wait("NodeLost", "n1", "uid"),
            [],
            id="a lost node that was reported",
        ),
    ],
)
def test_a_pod_that_waits_is_reported_once(before: dict[str, Any], phase: str, wait: Wait, expected: list[str]) -> None:
    events = events_for(a_state(phase=phase, **before), a_state(phase=phase), _transition(), wait, ())
    assert [event.reason for event in events] == expected
    assert all(event.severity is Severity.WARNING for event in events)


def test_the_event_of_a_phase_has_the_cause_alone() -> None:
    after = a_state(phase="Failed", message="2 of 3 needed; worker-0 failed first")
    (event,) = events_for(a_state(), after, _transition(cause="2 of 3 needed"), Wait(), ())
    assert (event.message, event.cause) == ("2 of 3 needed; worker-0 failed first", "2 of 3 needed")


def test_a_command_is_reported() -> None:
    assert emitted({}, {}, BY_COMMAND) == [("CommandIssued", "Command stop: AbortJob", "Normal")]


def test_a_command_that_took_effect_emits_two_events_as_volcano_does() -> None:
    reasons = [reason for reason, _, _ in emitted({}, {"version": 1, "message": "why"}, BY_COMMAND)]
    assert reasons == ["CommandIssued", "ExecuteAction"]


def test_a_policy_that_acted_names_pod_policy_and_action() -> None:
    after = a_state(version=1, message="why")
    assert events_for(a_state(), after, _transition(BY_POLICY), Wait(), ()) == (
        JobEvent(
            "ExecuteAction",
            "why",
            pod="worker-0",
            policy=SPEC / "policies" / 0,
            event="PodFailed",
            action="RestartJob",
        ),
    )


def test_a_policy_that_changed_nothing_emits_no_event() -> None:
    assert emitted({}, {}, BY_POLICY) == []


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param("Dance", "Command stop: Dance: not an action for a whole job", id="no action"),
        pytest.param("RestartPod", "Command stop: RestartPod: not an action for a whole job", id="of a pod"),
        pytest.param("ResumeJob", "Command stop: ResumeJob: spec.suspend is true", id="held by the spec"),
        pytest.param("x" * 99, f"Command stop: {'x' * 37}...: not an action for a whole job", id="long"),
    ],
)
def test_a_command_without_effect_is_reported(action: str, expected: str) -> None:
    request = Request(Action.SYNC_JOB, command=Command(action=action, metadata=Metadata(name="stop")))
    issued, ignored = emitted({}, {"version": 1}, request)
    assert issued[0] == "CommandIssued"
    assert ignored == ("CommandIgnored", expected, "Warning")


def test_the_effect_of_a_command_names_it() -> None:
    _, executed = emitted({}, {"version": 1, "message": "of another"}, BY_COMMAND)
    assert executed == ("ExecuteAction", "AbortJob was requested by Command stop", "Normal")


@pytest.mark.parametrize(
    ("uid", "expected"), [("another", ["CommandIgnored"]), ("", [])], ids=["an earlier job's", "any job's"]
)
def test_a_command_for_an_earlier_job_is_reported(uid: str, expected: list[str]) -> None:
    command = Command(metadata=Metadata(name="c", uid="c"), target=CommandTarget(uid=uid))
    assert [reason for reason, _, _ in emitted({"commands": (command,)}, {})] == expected


def test_an_obeyed_command_is_removed_without_an_event() -> None:
    command = Command(metadata=Metadata(name="c", uid="c"))
    before = {"commands": (command,), "ledger": Ledger(obeyed=frozenset("c"))}
    assert emitted(before, {}) == []


def test_a_replaced_secret_is_reported() -> None:
    state = a_state(a_pod())
    (event,) = events_for(state, state, _transition(), Wait(), (Ssh(),))
    assert (event.reason, event.severity) == ("SecretReplaced", Severity.WARNING)

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.command import Command, CommandTarget
from pumice.model.findings import SPEC
from pumice.model.job import Metadata
from pumice.model.snapshot import Trouble
from pumice.model.vocabulary import Action, Event
from pumice.plugins.ssh import Ssh
from pumice.reconcile.decision import JobEvent, Severity
from pumice.reconcile.events import events_for
from pumice.reconcile.requested_action import Order
from tests.unit.reconcile.values import a_match, a_pod, a_snapshot

MATCH = a_match(Action.RESTART_JOB, Event.POD_FAILED, "worker-0")
BY_POLICY = Order(Action.RESTART_JOB, (MATCH,))
BY_COMMAND = Order(Action.ABORT_JOB, command=Command(action="AbortJob", metadata=Metadata(name="stop")))
QUOTA = Trouble("FailedCreate", "quota")


def told(before: dict[str, Any], after: dict[str, Any], order: Order | None = None) -> list[tuple[str, str, str]]:
    events = events_for(a_snapshot(**before), a_snapshot(**after), order, ())
    return [(event.reason, event.message, str(event.severity)) for event in events]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"phase": "Pending"}, {}, [("Running", "the job is Running", "Normal")], id="a phase"),
        pytest.param({}, {"phase": "Failed", "message": "why"}, [("Failed", "why", "Warning")], id="a sad phase"),
        pytest.param(
            {},
            {"reason": "FailedCreate", "message": "quota", "troubles": (QUOTA,)},
            [("FailedCreate", "quota", "Warning")],
            id="a trouble",
        ),
        pytest.param(
            {"reason": "FailedCreate", "message": "quota"},
            {"reason": "FailedCreate", "message": "quota", "troubles": (QUOTA,)},
            [],
            id="a trouble that was told",
        ),
        pytest.param({"reason": "FailedCreate", "message": "quota"}, {}, [], id="a trouble that is over"),
        pytest.param(
            {}, {"reason": "ClaimMissing", "message": "mine"}, [("PVCError", "mine", "Warning")], id="a missing claim"
        ),
        pytest.param(
            {}, {"reason": "Unschedulable", "message": "full"}, [("PodGroupPending", "full", "Warning")], id="no room"
        ),
        pytest.param(
            {"phase": "Aborting"},
            {"phase": "Aborting", "troubles": (QUOTA,)},
            [("FailedCreate", "quota", "Warning")],
            id="a trouble while winding down",
        ),
    ],
)
def test_what_is_told(before: dict[str, Any], after: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert told(before, after) == expected


def test_a_command_is_told() -> None:
    assert told({}, {}, BY_COMMAND) == [("CommandIssued", "Command stop: AbortJob", "Normal")]


def test_a_command_that_changed_something_is_told_twice_as_volcano_does() -> None:
    reasons = [reason for reason, _, _ in told({}, {"version": 1, "message": "why"}, BY_COMMAND)]
    assert reasons == ["CommandIssued", "ExecuteAction"]


def test_a_policy_that_acted_is_told_with_all_that_programs_want_to_know() -> None:
    after = a_snapshot(version=1, message="why")
    assert events_for(a_snapshot(), after, BY_POLICY, ()) == (
        JobEvent(
            "ExecuteAction",
            "why",
            pod="worker-0",
            policy=SPEC / "policies" / 0,
            event="PodFailed",
            action="RestartJob",
        ),
    )


def test_a_policy_that_changed_nothing_is_not_told() -> None:
    assert told({}, {}, BY_POLICY) == []


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param("Dance", "Command stop: Dance: that is no action of a whole job", id="no action"),
        pytest.param("RestartPod", "Command stop: RestartPod: that is no action of a whole job", id="of a pod"),
        pytest.param("ResumeJob", "Command stop: ResumeJob: spec.suspend is true", id="held by the spec"),
        pytest.param("x" * 99, f"Command stop: {'x' * 37}...: that is no action of a whole job", id="long"),
    ],
)
def test_a_command_that_nothing_follows_from_is_told(action: str, expected: str) -> None:
    order = Order(Action.SYNC_JOB, command=Command(action=action, metadata=Metadata(name="stop")))
    issued, ignored = told({}, {"version": 1}, order)
    assert issued[0] == "CommandIssued"
    assert ignored == ("CommandIgnored", expected, "Warning")


def test_what_a_command_did_is_told_with_its_name() -> None:
    _, executed = told({}, {"version": 1, "message": "of another"}, BY_COMMAND)
    assert executed == ("ExecuteAction", "AbortJob was asked for by Command stop", "Normal")


@pytest.mark.parametrize(
    ("uid", "expected"), [("another", ["CommandIgnored"]), ("", [])], ids=["an earlier job's", "nobody's in particular"]
)
def test_a_command_for_an_earlier_job_is_told(uid: str, expected: list[str]) -> None:
    command = Command(metadata=Metadata(name="c", uid="c"), target=CommandTarget(uid=uid))
    assert [reason for reason, _, _ in told({"commands": (command,)}, {})] == expected


def test_an_obeyed_command_is_removed_in_silence() -> None:
    command = Command(metadata=Metadata(name="c", uid="c"))
    before = {"commands": (command,), "controlled_resources": {"pumice/obeyed/c": "true"}}
    assert told(before, {}) == []


def test_lost_keys_are_told() -> None:
    snapshot = a_snapshot(a_pod())
    (event,) = events_for(snapshot, snapshot, None, (Ssh(),))
    assert (event.reason, event.severity) == ("SecretReplaced", Severity.WARNING)

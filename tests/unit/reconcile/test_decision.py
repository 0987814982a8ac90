"""A decision is plain values: equal if they say the same, and fit to be compared in tests and told apart by engines."""

from __future__ import annotations

import dataclasses

import pytest

from pumice.model.status import JobStatus
from pumice.reconcile.decision import (
    CreatePod,
    Decision,
    DeleteJob,
    DeletePod,
    Ensure,
    JobEvent,
    Remove,
    RemoveCommand,
    Severity,
)

COMMANDS = [
    CreatePod({"kind": "Pod"}),
    DeletePod("job-worker-0", "uid"),
    Ensure({"kind": "Service"}),
    Remove("Service", "job"),
    RemoveCommand("abort", "uid"),
    DeleteJob("uid"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_cannot_be_changed_once_it_is_given(command: object) -> None:
    assert dataclasses.is_dataclass(command)
    field = dataclasses.fields(command)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(command, field, "other")


def test_commands_of_different_kinds_are_never_equal() -> None:
    alike: list[object] = [DeletePod("a", "b"), RemoveCommand("a", "b"), Remove("a", "b")]
    assert [alike.index(command) for command in alike] == [0, 1, 2]


def test_a_decision_that_asks_for_nothing() -> None:
    assert Decision(JobStatus()) == Decision(JobStatus(), (), (), None)


def test_an_event_is_good_news_unless_told_otherwise() -> None:
    assert JobEvent("Running", "the job is Running").severity is Severity.NORMAL

"""The words are a contract with users' files and dashboards, so they stand here once more."""

from __future__ import annotations

from pumice.model import vocabulary
from pumice.model.vocabulary import Action, Event, Phase


def test_phases() -> None:
    assert [str(phase) for phase in Phase] == [
        *("Pending", "Aborting", "Aborted", "Running", "Restarting"),
        *("Completing", "Completed", "Terminating", "Terminated", "Failed"),
    ]


def test_what_a_policy_may_name() -> None:
    assert [str(event) for event in vocabulary.POLICY_EVENTS] == [
        *("*", "PodFailed", "PodEvicted", "PodPending"),
        *("Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"),
    ]
    assert [str(action) for action in vocabulary.POLICY_ACTIONS] == [
        *("AbortJob", "RestartJob", "RestartTask", "RestartPod"),
        *("RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob"),
    ]


def test_what_only_the_controller_names() -> None:
    assert {str(event) for event in set(Event) - set(vocabulary.POLICY_EVENTS)} == {
        "PodRunning",
        "OutOfSync",
        "CommandIssued",
    }
    assert {str(action) for action in set(Action) - set(vocabulary.POLICY_ACTIONS)} == {"SyncJob", "EnqueueJob"}


def test_targets() -> None:
    assert set(vocabulary.TARGETED_ACTIONS) < set(vocabulary.POLICY_ACTIONS)
    assert set(vocabulary.EVENTS_WITHOUT_POD) < set(vocabulary.POLICY_EVENTS)


def test_the_kind() -> None:
    assert (vocabulary.GROUP_VERSION, vocabulary.KIND) == ("batch.volcano.sh/v1alpha1", "Job")

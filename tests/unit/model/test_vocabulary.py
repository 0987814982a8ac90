from __future__ import annotations

from pumice.model import vocabulary
from pumice.model.vocabulary import Action, Event


def test_events_and_actions_that_only_the_controller_uses() -> None:
    assert set(Event) - set(vocabulary.POLICY_EVENTS) == {"PodRunning", "OutOfSync", "CommandIssued"}
    assert set(Action) - set(vocabulary.POLICY_ACTIONS) == {"SyncJob", "EnqueueJob"}
    assert set(vocabulary.TARGETED_ACTIONS) < set(vocabulary.POLICY_ACTIONS)
    assert set(vocabulary.EVENTS_WITHOUT_POD) < set(vocabulary.POLICY_EVENTS)

from __future__ import annotations

import pytest

from pumice.reconcile.decision import JobEvent, Severity
from pumice.reconcile.invalid import refused
from tests.reconcile.values import NOW, a_pod, a_snapshot

FAULTS = ("spec.queue: no such queue", "spec.tasks: none")
MESSAGE = "spec.queue: no such queue; spec.tasks: none"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
def test_it_says_why_and_touches_nothing(phase: str) -> None:
    decision = refused(a_snapshot(a_pod(), phase=phase, faults=FAULTS), NOW)
    state = decision.status.state
    assert (state.phase, state.reason, state.message) == (phase, "InvalidJob", MESSAGE)
    assert decision.commands == ()
    assert decision.events == (JobEvent("InvalidJob", MESSAGE, Severity.WARNING),)


def test_it_is_told_once() -> None:
    decision = refused(a_snapshot(faults=FAULTS, reason="InvalidJob", message=MESSAGE), NOW)
    assert decision.events == ()

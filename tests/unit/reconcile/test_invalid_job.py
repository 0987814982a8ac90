from __future__ import annotations

import pytest

from pumice.reconcile.decide import reject
from pumice.reconcile.decision import JobEvent, Severity
from pumice.reconcile.transition import LONGEST_MESSAGE
from tests.unit.reconcile.values import NOW, a_pod, a_snapshot, a_two_worker_job

FINDINGS = ("spec.queue: no such queue", "spec.tasks: none")
MESSAGE = "spec.queue: no such queue; spec.tasks: none"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
def test_it_says_why_and_touches_nothing(phase: str) -> None:
    decision = reject(a_snapshot(a_pod(), phase=phase, errors=FINDINGS), NOW)
    state = decision.status.state
    assert (state.phase, state.reason, state.message) == (phase, "InvalidJob", MESSAGE)
    assert decision.commands == ()
    assert decision.events == (JobEvent("InvalidJob", MESSAGE, Severity.WARNING),)


def test_it_is_reported_once() -> None:
    decision = reject(a_snapshot(errors=FINDINGS, reason="InvalidJob", message=MESSAGE), NOW)
    assert decision.events == ()


def test_a_long_list_is_cut_between_two_findings_and_reported_once() -> None:
    findings = tuple(f"spec.tasks[{number}].replicas: -1: must be 0 or more" for number in range(5000))
    decision = reject(a_snapshot(errors=findings), NOW)
    message = decision.status.state.message
    *told, rest = message.split("; ")
    assert len(message) <= LONGEST_MESSAGE
    assert len(told) > 500
    assert tuple(told) == findings[: len(told)]
    assert rest == f"and {5000 - len(told)} more"
    again = reject(a_snapshot(errors=findings, reason="InvalidJob", message=message), NOW)
    assert again.events == ()


def test_a_finding_with_a_long_value_is_cut() -> None:
    state = reject(a_snapshot(errors=("spec.queue: " + "q" * 10**6, "spec.tasks: none")), NOW).status.state
    long, short = state.message.split("; ")
    assert (len(long), long[-5:], short) == (1000, "qq...", "spec.tasks: none")


def test_a_least_number_that_no_server_would_store_is_not_written() -> None:
    job = a_two_worker_job(min_available=-3)
    assert reject(a_snapshot(job=job, errors=FINDINGS), NOW).status.min_available == 0

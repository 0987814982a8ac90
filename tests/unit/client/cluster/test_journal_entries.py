"""What a cluster says about a Job becomes the journal of a run, from which every view follows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pumice.client.cluster.job_facts import ClusterPod, JobEventFact, JobFacts, counted, read_job, read_pod
from pumice.client.cluster.journal_entries import JobJournal, history_of, record_of, summary
from pumice.client.cluster.watching import split_versions, with_versions
from pumice.client.history_values import attempts
from pumice.model.snapshot import PodPhase
from pumice.model.units import read_time
from pumice.store.events import PhaseChanged, PodChanged, Progress
from pumice.store.history.run_history import RunHistory

CREATED = "2026-11-17T12:00:00Z"


def _job(*phases: str, **status: object) -> msgspec.Raw:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    times = [f"2026-11-17T12:0{number}:00Z" for number in range(1, 10)]
    conditions = [{"status": phase, "lastTransitionTime": time} for phase, time in zip(phases, times, strict=False)]
    state = {"phase": phases[-1], "lastTransitionTime": conditions[-1]["lastTransitionTime"]} if phases else {}
    document: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": "1234-5678", "creationTimestamp": CREATED},
        "spec": {"maxRetry": 3, "tasks": [{"name": "w", "replicas": 2, "template": template}]},
        "status": {"conditions": conditions, **status, "state": {**state, **dict(status.get("state", {}))}},  # type: ignore[call-overload]  # a mapping
    }
    return msgspec.Raw(msgspec.json.encode(document))


def _pod(index: int, phase: str, state: dict[str, object], retry: int = 0) -> ClusterPod:
    document = {
        "metadata": {
            "name": f"train-w-{index}",
            "namespace": "ml",
            "uid": f"pod-{index}-{retry}",
            "creationTimestamp": CREATED,
            "annotations": {
                "volcano.sh/task-spec": "w",
                "volcano.sh/task-index": str(index),
                "volcano.sh/job-retry-count": str(retry),
            },
            "ownerReferences": [
                {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "uid": "1234-5678", "controller": True}
            ],
        },
        "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    }
    pod = read_pod(msgspec.json.encode(document), "1234-5678")
    assert pod is not None
    return pod


def _facts(job: msgspec.Raw, *pods: ClusterPod, **more: Any) -> JobFacts:
    return JobFacts(*read_job(job), pods=pods, where="--on prod", **more)


def _ended(code: int) -> dict[str, object]:
    times = {"startedAt": "2026-11-17T12:01:00Z", "finishedAt": "2026-11-17T12:03:00Z"}
    return {"terminated": {"exitCode": code, **times}}


@pytest.mark.parametrize(
    ("job", "outcome", "code"),
    [
        pytest.param(_job(), "Waiting", None, id="no controller has looked at it"),
        pytest.param(_job("Pending"), "Waiting", None, id="pending"),
        pytest.param(_job("Pending", "Running"), "Running", None, id="running"),
        pytest.param(_job("Pending", "Running", "Restarting"), "Restarting", None, id="restarting"),
        pytest.param(_job("Pending", "Running", "Completing"), "Stopping", None, id="completing"),
        pytest.param(_job("Pending", "Running", "Completed"), "Succeeded", 0, id="completed"),
        pytest.param(_job("Pending", "Running", "Failed"), "Failed", 1, id="failed"),
        pytest.param(_job("Pending", "Terminated"), "Failed", 1, id="terminated, nothing says by whom"),
        pytest.param(_job("Pending", "Terminated", state={"reason": "Command"}), "Stopped", 143, id="by a Command"),
        pytest.param(_job("Pending", "Aborted", state={"reason": "Suspended"}), "Suspended", 1, id="suspended"),
        pytest.param(_job("Pending", "Running", "Aborted"), "Failed", 1, id="aborted, nothing says by whom"),
        pytest.param(_job("Running", "Aborted", state={"reason": "PodFailed"}), "Failed", 1, id="aborted by a policy"),
    ],
)
def test_the_outcome_follows_from_the_phases(job: msgspec.Raw, outcome: str, code: int | None) -> None:
    status = summary(_facts(job), "prod")
    assert (status.run, status.outcome, status.exit_code, status.on) == ("train", outcome, code, "prod")


def test_a_restart_begins_another_attempt() -> None:
    pods = (_pod(0, "Failed", _ended(3)), _pod(0, "Running", {"running": {"startedAt": CREATED}}, retry=1))
    job = _job("Pending", "Running", "Restarting", "Pending", "Running", retryCount=1)
    first, second = attempts(history_of(_facts(job, *pods)))
    assert (first.number, first.first_failure, second.number, second.end) == (
        *(1, "w-0: exit code 3 in container main"),
        *(2, None),
    )


def test_the_restart_after_the_last_attempt_begins_none() -> None:
    """Volcano's controller counts it all the same."""
    pods = (_pod(0, "Failed", _ended(3), retry=2), _pod(1, "Failed", _ended(3), retry=2))
    facts = _facts(_job("Pending", "Running", "Restarting", "Failed", retryCount=3), *pods)
    assert attempts(history_of(facts))[-1].number == 3
    assert summary(facts, "prod").attempt == 3


def test_older_conditions_may_be_gone() -> None:
    assert summary(_facts(_job("Pending", "Running", retryCount=2)), "prod").attempt == 3


def test_the_verdict_is_that_of_this_machine() -> None:
    job = _job("Pending", "Running", "Failed", failed=1)
    status = summary(_facts(job, _pod(0, "Failed", _ended(3)), _pod(1, "Running", {"running": {}})), "prod")
    assert status.verdict is not None
    assert (status.verdict.pod, status.verdict.code) == ("w-0", 3)
    assert status.verdict.next == "pumice logs train/w-0 -c main --on prod --tail 30"


def test_the_same_facts_give_no_new_entries() -> None:
    facts = _facts(_job("Pending", "Running"), _pod(0, "Running", {"running": {"startedAt": CREATED}}))
    journal = JobJournal(record_of(facts))
    entries = journal.add(facts)
    assert [each.seq for each in entries] == list(range(1, len(entries) + 1))
    assert journal.add(facts) == []
    ended = _facts(_job("Pending", "Running", "Completed"), _pod(0, "Succeeded", _ended(0)))
    assert [each.kind for each in journal.add(ended)] == ["PodChanged", "PhaseChanged", "RunEnded"]


def test_pods_of_a_job_that_has_ended_are_counted_if_its_controller_has_not() -> None:
    pods = [_pod(0, "Succeeded", _ended(0)), _pod(1, "Failed", _ended(3))]
    job = _job("Pending", "Running", "Completed")
    facts = _facts(job, *pods)
    facts = replace(facts, job=counted(facts.job, pods))
    found = summary(facts, "prod").pods
    assert (found.succeeded, found.failed) == (1, 1)


@pytest.mark.parametrize(("ledger", "shown"), [({}, ["CommandIssued: by x"]), ({"pumice/spent": "1"}, None)])
def test_an_action_of_volcanos_controller_is_shown_by_its_phase(
    ledger: dict[str, str], shown: list[str] | None
) -> None:
    time = read_time(CREATED)
    assert time is not None
    events = [
        JobEventFact(time, "1234-5678", reason, "by x", is_warning=False)
        for reason in ("CommandIssued", "ExecuteAction")
    ]
    facts = _facts(_job("Pending", "Running", "Aborting", controlledResources=ledger), events=events)
    history = RunHistory(record_of(facts))
    found = [history.add(entry) for entry in JobJournal(record_of(facts)).add(facts)]
    texts = [event.message for event in found if isinstance(event, Progress)]
    assert texts == (shown or ["CommandIssued: by x", "ExecuteAction: by x"])


def test_a_job_that_fits_no_rule_is_shown() -> None:
    document = msgspec.json.decode(_job("Pending"))
    document["spec"]["tasks"][0]["replicas"] = "two"
    status = summary(_facts(msgspec.Raw(msgspec.json.encode(document))), "prod")
    assert (status.run, status.outcome) == ("train", "Waiting")


def _phases(*phases: str, retries: int, message: str = "") -> msgspec.Raw:
    """A Job whose phases follow within a second: a phase that is entered again is the newest condition."""
    conditions = [{"status": phase, "lastTransitionTime": CREATED} for phase in phases]
    document = msgspec.json.decode(_job(*phases, retryCount=retries))
    document["status"] |= {"conditions": conditions}
    document["status"]["state"] = {"phase": phases[-1], "lastTransitionTime": CREATED, "message": message}
    return msgspec.Raw(msgspec.json.encode(document))


def _shown(journal: JobJournal, facts: JobFacts) -> list[tuple[str, str]]:
    history = RunHistory(record_of(facts))
    events = [history.add(entry) for entry in journal.add(facts)]
    return [
        (event.status.state.phase, event.cause) if isinstance(event, PhaseChanged) else (event.pod.phase, event.follows)
        for event in events
        if isinstance(event, PhaseChanged | PodChanged)
    ]


def test_a_phase_that_is_entered_again_is_shown_once() -> None:
    facts = _facts(_phases("Pending", "Running", retries=0))
    journal = JobJournal(record_of(facts))
    assert _shown(journal, facts) == [("Pending", ""), ("Running", "")]
    restarting = _facts(_phases("Pending", "Running", "Restarting", retries=1, message="w-0 failed"))
    assert _shown(journal, restarting) == [("Restarting", "w-0 failed")]
    again = _facts(_phases("Running", "Restarting", "Pending", retries=1))
    assert _shown(journal, again) == [("Pending", "")]
    assert _shown(journal, _facts(_phases("Restarting", "Pending", "Running", retries=1))) == [("Running", "")]


def test_of_a_watch_that_is_ahead_of_what_was_read_the_rest_waits_for_the_next_reading() -> None:
    """Else a Job would be said to have ended whose pods are those of an older version."""

    def versioned(version: int, *phases: str) -> msgspec.Raw:
        document = msgspec.json.decode(_phases(*phases, retries=1))
        document["metadata"]["resourceVersion"] = str(version)
        return msgspec.Raw(msgspec.json.encode(document))

    pending, running = versioned(9, "Restarting", "Pending"), versioned(10, "Restarting", "Pending", "Running")
    facts = _facts(pending)
    journal = JobJournal(record_of(facts))
    assert [phase for phase, _ in _shown(journal, facts)] == ["Restarting", "Pending"]
    seen, later = split_versions(facts, [pending, running])
    assert (len(seen), later) == (1, [running])
    assert _shown(journal, with_versions(facts, seen, [])) == []
    now = _facts(running)
    seen, later = split_versions(now, later)
    assert (len(seen), later) == (1, [])
    assert [phase for phase, _ in _shown(journal, with_versions(now, seen, []))] == ["Running"]


def test_a_phase_that_is_entered_again_within_a_second_is_shown() -> None:
    """A restart that a person asked for is no attempt of its own: nothing but the order tells the two apart."""
    facts = _facts(_phases("Pending", "Running", retries=0))
    journal = JobJournal(record_of(facts))
    journal.add(facts)
    restarting = _facts(_phases("Pending", "Running", "Restarting", retries=0, message="asked for"))
    assert _shown(journal, restarting) == [("Restarting", "asked for")]
    again = _facts(_phases("Restarting", "Pending", "Running", retries=0))
    assert _shown(journal, again) == [("Running", "")]
    assert _shown(journal, again) == []


def test_what_was_gone_when_it_was_read_is_shown_if_the_watch_has_seen_it() -> None:
    facts = _facts(_phases("Pending", "Running", retries=0))
    journal = JobJournal(record_of(facts))
    journal.add(facts)
    _, restarting = read_job(_phases("Pending", "Running", "Restarting", retries=1, message="w-0 failed"))
    failed = _pod(0, "Failed", {"terminated": {"exitCode": 3, "startedAt": CREATED, "finishedAt": CREATED}})
    later = _facts(
        _phases("Restarting", "Pending", "Running", retries=1), earlier_jobs=[restarting], earlier_pods=[failed]
    )
    shown = [(phase, bool(text)) for phase, text in _shown(journal, later)]
    assert shown[-4:] == [("Failed", True), ("Restarting", True), ("Pending", False), ("Running", False)]


def test_pods_change_before_the_phase_whatever_the_clock_of_their_node() -> None:
    facts = _facts(_job("Pending", "Running", "Failed", failed=1), _pod(0, "Failed", _later(_ended(3), seconds=1)))
    shown = [phase for phase, _ in _shown(JobJournal(record_of(facts)), facts)]
    assert shown == ["Pending", "Running", "Pending", "Running", "Failed", "Failed"]


def _later(state: dict[str, Any], seconds: int) -> dict[str, object]:
    terminated = state["terminated"]
    return {"terminated": terminated | {"finishedAt": terminated["finishedAt"].replace(":00Z", f":0{seconds}Z")}}


@pytest.mark.parametrize(("retries", "attempt"), [pytest.param(0, 1, id="by a person"), pytest.param(1, 2, id="retry")])
def test_pods_that_start_in_the_second_of_a_restart_run(retries: int, attempt: int) -> None:
    """The server knows seconds only. What a person asks for, a restart or to resume, is no attempt of its own."""
    document = msgspec.json.decode(_job("Running", "Restarting", "Pending", "Running", running=2, retryCount=retries))
    conditions = document["status"]["conditions"]
    for condition, second in zip(conditions, (1, 9, 9, 9), strict=True):
        condition["lastTransitionTime"] = f"2026-11-17T12:00:0{second}Z"
    now = read_time("2026-11-17T12:00:09Z")
    assert now is not None
    pods = [_pod(index, "Running", {"running": {"startedAt": "2026-11-17T12:00:09Z"}}, retries) for index in (0, 1)]
    new = [replace(each, observed=replace(each.observed, created_at=now, changed_at=now)) for each in pods]
    history = history_of(_facts(msgspec.Raw(msgspec.json.encode(document)), *new))
    assert history.attempt == attempt
    assert {pod.phase for pod in history.pods.values()} == {PodPhase.RUNNING}
    assert {life.name for life in history.lives_of(attempt)} == {"w-0", "w-1"}


def test_a_pod_that_failed_says_what_follows() -> None:
    facts = _facts(_job("Pending", "Running"), _pod(0, "Failed", _ended(3)), _pod(1, "Running", {"running": {}}))
    said = [text for _, text in _shown(JobJournal(record_of(facts)), facts) if text]
    assert said == ["no policy acts on PodFailed, the job goes on with 1 of 2"]

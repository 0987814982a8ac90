"""The rows of a list are those that `RunHistory` derives."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pumice.client.backend import Selection
from pumice.client.cluster.job_facts import ClusterPod, JobFacts, read_job, read_pod
from pumice.client.cluster.job_rows import JobTable, job_row
from pumice.client.cluster.journal_entries import summary

NOW = dt.datetime(2026, 11, 17, 12, 30, tzinfo=dt.UTC)
PHASES = ("Pending", "Running", "Restarting", "Completing", "Completed", "Failed", "Terminated", "Aborting", "Aborted")


def a_job(*phases: str, name: str = "train", by: str = "", **status: Any) -> bytes:
    conditions = [
        {"status": phase, "lastTransitionTime": f"2026-11-17T12:{number:02d}:00Z"}
        for number, phase in enumerate(phases, 1)
    ]
    state = {"phase": phases[-1], "lastTransitionTime": conditions[-1]["lastTransitionTime"]} if phases else {}
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-17T12:00:00Z",
            "annotations": {"pumice/submitted-by": by} if by else {},
        },
        "spec": {
            "maxRetry": 3,
            "queue": "vision",
            "tasks": [{"name": "w", "replicas": 2}, {"name": "m", "replicas": 1}],
        },
        "status": {"conditions": conditions, **status, "state": {**state, **status.get("state", {})}},
    }
    return msgspec.json.encode(document)


def a_pod(index: int, phase: str, code: int) -> ClusterPod:
    times = {"startedAt": "2026-11-17T12:01:00Z", "finishedAt": "2026-11-17T12:03:00Z"}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "uid": "uid-train", "controller": True}
    ended = [{"name": "main", "state": {"terminated": {"exitCode": code, **times}}}]
    document = {
        "metadata": {
            "name": f"train-w-{index}",
            "uid": f"pod-{index}",
            "creationTimestamp": "2026-11-17T12:00:00Z",
            "annotations": {"volcano.sh/task-spec": "w", "volcano.sh/task-index": str(index)},
            "ownerReferences": [job],
        },
        "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"},
        "status": {"phase": phase, "containerStatuses": ended},
    }
    found = read_pod(msgspec.json.encode(document))
    assert found is not None
    return found


JOBS = {
    "without a status": a_job(),
    **{f"in {phase}": a_job(phase) for phase in PHASES},
    **{f"from {before} to {phase}": a_job(before, phase) for before, phase in itertools.product(PHASES, repeat=2)},
    "waits": a_job("Pending", state={"message": "no room", "reason": "Unschedulable"}, pending=3),
    "waits without words": a_job("Pending", state={"reason": "Unschedulable"}),
    "runs, and a pod waits": a_job("Pending", "Running", state={"message": "w-1 waits"}, running=2, pending=1),
    "restarted": a_job("Restarting", "Pending", "Running", retryCount=2, running=3),
    "restarted, with a ledger": a_job(
        "Restarting", "Pending", "Running", retryCount=2, controlledResources={"pumice/spent": "1"}
    ),
    "completed": a_job("Pending", "Running", "Completing", "Completed", succeeded=3, state={"message": "well"}),
    "of Volcano": a_job("Pending", "Running", controlledResources={"plugin-svc": "svc"}, retryCount=1),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_row_is_that_of_the_history(name: str) -> None:
    row = job_row(JOBS[name], "prod")
    assert row is not None
    assert row.status == summary(JobFacts(*read_job(JOBS[name])), "prod")


def test_a_job_against_its_types_has_a_row() -> None:
    document = msgspec.json.decode(a_job("Running"))
    document["status"]["running"] = "many"
    row = job_row(msgspec.json.encode(document), "prod")
    assert row is not None
    assert row.status.outcome == "Running"


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        pytest.param(Selection(), ["runs", "done"], id="recent"),
        pytest.param(Selection(everything=True), ["runs", "old", "done"], id="all"),
        pytest.param(Selection(active=True), ["runs"], id="active"),
        pytest.param(Selection(["old"]), ["old"], id="by name, however old"),
        pytest.param(Selection(["done@uid-d"]), ["done"], id="by name and uid"),
    ],
)
def test_which_rows_are_shown(selection: Selection, names: list[str]) -> None:
    table = JobTable("prod", selection, NOW + dt.timedelta(hours=12))
    old = {"lastTransitionTime": "2026-11-16T12:00:00Z"}
    for raw in (
        a_job("Running", name="runs"),
        a_job("Completed", name="old", state=old),
        a_job("Completed", name="done"),
    ):
        table.add(raw)
    table.decide({}, {})
    assert sorted(each.name for each in table.listing().runs) == sorted(names)
    assert not table.missing


@pytest.mark.parametrize(
    ("job", "code", "pods", "message"),
    [
        pytest.param(a_job("Running", "Completed"), 0, (2, 0), "", id="completed"),
        pytest.param(a_job("Running", "Failed"), 3, (1, 1), "w-1 failed first: exit code 3", id="failed"),
    ],
)
def test_pods_are_counted_where_volcanos_controller_has_not(
    job: bytes, code: int, pods: tuple[int, int], message: str
) -> None:
    table = JobTable("prod", Selection(), NOW)
    table.add(job)
    assert table.uncounted == {"uid-train"}
    ends = (("Succeeded", 0), ("Failed" if code else "Succeeded", code))
    table.decide({}, {"uid-train": [a_pod(number, *end) for number, end in enumerate(ends)]})
    (row,) = table.listing().runs
    assert (row.pods.succeeded, row.pods.failed) == pods
    assert row.message.startswith(message)


def test_pods_that_pumices_controller_has_counted_are_not_read() -> None:
    table = JobTable("prod", Selection(), NOW)
    table.add(a_job("Running", "Failed", controlledResources={"pumice/spent": "1"}))
    assert not table.uncounted
    assert len(table.listing().runs) == 1


def test_only_mine() -> None:
    table = JobTable("prod", Selection(by_me=True), NOW, "ada")
    table.add(a_job("Running", name="hers", by="ada"))
    table.add(a_job("Running", name="his", by="bob"))
    assert [each.name for each in table.listing().runs] == ["hers"]


def test_nothing_of_mine_says_how_that_is_known() -> None:
    table = JobTable("prod", Selection(by_me=True), NOW, "ada")
    table.add(a_job("Running", name="his", by="bob"))
    table.add(a_job("Running", name="its"))
    found = table.listing()
    assert (found.runs, found.warnings) == ([], ["2 Jobs do not name ada in the annotation pumice/submitted-by"])


def test_a_name_that_is_missing() -> None:
    table = JobTable("prod", Selection(["trian"]), NOW)
    table.add(a_job("Running"))
    assert table.missing == ["trian"]


def test_the_queue_is_part_of_the_row() -> None:
    row = job_row(a_job("Running"), "prod")
    assert row is not None
    assert row.status.queue == "vision"
    assert replace(row.status, queue="x") != row.status

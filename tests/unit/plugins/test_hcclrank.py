from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.plugins.hcclrank import HcclRank
from pumice.plugins.registry import Registry
from pumice.plugins.shaping import pods
from tests.builders import a_container, a_job, a_slot, a_task, a_template, literal, shaped

KEY = "hccl/rankIndex"


def test_masters_first_then_workers_and_no_others() -> None:
    job = a_job(a_task("master", 2), a_task("worker", 2), a_task("other"))
    ranks = [pod.annotations.get(KEY) for pod in pods(job, [HcclRank()])]
    assert ranks == ["0", "1", "2", "3", None]


def test_tasks_are_named_by_arguments() -> None:
    plugin, findings = HcclRank.parse(["--master=a", "-worker", "b"])
    ranks = [pod.annotations.get(KEY) for pod in pods(a_job(a_task("a"), a_task("b")), [plugin])]
    assert (findings, ranks) == ([], ["0", "1"])


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        pytest.param(literal(RANK="7"), "7", id="the user's own"),
        pytest.param([{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}], "1", id="not literal"),
        pytest.param(literal(RANK=""), "1", id="empty"),
        pytest.param(literal(OTHER="7"), "1", id="another variable"),
        pytest.param(None, "1", id="no variables"),
    ],
)
def test_a_literal_rank_in_the_environment_counts(env: list[Any] | None, rank: str) -> None:
    template = a_template(a_container("first"), a_container(env=env))
    job = a_job(a_task("master"), a_task("worker", 1, template))
    pod = shaped(HcclRank(), job)
    assert pod.annotations[KEY] == rank
    assert pod.spec == {"schedulerName": "volcano", **template["spec"]}


def test_the_annotation_of_the_template_stays() -> None:
    template = {**a_template(), "metadata": {"annotations": {KEY: "9"}}}
    assert shaped(HcclRank(), a_job(a_task(template=template))).annotations[KEY] == "9"


@pytest.mark.parametrize(
    "job", [a_job(a_task("master", 6), a_task("worker", 2)), a_job(a_task("worker", 2), a_task("master", 6))]
)
def test_defect_20_hcclrank_agrees_with_pytorch(job: Job) -> None:
    """Volcano runs plugins in random order: masters 0 to 5 of one job had the ranks 0 0 2 0 0 0."""
    resolved = Registry().resolve({"hcclrank": [], "svc": [], "pytorch": []})
    for slot, pod in zip(slots(job), pods(job, resolved.plugins), strict=True):
        ranks = [variable["value"] for variable in pod.containers[0]["env"] if variable["name"] == "RANK"]
        assert ranks == [pod.annotations[KEY]] == [str(slot.index + (6 if slot.task.name == "worker" else 0))]


def test_why() -> None:
    assert HcclRank().why(a_slot(a_job())) == {f"annotation {KEY}": "RANK of the pod"}

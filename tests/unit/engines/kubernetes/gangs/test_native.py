from __future__ import annotations

from typing import cast

import msgspec
import pytest

from pumice.admission.admit import admit
from pumice.engines.kubernetes.gangs.groups import PodGroupManager
from pumice.engines.kubernetes.gangs.native import NativeGang
from pumice.model.bare_pod import bare_pod
from pumice.model.job import Job, Manifest
from pumice.model.slot import Slot
from pumice.runtime.ports import EngineError
from tests.builders import a_context, a_document, a_template

# Shaping a pod asks nothing of the cluster.
GANG = NativeGang(cast(PodGroupManager, None))


def stored(*priorities: str, **spec: object) -> tuple[Job, Job]:
    """A job whose tasks have no names, as it is stored without the webhook; and as the core sees it."""
    tasks = [
        {"replicas": 1, "template": a_template(**({"priorityClassName": one} if one else {}))} for one in priorities
    ]
    document = a_document(tasks=tasks, **spec)
    return msgspec.convert(document, Job), admit(document, a_context()).job


def pod_of(job: Job, number: int) -> Manifest:
    return bare_pod(Slot(job, job.spec.tasks[number], 0)).manifest


@pytest.mark.parametrize(
    ("priorities", "spec", "expected"),
    [
        pytest.param(("", ""), {}, ["", ""], id="one priority"),
        pytest.param(("high", "", "high"), {}, ["-0", "-1", "-0"], id="two priorities"),
        pytest.param(("high", ""), {"priorityClassName": "high"}, ["", ""], id="the job's own"),
    ],
)
def test_pods_of_tasks_without_a_name_are_members(
    priorities: tuple[str, ...], spec: dict[str, object], expected: list[str]
) -> None:
    raw, job = stored(*priorities, **spec)
    made = [GANG.shape_pod(raw, pod_of(job, number)) for number in range(len(priorities))]
    groups = [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in made]
    assert groups == [f"{job.name}-{job.uid}{ending}" for ending in expected]


def test_a_pod_of_a_priority_that_no_task_has_is_refused() -> None:
    raw, job = stored("", "")
    pod = pod_of(job, 0)
    pod["spec"]["priorityClassName"] = "other"
    with pytest.raises(EngineError, match="priorityClassName other"):
        GANG.shape_pod(raw, pod)

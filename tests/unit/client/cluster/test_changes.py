"""Other numbers of pods, as a patch."""

from __future__ import annotations

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.control.changes import resize_patch
from pumice.client.cluster.job_facts import read_job


def test_a_default_that_exceeds_the_replicas_is_lowered_too() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    raw = msgspec.json.encode(
        {
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"tasks": [{"name": "w", "replicas": 2, "template": template}]},
            "status": {"controlledResources": {"pumice/min-available": "2", "pumice/min-available/w": "2"}},
        }
    )
    patch = resize_patch(RunRef("train", 0, "ml", ""), *read_job(raw), {"w": 1})
    assert {each["path"]: each["value"] for each in patch if each["op"] == "add"} == {
        "/spec/tasks/0/replicas": 1,
        "/spec/tasks/0/minAvailable": 1,
        "/spec/minAvailable": 1,
    }

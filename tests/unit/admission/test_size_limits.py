"""One Job must not exhaust the controller or the webhook, neither by its processor time nor by its memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pumice.admission import review
from pumice.admission.admit import admit, admit_stored
from pumice.admission.size_limits import (
    MOST_ARGUMENTS,
    MOST_CONTAINERS,
    MOST_MOUNTS,
    MOST_TASKS,
    MOST_TEXT,
    MOST_VALUES,
    check_size,
)
from pumice.model.findings import MOST_FINDINGS
from pumice.model.job import Job, Manifest
from tests.builders import a_container, a_context, a_document, a_template


def a_pod(containers: int, **fields: Any) -> Manifest:
    return {"replicas": 1, "template": a_template(*(a_container(f"c{i}") for i in range(containers))), **fields}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            a_document(tasks=[None] * (MOST_TASKS + 1)),
            "spec.tasks: 1001 tasks: a Job may have at most 1000",
            id="tasks",
        ),
        pytest.param(
            a_document(tasks=[a_pod(MOST_CONTAINERS + 1)]),
            "spec.tasks[0].template.spec.containers: 101 containers and init containers: a pod may have at most 100",
            id="containers",
        ),
        pytest.param(
            a_document(tasks=[a_pod(1)] * 400, volumes=[{"mountPath": f"/m{i}"} for i in range(600)]),
            "spec.volumes: every container mounts every volume: 400 containers x 600 volumes are 240000 mounts, a Job "
            f"may have at most {MOST_MOUNTS}",
            id="mounts",
        ),
        pytest.param(
            a_document(plugins={"ssh": ["x"] * (MOST_ARGUMENTS + 1)}),
            "spec.plugins.ssh: 101 arguments: a plugin takes at most 100",
            id="arguments",
        ),
        pytest.param(
            a_document(policies=[1] * MOST_VALUES), ": the Job has more than 20000 fields and list items", id="values"
        ),
        pytest.param(
            a_document() | {"metadata": {"name": "x" * MOST_TEXT}},
            ": the Job has 524377 characters of text, at most 524288 are accepted",
            id="text",
        ),
    ],
)
def test_a_limit_is_reported_alone(document: Manifest, expected: str) -> None:
    found = [f"{finding.path}: {finding.message}" for finding in admit(document, a_context()).findings]
    assert [text.partition(" characters")[2] for text in found] == [expected.partition(" characters")[2]]
    assert " characters" in expected or found == [expected]


def test_status_and_managed_fields_do_not_count() -> None:
    metadata = {"name": "train", "managedFields": [{"fieldsV1": {str(i): {} for i in range(MOST_VALUES)}}]}
    assert not check_size({"metadata": metadata, "status": {"conditions": [1] * MOST_VALUES}, "spec": None})


def test_a_stored_job_that_is_too_large_is_not_checked_further() -> None:
    document = a_document(tasks=[a_pod(1)] * (MOST_TASKS + 1), plugins={"svc": [], "ssh": []})
    admitted = admit_stored(msgspec.convert(document, Job), a_context())
    assert [str(finding.path) for finding in admitted.findings] == ["spec.tasks"]


def test_an_update_may_not_enlarge_a_job_but_others_may_remove_its_finalizers() -> None:
    def allowed(old: Manifest, new: Manifest) -> bool:
        request = {"uid": "u", "operation": "UPDATE", "object": new, "oldObject": old}
        answer = review.validate({"request": request}, a_context())
        return bool(answer["response"]["allowed"])

    large = a_document(tasks=[a_pod(1)] * (MOST_TASKS + 1))
    assert allowed(large, large | {"metadata": {"name": "train", "finalizers": []}})
    assert not allowed(a_document(), large)
    answer = review.mutate({"request": {"operation": "CREATE", "object": large}}, a_context())
    assert "patch" not in answer["response"]


def test_the_number_of_findings_is_bounded() -> None:
    for document in (a_document(policies=["x"] * 5000), a_document(tasks=[{"replicas": -1}] * 900)):
        assert len(admit(document, a_context()).findings) <= MOST_FINDINGS

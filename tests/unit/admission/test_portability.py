from __future__ import annotations

import pytest
from msgspec.structs import replace

from pumice.admission.portability import paths_of_field
from pumice.model.job import PUMICE_FIELDS
from tests.builders import a_context, a_document
from tests.unit.admission.findings import found, task, warning

OWN = a_document(
    activeDeadlineSeconds=60,
    suspend=False,
    policies=[{"exitCode": 1, "action": "AbortJob"}, {"exitCodes": [3], "action": "AbortJob"}],
    tasks=[
        task("a", maxRestarts=0, policies=[{"exitCodes": [4], "action": "AbortJob"}]),
        task("b", dependsOn={"name": ["a"], "condition": "Completed"}),
        task("c", dependsOn={"name": ["a"]}),
    ],
)
PATHS = (
    "spec.activeDeadlineSeconds",
    "spec.suspend",
    "spec.policies[1].exitCodes",
    "spec.tasks[0].policies[0].exitCodes",
    "spec.tasks[0].maxRestarts",
    "spec.tasks[1].dependsOn.condition",
)


def test_pumice_fields_are_reported_only_on_request() -> None:
    message = "only Pumice knows this field; Volcano drops it in silence"
    assert found(OWN) == []
    assert found(OWN, replace(a_context(), portable=True)) == [warning(path, message) for path in PATHS]
    assert found(a_document(minSuccess=1, maxRetry=2), replace(a_context(), portable=True)) == []


@pytest.mark.parametrize("document", [None, "text", {}, {"spec": []}, {"spec": {"tasks": {}}}, a_document()], ids=str)
def test_a_document_without_pumice_fields(document: object) -> None:
    assert not any(paths_of_field(document, field) for field in PUMICE_FIELDS)

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.portability import check_portability
from pumice.engines.kubernetes.install.pumice_fields import OWN_FIELDS, dropped_fields, uses
from pumice.model.codec import decode
from tests.builders import a_context, a_document


def crd(schema: object) -> dict[str, Any]:
    return {"spec": {"versions": [{"name": "v1"}, {"name": "v1alpha1", "schema": {"openAPIV3Schema": schema}}]}}


def nested(*steps: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for step in reversed(steps):
        schema = {"properties": {step.removesuffix("[]"): {"items": schema} if step.endswith("[]") else schema}}
    return schema


@pytest.mark.parametrize(
    ("definition", "kept"),
    [
        pytest.param(crd(nested("spec", "suspend")), {"spec.suspend"}, id="one"),
        pytest.param(
            crd(nested("spec", "tasks[]", "policies[]", "exitCodes")), {"spec.tasks[].policies[].exitCodes"}, id="deep"
        ),
        pytest.param(crd({"x-kubernetes-preserve-unknown-fields": True}), set(OWN_FIELDS), id="keeps everything"),
        pytest.param(crd({}), set(), id="an empty schema"),
        pytest.param({"spec": {"versions": [{"name": "v1"}]}}, set(), id="another version"),
        pytest.param({}, set(), id="no definition at all"),
        pytest.param({"spec": {"versions": ["text", {"name": "v1alpha1", "schema": []}]}}, set(), id="nonsense"),
    ],
)
def test_fields_that_are_dropped(definition: dict[str, Any], kept: set[str]) -> None:
    assert set(dropped_fields(definition)) == set(OWN_FIELDS) - kept


USED: dict[str, dict[str, Any]] = {
    "spec.activeDeadlineSeconds": {"activeDeadlineSeconds": 5},
    "spec.suspend": {"suspend": False},
    "spec.policies[].exitCodes": {"policies": [{"action": "AbortJob"}, {"exitCodes": [1]}]},
    "spec.tasks[].policies[].exitCodes": {"tasks": [{}, {"policies": [{"exitCodes": [1]}]}]},
    "spec.tasks[].maxRestarts": {"tasks": [{"maxRestarts": 0}]},
    "spec.tasks[].dependsOn.condition": {"tasks": [{"dependsOn": {"condition": "Running"}}]},
}


def test_the_list_is_whole() -> None:
    assert set(USED) == set(OWN_FIELDS)


@pytest.mark.parametrize("field", OWN_FIELDS)
def test_use_is_seen_as_validate_sees_it(field: str) -> None:
    document = a_document(**USED[field])
    assert uses(document, field)
    assert [other for other in OWN_FIELDS if uses(document, other)] == [field]
    job = decode(document, a_context().kubernetes).job
    assert len(list(check_portability(job))) == 1


@pytest.mark.parametrize("job", [None, "text", {}, {"spec": []}, {"spec": {"tasks": {}}}, a_document()], ids=str)
def test_no_use(job: object) -> None:
    assert not any(uses(job, field) for field in OWN_FIELDS)

from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.kubernetes.install.pumice_fields import dropped_fields
from pumice.model.job import PUMICE_FIELDS


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
        pytest.param(crd({"x-kubernetes-preserve-unknown-fields": True}), set(PUMICE_FIELDS), id="keeps everything"),
        pytest.param(crd({}), set(), id="an empty schema"),
        pytest.param({"spec": {"versions": [{"name": "v1"}]}}, set(), id="another version"),
        pytest.param({}, set(), id="no definition at all"),
        pytest.param({"spec": {"versions": ["text", {"name": "v1alpha1", "schema": []}]}}, set(), id="nonsense"),
    ],
)
def test_fields_that_are_dropped(definition: dict[str, Any], kept: set[str]) -> None:
    assert set(dropped_fields(definition)) == set(PUMICE_FIELDS) - kept

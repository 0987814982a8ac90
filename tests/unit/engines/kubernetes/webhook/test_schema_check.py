from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook.reviews import fits
from tests.builders import a_document
from tests.unit.admission.findings import task

SCHEMA = job_schema()


def container(**fields: Any) -> dict[str, Any]:
    return a_document(tasks=[task(template={"spec": {"containers": [{"name": "a", "image": "b", **fields}]}})])


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_document(), id="valid"),
        pytest.param(a_document(mistyped=1), id="unknown field, which is dropped"),
        pytest.param(a_document(plugins={"svc": None}), id="a plugin without arguments"),
        pytest.param(a_document(queue=None), id="null for a field with a default"),
        pytest.param(a_document(maxRetry=3.0), id="integral float"),
        pytest.param(container(resources={"limits": {"cpu": 1, "memory": "1Gi"}}), id="quantities"),
        pytest.param(container(livenessProbe={"httpGet": {"port": "http"}}), id="a port by name"),
        pytest.param({**a_document(), "status": {"state": {"phase": "Running"}}}, id="a status"),
    ],
)
def test_fits(job: dict[str, Any]) -> None:
    assert fits(job, SCHEMA)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param("text", id="not an object"),
        pytest.param(a_document(tasks=[]), id="too few items"),
        pytest.param(a_document(tasks=[task(replicas=-1)]), id="too small"),
        pytest.param(a_document(tasks=[{**task(), "replicas": "1"}]), id="string for a number"),
        pytest.param(a_document(tasks=[task(replicas=True)]), id="boolean for a number"),
        pytest.param(a_document(tasks=[{**task(), "replicas": 1.5}]), id="fraction"),
        pytest.param(a_document(tasks=[task(name="A_b")]), id="pattern mismatch"),
        pytest.param(a_document(tasks=[task(name="a" * 64)]), id="too long"),
        pytest.param(a_document(tasks=None), id="null for a field without a default"),
        pytest.param(a_document(suspend="yes"), id="string for a boolean"),
        pytest.param(a_document(policies=[{"event": "PodFaild"}]), id="not in enum"),
        pytest.param(a_document(policies={}), id="object for a list"),
        pytest.param(a_document(volumes=[{"volumeClaimName": "a"}]), id="required field missing"),
        pytest.param(a_document(plugins={"svc": "--a"}), id="wrong type of map value"),
        pytest.param(container(resources={"limits": {"cpu": 0.5}}), id="fraction for a quantity"),
        pytest.param(container(resources={"limits": {"cpu": "much"}}), id="invalid quantity"),
        pytest.param(container(resources={"limits": {"cpu": True}}), id="boolean for a quantity"),
        pytest.param({**a_document(), "status": {"state": {"phase": "Runing"}}}, id="unknown phase"),
    ],
)
def test_does_not_fit(job: object) -> None:
    assert not fits(job, SCHEMA)

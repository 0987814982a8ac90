from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook.schema_check import fits
from tests.builders import a_document
from tests.unit.admission.findings import task

SCHEMA = job_schema()


def container(**fields: Any) -> dict[str, Any]:
    return a_document(tasks=[task(template={"spec": {"containers": [{"name": "a", "image": "b", **fields}]}})])


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_document(), id="a good one"),
        pytest.param(a_document(mistyped=1), id="an unknown field: dropped, not refused"),
        pytest.param(a_document(plugins={"svc": None}), id="a plugin without arguments"),
        pytest.param(a_document(queue=None), id="null where there is a default"),
        pytest.param(a_document(maxRetry=3.0), id="a whole number with a point"),
        pytest.param(container(resources={"limits": {"cpu": 1, "memory": "1Gi"}}), id="amounts"),
        pytest.param(container(livenessProbe={"httpGet": {"port": "http"}}), id="a port by name"),
        pytest.param({**a_document(), "status": {"state": {"phase": "Running"}}}, id="a status"),
    ],
)
def test_fits(job: dict[str, Any]) -> None:
    assert fits(job, SCHEMA)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param("text", id="no object"),
        pytest.param(a_document(tasks=[]), id="too few"),
        pytest.param(a_document(tasks=[task(replicas=-1)]), id="too small"),
        pytest.param(a_document(tasks=[{**task(), "replicas": "1"}]), id="text for a number"),
        pytest.param(a_document(tasks=[task(replicas=True)]), id="a truth value for a number"),
        pytest.param(a_document(tasks=[{**task(), "replicas": 1.5}]), id="a fraction"),
        pytest.param(a_document(tasks=[task(name="A_b")]), id="a name that does not match"),
        pytest.param(a_document(tasks=[task(name="a" * 64)]), id="too long"),
        pytest.param(a_document(tasks=None), id="null where there is no default"),
        pytest.param(a_document(suspend="yes"), id="text for a truth value"),
        pytest.param(a_document(policies=[{"event": "PodFaild"}]), id="a word that is not among them"),
        pytest.param(a_document(policies={}), id="no list"),
        pytest.param(a_document(volumes=[{"volumeClaimName": "a"}]), id="something required is missing"),
        pytest.param(a_document(plugins={"svc": "--a"}), id="a value of a map"),
        pytest.param(container(resources={"limits": {"cpu": 0.5}}), id="an amount with a fraction"),
        pytest.param(container(resources={"limits": {"cpu": "much"}}), id="no amount"),
        pytest.param(container(resources={"limits": {"cpu": True}}), id="a truth value for an amount"),
        pytest.param({**a_document(), "status": {"state": {"phase": "Runing"}}}, id="a phase that there is not"),
    ],
)
def test_does_not_fit(job: object) -> None:
    assert not fits(job, SCHEMA)

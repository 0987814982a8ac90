from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Manifest
from tests.builders import a_container, a_document, a_template
from tests.unit.admission.findings import Row, error, found, task

AT = "spec.tasks[1].template.spec"


def twin(path: str, first: str, value: object) -> Row:
    return error(f"{AT}.{path}", f"duplicates {AT}.{first}", value, "keep one of them")


def pod(*containers: Manifest, **spec: Any) -> Manifest:
    return a_template(*containers, restartPolicy="Never", **spec)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param(
            pod(a_container(env=[{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}])),
            [twin("containers[0].env[2]", "containers[0].env[0]", "A")],
            id="variables",
        ),
        pytest.param(
            pod(initContainers=[a_container("i", env=[{"name": "A"}, {"name": "A"}])]),
            [twin("initContainers[0].env[1]", "initContainers[0].env[0]", "A")],
            id="variables of an init container",
        ),
        pytest.param(
            pod(a_container(ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}])),
            [twin("containers[0].ports[1]", "containers[0].ports[0]", "1/TCP")],
            id="ports",
        ),
        pytest.param(
            pod(a_container(ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}])), [], id="protocols"
        ),
        pytest.param(
            pod(imagePullSecrets=[{"name": "a"}, {"name": "a"}]),
            [twin("imagePullSecrets[1]", "imagePullSecrets[0]", "a")],
            id="pull secrets",
        ),
        pytest.param(
            pod(imagePullSecrets=[{}, {"name": ""}]),
            [twin("imagePullSecrets[1]", "imagePullSecrets[0]", "")],
            id="pull secrets without a name",
        ),
        pytest.param(
            pod(
                a_container(resources={"claims": [{"name": "c", "request": part} for part in "aab"] + [{"name": "d"}]}),
                resourceClaims=[{"name": name, "resourceClaimName": name} for name in "cd"],
            ),
            [
                error(f"{AT}.containers[0].resources.claims[1].name", "is claimed twice", "c"),
                twin("containers[0].resources.claims[2]", "containers[0].resources.claims[0]", "c"),
            ],
            id="parts of a claim",
        ),
        pytest.param(
            pod(
                a_container(
                    restartPolicy="Never",
                    restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [7, 8, 7]}}],
                )
            ),
            [
                twin(
                    "containers[0].restartPolicyRules[0].exitCodes.values[2]",
                    "containers[0].restartPolicyRules[0].exitCodes.values[0]",
                    7,
                )
            ],
            id="exit codes",
        ),
        pytest.param(
            pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}]),
            [twin("hostAliases[1]", "hostAliases[0]", "10.0.0.1")],
            id="host aliases",
        ),
        pytest.param(
            pod(a_container("a", env=[{"name": "A"}]), a_container("b", env=[{"name": "A"}])),
            [],
            id="of two containers",
        ),
    ],
)
def test_duplicate_items(template: Manifest, expected: list[Row]) -> None:
    assert found(a_document(tasks=[task("first"), task("second", template=template)])) == expected


def test_items_without_a_key_are_reported_once() -> None:
    template = pod(a_container(env=[{"value": "1"}, {"value": "2"}]))
    findings = found(a_document(tasks=[task("first"), task("second", template=template)]))
    assert [finding.path for finding in findings] == [f"{AT}.containers[0].env[{index}].name" for index in (0, 1)]

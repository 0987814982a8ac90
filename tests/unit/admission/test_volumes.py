from __future__ import annotations

import pytest

from pumice.model.job import Manifest
from tests.builders import a_document
from tests.unit.admission.findings import Row, error, found

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param(
            [{"volumeClaimName": "data"}],
            [
                error(
                    "spec.volumes[0].mountPath",
                    "is missing",
                    hint="the directory at which the containers mount the volume",
                )
            ],
            id="no path",
        ),
        pytest.param(
            [{"mountPath": "/a:b", "volumeClaimName": "data"}],
            [error("spec.volumes[0].mountPath", "must not contain ':'", "/a:b")],
            id="colon in the path",
        ),
        pytest.param(
            [
                {"mountPath": "/a", "volumeClaimName": "data"},
                {"mountPath": "/b", "volumeClaimName": "data"},
                {"mountPath": "/a", "volumeClaimName": "other"},
            ],
            [error("spec.volumes[2].mountPath", "must differ from that of spec.volumes[0]", "/a")],
            id="path twice",
        ),
        pytest.param(
            [{"mountPath": "/a"}],
            [
                error(
                    "spec.volumes[0]",
                    "must have volumeClaimName (an existing claim) or volumeClaim (the spec of a new one)",
                )
            ],
            id="neither claim nor name",
        ),
        pytest.param(
            [{"mountPath": "/a", "volumeClaimName": "data", "volumeClaim": CLAIM}],
            [error("spec.volumes[0]", "must have either volumeClaimName or volumeClaim, not both")],
            id="claim and name",
        ),
        pytest.param(
            [{"mountPath": "/a", "volumeClaimName": "My_Data"}],
            [error("spec.volumes[0].volumeClaimName", SUBDOMAIN, "My_Data")],
            id="claim's name",
        ),
        pytest.param(
            [{"mountPath": "/a", "volumeClaim": {**CLAIM, "accessModes": ["ReadWriteOnec"]}}],
            [
                error(
                    "spec.volumes[0].volumeClaim.accessModes[0]",
                    "must be ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod",
                    "ReadWriteOnec",
                    "did you mean ReadWriteOnce?",
                )
            ],
            id="rules of Kubernetes for claims",
        ),
        pytest.param(
            [{"mountPath": "/a", "volumeClaim": {**CLAIM, "storageClas": "fast"}}],
            [error("spec.volumes[0].volumeClaim.storageClas", "unknown field", hint="did you mean storageClassName?")],
            id="Kubernetes' schema of claims",
        ),
        pytest.param([{"mountPath": "/a", "volumeClaim": CLAIM}], [], id="claim to be made"),
        pytest.param([{"mountPath": "/a", "volumeClaimName": "data.1"}], [], id="claim that exists"),
        pytest.param([], [], id="none"),
    ],
)
def test_volumes(volumes: list[Manifest], expected: list[Row]) -> None:
    assert found(a_document(volumes=volumes)) == expected

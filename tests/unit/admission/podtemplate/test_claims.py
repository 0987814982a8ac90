from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.podtemplate import check_claim_spec
from pumice.model.findings import SPEC
from tests.unit.admission.podtemplate.samples import SCHEMA, rows

GOOD = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
MODES = "ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
STORAGE = "is required: the size of the volume, such as 10Gi"
SNAPSHOT: dict[str, Any] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}


def claim(**fields: object) -> list[str]:
    return rows(check_claim_spec({**GOOD, **fields}, SPEC, SCHEMA))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"storageClassName": "", "volumeAttributesClassName": "", "volumeMode": "Block"}, id="classes"),
        pytest.param({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}, id="a copy"),
        pytest.param({"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT}, id="a snapshot, said twice"),
        pytest.param({"dataSourceRef": {**SNAPSHOT, "namespace": "other"}}, id="a snapshot elsewhere"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}, "volumeName": "v"}, id="a volume of one's own"),
        pytest.param(
            {"resources": {"requests": {"storage": 1, "x": "1"}, "limits": {"storage": "-1"}}}, id="what is not checked"
        ),
    ],
)
def test_valid(fields: dict[str, object]) -> None:
    assert claim(**fields) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"accessModes": []}, [f"accessModes: must have at least one of {MODES}"], id="no mode"),
        pytest.param({"accessModes": ["RWO"]}, [f"accessModes[0]: must be {MODES}"], id="unknown mode"),
        pytest.param(
            {"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]},
            ["accessModes: ReadWriteOncePod cannot be used together with other modes"],
            id="modes that exclude each other",
        ),
        pytest.param({"resources": None}, [f"resources.requests.storage: {STORAGE}"], id="no size"),
        pytest.param({"resources": {"requests": {}}}, [f"resources.requests.storage: {STORAGE}"], id="no storage"),
        pytest.param(
            {"resources": {"requests": {"storage": "0"}}}, ["resources.requests.storage: must be above 0"], id="zero"
        ),
        pytest.param(
            {"resources": {"requests": {"storage": "10GB"}, "limits": {"storage": "x"}}},
            [
                "resources.limits.storage: must be a quantity such as 500m, 2, 1.5 or 4Gi",
                "resources.requests.storage: must be a quantity such as 500m, 2, 1.5 or 4Gi",
            ],
            id="no quantity",
        ),
        pytest.param({"storageClassName": "A"}, [f"storageClassName: {SUBDOMAIN}"], id="class"),
        pytest.param({"volumeMode": "Disk"}, ["volumeMode: must be Filesystem or Block"], id="mode of the volume"),
        pytest.param(
            {"dataSource": {"kind": "VolumeSnapshot", "name": "x"}},
            ["dataSource.kind: must be PersistentVolumeClaim when there is no apiGroup"],
            id="a snapshot without a group",
        ),
        pytest.param(
            {"dataSourceRef": {"name": "", "kind": "", "apiGroup": "A", "namespace": "B.c"}},
            [
                "dataSourceRef.name: is required",
                "dataSourceRef.kind: is required",
                f"dataSourceRef.apiGroup: {SUBDOMAIN}",
                f"dataSourceRef.namespace: {LABEL}",
            ],
            id="reference",
        ),
        pytest.param(
            {"dataSource": SNAPSHOT, "dataSourceRef": {**SNAPSHOT, "name": "t"}},
            ["dataSource: must be the same as dataSourceRef"],
            id="two sources",
        ),
        pytest.param(
            {"dataSource": SNAPSHOT, "dataSourceRef": {**SNAPSHOT, "namespace": "n"}},
            ["dataSource: cannot be set when dataSourceRef has a namespace"],
            id="two sources, one elsewhere",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            ["selector.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist"],
            id="selector",
        ),
    ],
)
def test_refused(fields: dict[str, object], expected: list[str]) -> None:
    assert claim(**fields) == [f"spec.{text}" for text in expected]

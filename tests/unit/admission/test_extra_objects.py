from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.extra_objects import check_extra_object
from pumice.model.job import Manifest
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.unit.admission.findings import Row, error, rows

LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
KEY = "the key must be letters, digits, '-', '_' or '.'"
SIZE = {"resources": {"requests": {"storage": "1Gi"}}}


def companion(kind: str, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **fields}


def found(document: Manifest) -> list[Row]:
    return rows(check_extra_object(document, kubernetes_types().types))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(companion("ConfigMap", data={"a.txt": "b"}, binaryData={"c": "ZA=="}), id="ConfigMap"),
        pytest.param(companion("Secret", stringData={"a": "b"}, data={"c": "ZA=="}, type="Opaque"), id="Secret"),
        pytest.param(companion("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], **SIZE}), id="claim"),
        pytest.param(companion("ConfigMap", metadata={"name": "a.b", "namespace": "lab"}), id="name with a dot"),
        pytest.param(companion("ConfigMap", data=None), id="no data"),
    ],
)
def test_good(document: Manifest) -> None:
    assert found(document) == []


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "PersistentVolumeClaim"])
@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(None, error("metadata.name", "is missing"), id="none"),
        pytest.param({"name": ""}, error("metadata.name", "is missing"), id="empty name"),
        pytest.param({"name": "A"}, error("metadata.name", SUBDOMAIN, "A"), id="name"),
        pytest.param({"name": "a", "namespace": "a.b"}, error("metadata.namespace", LABEL, "a.b"), id="namespace"),
        pytest.param("x", error("metadata", "must be a mapping, found a string", "x"), id="of another type"),
        pytest.param(
            {"name": 5}, error("metadata.name", "must be a string, found a number", 5, 'quote it: "5"'), id="number"
        ),
    ],
)
def test_metadata(kind: str, metadata: Any, expected: Row) -> None:
    spec = {"spec": {"accessModes": ["ReadWriteOnce"], **SIZE}} if kind == "PersistentVolumeClaim" else {}
    assert found({**companion(kind, **spec), "metadata": metadata}) == [expected]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            companion("ConfigMap", data={"a": True}),
            error(
                "data.a",
                "must be a string, found a boolean",
                True,
                "quote it: YAML takes yes, no, on, off, y and n for true and false",
            ),
            id="value of a ConfigMap",
        ),
        pytest.param(companion("ConfigMap", data={"a b": "c"}), error("data[a b]", KEY), id="key of a ConfigMap"),
        pytest.param(
            companion("ConfigMap", data={"..": "c"}), error("data[..]", "the key must not be '.' or '..'"), id=".."
        ),
        pytest.param(companion("Secret", stringData={"a/b": "c"}), error("stringData[a/b]", KEY), id="key of a Secret"),
        pytest.param(
            companion("ConfigMap", dat={}), error("dat", "unknown field", hint="did you mean data?"), id="field"
        ),
        pytest.param(
            companion("ConfigMap", data="x"), error("data", "must be a mapping, found a string", "x"), id="data as text"
        ),
        pytest.param(
            companion("PersistentVolumeClaim", spec={"accessModes": ["Often"], **SIZE}),
            error(
                "spec.accessModes[0]", "must be ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod", "Often"
            ),
            id="rules for claims",
        ),
        pytest.param(
            companion("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "size": 1, **SIZE}),
            error("spec.size", "unknown field"),
            id="unknown field of a claim, reported once",
        ),
        pytest.param(
            companion("ConfigMap", metadata={"name": "a", "labels": {"b": "c d"}}),
            error(
                "metadata.labels.b",
                "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit",
                "c d",
            ),
            id="label",
        ),
        pytest.param(
            companion("PersistentVolumeClaim", spec="x"),
            error("spec", "must be a mapping, found a string", "x"),
            id="claim as text",
        ),
    ],
)
def test_contents(document: Manifest, expected: Row) -> None:
    assert found(document) == [expected]


def test_a_claim_without_a_spec_lacks_what_a_claim_needs() -> None:
    paths = [finding.path for finding in found(companion("PersistentVolumeClaim"))]
    assert sorted(paths) == ["spec.accessModes", "spec.resources.requests.storage"]


@pytest.mark.parametrize("field", ["stringData", "data"])
@pytest.mark.parametrize("value", [pytest.param(12345, id="number"), pytest.param("not base64!12345", id="text")])
def test_what_a_secret_holds_is_never_repeated(field: str, value: object) -> None:
    assert "12345" not in str(found(companion("Secret", **{field: {"password": value}})))


def test_a_secret_value_of_the_wrong_type_is_not_shown() -> None:
    assert found(companion("Secret", stringData={"password": 12345})) == [
        error("stringData.password", "must be a string, found a number", hint="quote it")
    ]


def test_a_key_that_is_no_text_is_left_to_the_shape() -> None:
    findings = found(companion("ConfigMap", data={1: "x"}))
    assert [finding.path for finding in findings] == ["data.1"]


def test_what_has_a_wrong_name_is_not_missing_as_well() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metdata": {"name": "a"}}
    assert found(document) == [error("metdata", "unknown field", hint="did you mean metadata?")]

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.extra_objects import check_config_data, check_extra_object
from pumice.model.job import Manifest
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.unit.admission.findings import Row, error, rows

LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
KEY = "the key must be letters, digits, '-', '_' or '.'"
SIZE = {"resources": {"requests": {"storage": "1Gi"}}}


def an_object(kind: str, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **fields}


def found(document: Manifest) -> list[Row]:
    return rows(check_extra_object(document, kubernetes_types().types))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(an_object("ConfigMap", data={"a.txt": "b"}, binaryData={"c": "ZA=="}), id="ConfigMap"),
        pytest.param(an_object("Secret", stringData={"a": "b"}, data={"c": "ZA=="}, type="Opaque"), id="Secret"),
        pytest.param(an_object("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], **SIZE}), id="claim"),
        pytest.param(an_object("ConfigMap", metadata={"name": "a.b", "namespace": "lab"}), id="name with a dot"),
        pytest.param(an_object("ConfigMap", data=None), id="no data"),
    ],
)
def test_valid(document: Manifest) -> None:
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
    assert found({**an_object(kind, **spec), "metadata": metadata}) == [expected]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            an_object("ConfigMap", data={"a": True}),
            error(
                "data.a",
                "must be a string, found a boolean",
                True,
                "quote it: YAML takes yes, no, on, off, y and n for true and false",
            ),
            id="value of a ConfigMap",
        ),
        pytest.param(an_object("ConfigMap", data={"a b": "c"}), error("data[a b]", KEY), id="key of a ConfigMap"),
        pytest.param(
            an_object("ConfigMap", data={"..": "c"}), error("data[..]", "the key must not be '.' or '..'"), id=".."
        ),
        pytest.param(an_object("Secret", stringData={"a/b": "c"}), error("stringData[a/b]", KEY), id="key of a Secret"),
        pytest.param(
            an_object("ConfigMap", dat={}), error("dat", "unknown field", hint="did you mean data?"), id="field"
        ),
        pytest.param(
            an_object("ConfigMap", data="x"),
            error("data", "must be a mapping, found a string", "x"),
            id="data as text",
        ),
        pytest.param(
            an_object("PersistentVolumeClaim", spec={"accessModes": ["Often"], **SIZE}),
            error(
                "spec.accessModes[0]", "must be ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod", "Often"
            ),
            id="rules for claims",
        ),
        pytest.param(
            an_object("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "size": 1, **SIZE}),
            error("spec.size", "unknown field"),
            id="unknown field of a claim, reported once",
        ),
        pytest.param(
            an_object("ConfigMap", metadata={"name": "a", "labels": {"b": "c d"}}),
            error(
                "metadata.labels.b",
                "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit",
                "c d",
            ),
            id="label",
        ),
        pytest.param(
            an_object("PersistentVolumeClaim", spec="x"),
            error("spec", "must be a mapping, found a string", "x"),
            id="claim as text",
        ),
    ],
)
def test_data_and_specs(document: Manifest, expected: Row) -> None:
    assert found(document) == [expected]


def test_a_claim_without_a_spec_lacks_what_a_claim_needs() -> None:
    paths = [finding.path for finding in found(an_object("PersistentVolumeClaim"))]
    assert sorted(paths) == ["spec.accessModes", "spec.resources.requests.storage"]


@pytest.mark.parametrize("field", ["stringData", "data"])
@pytest.mark.parametrize("value", [pytest.param(12345, id="number"), pytest.param("not base64!12345", id="text")])
def test_what_a_secret_holds_is_never_repeated(field: str, value: object) -> None:
    assert "12345" not in str(found(an_object("Secret", **{field: {"password": value}})))


def test_a_secret_value_of_the_wrong_type_is_not_shown() -> None:
    assert found(an_object("Secret", stringData={"password": 12345})) == [
        error("stringData.password", "must be a string, found a number", hint="quote it")
    ]


def test_a_key_that_is_no_text_is_left_to_the_shape() -> None:
    findings = found(an_object("ConfigMap", data={1: "x"}))
    assert [finding.path for finding in findings] == ["data.1"]


def test_what_has_a_wrong_name_is_not_missing_as_well() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metdata": {"name": "a"}}
    assert found(document) == [error("metdata", "unknown field", hint="did you mean metadata?")]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(an_object("ConfigMap", data={"a": "é" * 2**19}), id="as much as it can hold"),
        pytest.param(an_object("ConfigMap", binaryData={"a": "eHh4" * 349_525}), id="as many bytes as it can hold"),
        pytest.param(an_object("Secret", data={"a": "eHh4" * 349_525}), id="as much as a Secret can hold"),
        pytest.param(an_object("Secret", stringData={"a": "x"}, data={"a": "eHh4" * 349_526}), id="only text counts"),
        pytest.param(an_object("Secret", type="example.com/mine"), id="type of one's own"),
        pytest.param(
            an_object("Secret", type="kubernetes.io/tls", data={"tls.crt": "eA=="}, stringData={"tls.key": "x"}),
            id="all that a type needs",
        ),
        pytest.param(
            an_object("Secret", type="kubernetes.io/basic-auth", stringData={"username": "x"}), id="name alone"
        ),
        pytest.param(
            an_object("Secret", type="kubernetes.io/basic-auth", stringData={"password": "x"}), id="password alone"
        ),
    ],
)
def test_valid_data(document: Manifest) -> None:
    assert list(check_config_data(document)) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            an_object("ConfigMap", data={"a": 3, "b c": "x"}),
            error("data[b c]", "the key must be letters, digits, '-', '_' or '.'"),
            id="key",
        ),
        pytest.param(
            an_object("ConfigMap", data={"a": "x"}, binaryData={"a": "eA==", "b": "eA=="}),
            error("binaryData.a", "data already has this key", hint="keep one of them"),
            id="key twice",
        ),
        pytest.param(
            an_object("ConfigMap", data={"a": "é" * 2**19, "b": "x"}),
            error(
                "",
                "holds 1025 KiB; Kubernetes stores at most 1024",
                hint="put large files on a volume, or into the image",
            ),
            id="more than it can hold",
        ),
        pytest.param(
            an_object("Secret", type="kubernetes.io/tls", data={"tls.crt": "eA=="}),
            error("data[tls.key]", "is required in a Secret of type kubernetes.io/tls"),
            id="less than its type needs",
        ),
        pytest.param(
            an_object("Secret", type="kubernetes.io/basic-auth", stringData={"user": "x"}),
            error("data", "username or password is required in a Secret of type kubernetes.io/basic-auth"),
            id="neither name nor password",
        ),
    ],
)
def test_invalid_data(document: Manifest, expected: Row) -> None:
    assert rows(check_config_data(document)) == [expected]

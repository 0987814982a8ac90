from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.config_data import check_config_data
from pumice.model.job import Manifest
from tests.unit.admission.findings import Row, error, rows


def companion(kind: str, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **fields}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(companion("ConfigMap", data={"a": "é" * 2**19}), id="as much as it can hold"),
        pytest.param(companion("ConfigMap", binaryData={"a": "eHh4" * 349_525}), id="as many bytes as it can hold"),
        pytest.param(companion("Secret", data={"a": "eHh4" * 349_525}), id="as much as a Secret can hold"),
        pytest.param(companion("Secret", stringData={"a": "x"}, data={"a": "eHh4" * 349_526}), id="only text counts"),
        pytest.param(companion("Secret", type="example.com/mine"), id="type of one's own"),
        pytest.param(
            companion("Secret", type="kubernetes.io/tls", data={"tls.crt": "eA=="}, stringData={"tls.key": "x"}),
            id="all that a type needs",
        ),
        pytest.param(
            companion("Secret", type="kubernetes.io/basic-auth", stringData={"username": "x"}), id="name alone"
        ),
        pytest.param(
            companion("Secret", type="kubernetes.io/basic-auth", stringData={"password": "x"}), id="password alone"
        ),
    ],
)
def test_good(document: Manifest) -> None:
    assert list(check_config_data(document)) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            companion("ConfigMap", data={"a": 3, "b c": "x"}),
            error("data[b c]", "the key must be letters, digits, '-', '_' or '.'"),
            id="key",
        ),
        pytest.param(
            companion("ConfigMap", data={"a": "x"}, binaryData={"a": "eA==", "b": "eA=="}),
            error("binaryData.a", "data already has this key", hint="keep one of them"),
            id="key twice",
        ),
        pytest.param(
            companion("ConfigMap", data={"a": "é" * 2**19, "b": "x"}),
            error(
                "",
                "holds 1025 KiB; Kubernetes stores at most 1024",
                hint="put large files on a volume, or into the image",
            ),
            id="more than it can hold",
        ),
        pytest.param(
            companion("Secret", type="kubernetes.io/tls", data={"tls.crt": "eA=="}),
            error("data[tls.key]", "is required in a Secret of type kubernetes.io/tls"),
            id="less than its type needs",
        ),
        pytest.param(
            companion("Secret", type="kubernetes.io/basic-auth", stringData={"user": "x"}),
            error("data", "username or password is required in a Secret of type kubernetes.io/basic-auth"),
            id="neither name nor password",
        ),
    ],
)
def test_errors(document: Manifest, expected: Row) -> None:
    assert rows(check_config_data(document)) == [expected]

"""Small pods for the tests of the pod rules, and findings in a form that reads well in a table."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

import msgspec

from pumice.admission.podtemplate import check_pod_spec
from pumice.model.findings import SPEC, Finding
from pumice.model.shape import ObjectType


class _Document(msgspec.Struct):
    types: dict[str, ObjectType]


SCHEMA = msgspec.json.decode((files("pumice") / "data" / "kubernetes.json").read_bytes(), type=_Document).types


def container(**fields: object) -> dict[str, object]:
    return {"name": "main", "image": "busybox", **fields}


def pod(**fields: object) -> dict[str, object]:
    return {"containers": [container()], **fields}


def in_container(**fields: object) -> dict[str, object]:
    return pod(containers=[container(**fields)])


def in_volume(**source: object) -> dict[str, object]:
    return pod(volumes=[{"name": "v", **source}])


def rows(findings: Iterable[Finding]) -> list[str]:
    """`spec.containers[0].name: is required`, and for warnings the word before it."""
    return [f"{'' if finding.is_error else 'warning: '}{finding.path}: {finding.message}" for finding in findings]


def rules(spec: dict[str, object]) -> list[str]:
    return rows(check_pod_spec(spec, SPEC))


def hints(spec: dict[str, object]) -> list[str]:
    return [finding.hint for finding in check_pod_spec(spec, SPEC)]

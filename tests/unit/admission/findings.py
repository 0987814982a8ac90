"""Findings as tables hold them: the place as it is printed, and everything that is said about it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pumice.admission.admit import admit
from pumice.admission.context import Context
from pumice.model.findings import ABSENT
from pumice.model.job import Manifest
from tests.builders import a_context, a_template

POD = a_template(restartPolicy="Never")


class Row(NamedTuple):
    severity: str
    path: str
    message: str
    value: object = ABSENT
    hint: str = ""


def error(path: str, message: str, value: object = ABSENT, hint: str = "") -> Row:
    return Row("error", path, message, value, hint)


def warning(path: str, message: str, value: object = ABSENT, hint: str = "") -> Row:
    return Row("warning", path, message, value, hint)


def rows(findings: Any) -> list[Row]:
    return [Row(str(f.severity), str(f.path), f.message, f.value, f.hint) for f in findings]


def found(document: Manifest, context: Context | None = None) -> list[Row]:
    """All that admission says about a document."""
    return rows(admit(document, context or a_context()).findings)


def task(name: str = "worker", replicas: int = 1, **fields: Any) -> Manifest:
    """A task of a document; without a pod of its own it has a good one."""
    return {"name": name, "replicas": replicas, "template": POD, **fields}

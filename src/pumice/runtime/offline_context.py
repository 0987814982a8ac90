"""What admission needs besides the Job where no cluster is asked: the installed plugins and Kubernetes' types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pumice.admission.admit import Admitted, admit, restore
from pumice.admission.context import Context
from pumice.model import VERSION
from pumice.model.findings import InvalidJob
from pumice.runtime.discovery import discover_on_demand
from pumice.runtime.kubernetes_types import kubernetes_types


@cache
def offline_context(*, portable: bool = False) -> Context:
    return Context(discover_on_demand(), kubernetes_types().types, portable=portable)


def restore_admitted(document: Mapping[str, Any], version: str) -> Admitted:
    """Return a Job that `version` of Pumice admitted. Only another version checks its rules again.

    Raises InvalidJob: that version has other rules, or its Python has a plugin that this one lacks.
    """
    found = (restore if version == VERSION else admit)(document, offline_context())
    if not found.is_good:
        raise InvalidJob(found.findings)
    return found

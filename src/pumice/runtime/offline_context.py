"""What admission needs besides the Job where no cluster is asked: the installed plugins and Kubernetes' types."""

from __future__ import annotations

from functools import cache

from pumice.admission.context import Context
from pumice.runtime.discovery import discover
from pumice.runtime.kubernetes_types import kubernetes_types


@cache
def offline_context(*, portable: bool = False) -> Context:
    return Context(discover(), kubernetes_types().types, portable=portable)

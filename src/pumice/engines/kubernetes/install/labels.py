"""Labels of what is installed: by them Services, budgets and people find it."""

from __future__ import annotations


def labels(component: str = "") -> dict[str, str]:
    """Of one component; without one, what is common to all of Pumice."""
    part = {"app.kubernetes.io/component": component} if component else {}
    return {"app.kubernetes.io/name": "pumice", **part}

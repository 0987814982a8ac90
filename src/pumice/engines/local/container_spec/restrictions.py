"""Capabilities and restrictions of a container by its securityContext.

Each restriction that it asks for is applied, or the run is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pumice.engines.local.sandbox.specs import CAPABILITIES, DEFAULT_CAPABILITIES
from pumice.model.job import Manifest
from pumice.model.problem import Problem

_PROFILES: Final = {
    "seccompProfile": "RuntimeDefault stands for the filter that every container has",
    "appArmorProfile": "leave it out, or run the job on a cluster",
}


def granted_capabilities(container: Manifest) -> tuple[int, ...]:
    """Return the default capabilities, with what the container adds and without what it only drops."""
    named = _security_context(container).get("capabilities") or {}
    add, drop = (_names(named.get(key) or ()) for key in ("add", "drop"))
    every, none = "ALL" in add, "ALL" in drop
    return tuple(
        number
        for name, number in CAPABILITIES.items()
        if name in add or ((every or number in DEFAULT_CAPABILITIES) and not none and name not in drop)
    )


def grants_all(added: Iterable[object]) -> bool:
    """Whether a container can have each of these capabilities."""
    return _names(added) <= CAPABILITIES.keys()


def _names(capabilities: Iterable[object]) -> set[str]:
    return {str(name).upper().removeprefix("CAP_") for name in capabilities}


def no_new_privileges(container: Manifest) -> bool:
    return _security_context(container).get("allowPrivilegeEscalation") is False


def refused_restrictions(manifest: Manifest, container: Manifest) -> Iterator[Problem]:
    """Yield the profiles that the container names: this machine does not have the files of a cluster's nodes."""
    contexts = (manifest["spec"].get("securityContext") or {}, _security_context(container))
    for field, hint in _PROFILES.items():
        profile: Mapping[str, Any] = next((each[field] for each in reversed(contexts) if each.get(field)), {})
        if profile.get("type") == "Localhost":
            name = profile.get("localhostProfile")
            yield Problem(f"securityContext.{field}: the profile {name} is not on this machine", hint)


def _security_context(container: Manifest) -> Mapping[str, Any]:
    return container.get("securityContext") or {}

"""Restrictions that a container asks for in its securityContext. Each is applied, or the run is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pumice.model.job import Manifest
from pumice.model.problem import Problem

# What containers have by default, by number: the names as in a manifest.
CAPABILITIES: Final[Mapping[str, int]] = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
_PROFILES: Final = {
    "seccompProfile": "RuntimeDefault stands for the filter that every container has",
    "appArmorProfile": "leave it out, or run the job on a cluster",
}


def dropped_capabilities(container: Manifest) -> tuple[int, ...]:
    """Return the default capabilities that the container gives up; what it also adds, it keeps."""
    named = _security_context(container).get("capabilities") or {}
    drop, add = ({str(name).upper().removeprefix("CAP_") for name in named.get(key) or ()} for key in ("drop", "add"))
    return tuple(
        number for name, number in CAPABILITIES.items() if ("ALL" in drop and name not in add) or name in drop - add
    )


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

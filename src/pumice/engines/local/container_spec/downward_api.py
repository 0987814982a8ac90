"""What a pod may read about itself: the values of `fieldRef` and `resourceFieldRef`, in variables and in files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pumice.engines.local.container_spec.pod_facts import PodFacts
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity

_SUBSCRIPTED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_ONE: Final = Quantity.parse(1)
_SHORT_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def field_value(path: str, manifest: Manifest, facts: PodFacts) -> str | None:
    """The value of a pod's field by its path; None for a path that the downward API does not know."""
    metadata = manifest.get("metadata") or {}
    if match := _SUBSCRIPTED.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        return _listed(metadata.get(path.removeprefix("metadata.")) or {})
    spec = manifest.get("spec") or {}
    known = {
        "metadata.name": facts.name,
        "metadata.namespace": facts.namespace,
        "metadata.uid": facts.uid,
        "spec.nodeName": facts.node_name,
        "spec.host": facts.node_name,
        "spec.serviceAccountName": str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.ip,
        "status.podIPs": facts.ip,
    }
    return known.get(path)


def resource_value(ref: Mapping[str, Any], container: Manifest, manifest: Manifest, facts: PodFacts) -> str | None:
    """What a container may use or has asked for, counted in units of `divisor`; None if the pod has no such thing."""
    about = _named_container(manifest, ref.get("containerName")) or container
    kind, _, name = str(ref.get("resource")).partition(".")
    if kind not in {"limits", "requests"} or not (
        name in {"cpu", "memory", "ephemeral-storage"} or name.startswith("hugepages-")
    ):
        return None
    amount = _amount(kind, name, about, manifest) or (facts.allocatable.get(name) if kind == "limits" else None)
    divisor = _quantity(ref.get("divisor")) or _ONE
    return str(-(-(amount or Quantity()).nanos // divisor.nanos))


def _amount(kind: str, name: str, container: Manifest, manifest: Manifest) -> Quantity | None:
    """The container's own amount, else the whole pod's; without a request, the limit is what was asked for."""
    kinds = ("limits",) if kind == "limits" else ("requests", "limits")
    for owner in (container, manifest.get("spec") or {}):
        resources = owner.get("resources") or {}
        for which in kinds:
            amount = _quantity((resources.get(which) or {}).get(name))
            if amount is not None:
                return amount
    return None


def _quantity(found: object) -> Quantity | None:
    try:
        quantity = Quantity.parse(found)
    except ValueError:
        return None
    # Zero is no limit, and nothing can be counted in units of zero.
    return None if quantity.is_zero else quantity


def _named_container(manifest: Manifest, name: object) -> Manifest | None:
    spec = manifest.get("spec") or {}
    containers: list[Manifest] = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    return next((container for container in containers if name and container.get("name") == name), None)


def _listed(entries: Mapping[str, str]) -> str:
    """One `key="value"` a line, sorted, quoted as Go quotes: programs parse these files."""
    return "\n".join(f"{key}={_quoted(str(value))}" for key, value in sorted(entries.items()))


def _quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:  # noqa: PLR2004 - ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - what fits four digits

"""The downward API: values of `fieldRef` and `resourceFieldRef`, for variables and for files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.quantity import Quantity
from pumice.model.resources import resource_list

_SUBSCRIPTED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_ONE: Final = Quantity.parse(1)
_ZERO: Final = Quantity()
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


class PodFacts(Struct, frozen=True, kw_only=True):
    """What a scheduled pod may read about itself beyond its manifest."""

    name: str
    namespace: str
    uid: str
    ip: str
    hostname: str
    node_name: str
    host_ip: str
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)  # stands in for a missing limit


def field_value(path: str, manifest: Manifest, facts: PodFacts) -> str | None:
    """Return the value of a pod's field; None for a path that the downward API does not know."""
    metadata = manifest.get("metadata") or {}
    if match := _SUBSCRIPTED.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        # Sorted `key="value"` lines, quoted as Go quotes them: programs parse these files.
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={_quoted(str(value))}" for key, value in sorted(entries.items()))
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
    """Return a container's limit or request in units of `divisor`; None if the downward API has no such resource."""
    kind, _, name = str(ref.get("resource")).partition(".")
    if kind not in {"limits", "requests"} or not (
        name in {"cpu", "memory", "ephemeral-storage"} or name.startswith("hugepages-")
    ):
        return None
    spec = manifest.get("spec") or {}
    named = (each for each in all_containers(spec) if each.get("name") == ref.get("containerName"))
    amount = _amount(kind, name, (next(named, container), spec))
    if amount is None:
        amount = facts.allocatable.get(name, _ZERO) if kind == "limits" else _ZERO
    divisor = _nonzero(ref.get("divisor")) or _ONE
    return str(-(-amount.nanos // divisor.nanos))


def _amount(kind: str, name: str, owners: Sequence[Manifest]) -> Quantity | None:
    """Return the first owner's amount that is not zero. A limit serves as request; zero means no limit."""
    for owner in owners:
        for which in ("limits",) if kind == "limits" else ("requests", "limits"):
            amount = resource_list(owner, which).get(name, _ZERO)
            if not amount.is_zero:
                return amount
    return None


def _nonzero(found: object) -> Quantity | None:
    try:
        quantity = Quantity.parse(found)
    except ValueError:
        return None
    return None if quantity.is_zero else quantity


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
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits

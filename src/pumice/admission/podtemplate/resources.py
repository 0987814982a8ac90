"""Resources of containers and pods: names, quantities, requests against limits, device claims, and the pod level.

Kubernetes rounds quantities up to a thousandth before it compares them, and so does this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

from pumice.admission.podtemplate.checks import spelled
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding, Path
from pumice.model.quantity import Quantity
from pumice.model.resources import Usage, containers_total, is_extended
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import dns_label_error, qualified_name_error

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_POD_LEVEL: Final = ("cpu", "memory")
_MILLI: Final = 1000
_NAME_RULE: Final = f"must be {', '.join(_STANDARD)}, hugepages-<size>, or a device such as nvidia.com/gpu"
_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E")


def read_quantity(value: object, at: Path) -> Quantity | Finding | None:
    """Parse a quantity; return a finding if it is invalid, None for a type that the schema check reports."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return Quantity.parse(value)
    except ValueError:
        return Finding(at, "must be a quantity such as 500m, 2, 1.5 or 4Gi", value, _unit_hint(value))


def _unit_hint(value: object) -> str:
    """Suggest `8G` for `8GB`, `8Gi` for `8 gib`."""
    match = re.fullmatch(r"([0-9.]+)\s*([A-Za-z]+)", str(value).strip())
    if match is None:
        return ""
    number, unit = match[1], match[2].casefold().removesuffix("b")
    known = next((known for known in _UNITS if known.casefold() == unit), None)
    return f"did you mean {number}{known}?" if known else ""


def check_resources(resources: View, claim_names: Collection[str]) -> Iterator[Finding]:
    """Check the resources of one container."""
    yield from _check_requirements(resources, container_resource_error)
    yield from _check_claims(resources, claim_names)


def check_pod_resources(spec: View) -> Iterator[Finding]:
    """Check the overhead and the pod-level resources, which must cover those of the containers."""
    yield from _check_quantities(spec, "overhead", container_resource_error)
    yield from _check_huge_pages(spec.part("overhead"), _quantities(spec, "overhead"))
    resources = spec.child("resources")
    if resources is None:
        return
    # Kubernetes refuses an empty list, too.
    if resources.has("claims"):
        yield resources.missing("claims", "belong to a container, not to the whole pod")
    yield from _check_requirements(resources, _pod_resource_error)
    yield from _check_against_containers(spec, resources)


def _check_requirements(resources: View, name_error: Callable[[str], str]) -> Iterator[Finding]:
    for key in ("limits", "requests"):
        yield from _check_quantities(resources, key, name_error)
    limits, requests = _quantities(resources, "limits"), _quantities(resources, "requests")
    for name, request in requests.items():
        yield from _check_against_limit(resources, name, request, limits.get(name))
    yield from _check_huge_pages(resources, limits | requests)


def _check_huge_pages(resources: View, asked: Usage) -> Iterator[Finding]:
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked.keys() & {"cpu", "memory"}:
        yield Finding(resources.at, "huge pages need a request or limit of cpu or memory beside them")


def _check_quantities(view: View, key: str, name_error: Callable[[str], str]) -> Iterator[Finding]:
    """Check a map of resource names to quantities."""
    for at, name, value in view.pairs(key):
        if error := name_error(name):
            gpu = name.casefold() in {"gpu", "gpus"}
            yield Finding(at, error, name, "did you mean nvidia.com/gpu?" if gpu else did_you_mean(name, _STANDARD))
        quantity = read_quantity(value, at)
        if isinstance(quantity, Finding):
            yield quantity
        elif quantity is not None and (error := _quantity_error(name, quantity)):
            yield Finding(at, error, value)


def _quantities(view: View, key: str) -> Usage:
    read = {name: read_quantity(value, at) for at, name, value in view.pairs(key)}
    return {name: quantity for name, quantity in read.items() if isinstance(quantity, Quantity)}


def container_resource_error(name: str) -> str:
    if error := qualified_name_error(name):
        return error
    if "/" not in name:
        return "" if name in _STANDARD or name.startswith(_HUGE_PAGES) else _NAME_RULE
    if _is_native(name) or is_extended(name):
        return ""
    return "must not begin with 'requests.', and be short enough to put that before it"


def _pod_resource_error(name: str) -> str:
    if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
        return qualified_name_error(name)
    return "must be cpu, memory or hugepages-<size> for a whole pod"


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _quantity_error(name: str, quantity: Quantity) -> str:
    if quantity.is_negative:
        return "must be 0 or more"
    if is_extended(name) and quantity.milli_value() % _MILLI:
        return "must be a whole number"
    if name.startswith(_HUGE_PAGES):
        page = read_quantity(name.removeprefix(_HUGE_PAGES), Path())
        is_size = isinstance(page, Quantity) and page.nanos > 0 and page.milli_value() % _MILLI == 0
        if not (is_size and isinstance(page, Quantity) and quantity.value() % page.value() == 0):
            return f"must be a multiple of the page size in {name}"
    return ""


def _check_against_limit(resources: View, name: str, request: Quantity, limit: Quantity | None) -> Iterator[Finding]:
    at = resources.at / "requests" / name
    may_be_overcommitted = _is_native(name) and not name.startswith(_HUGE_PAGES)
    if limit is None:
        if not may_be_overcommitted and name not in resources.part("limits").value:
            message = f"is required, because {name} cannot be overcommitted"
            yield Finding(resources.at / "limits" / name, message, hint=f"set it to {request}, as in the requests")
    elif not may_be_overcommitted and request.milli_value() != limit.milli_value():
        yield Finding(at, f"must equal the limit, which is {limit}", str(request))
    elif request.milli_value() > limit.milli_value():
        yield Finding(at, f"must not be above the limit, which is {limit}", str(request))


def _check_claims(resources: View, claim_names: Collection[str]) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for claim in resources.children("claims"):
        if claim.is_blank("name"):
            yield claim.missing("name")
            continue
        name, request = claim.text("name"), claim.text("request")
        yield from spelled(claim, "request", dns_label_error)
        # A claim as a whole includes each of its requests.
        if any(other == name and (not request or part in {"", request}) for other, part in seen):
            yield claim.error("name", "is claimed twice")
        seen.add((name, request))
        if name and name not in claim_names:
            yield claim.error("name", "must be a name in the pod's resourceClaims", did_you_mean(name, claim_names))


def _check_against_containers(spec: View, resources: View) -> Iterator[Finding]:
    requests, limits = _quantities(resources, "requests"), _quantities(resources, "limits")
    filled = {
        field: [_with_default_requests(container) for container in spec.children(field)]
        for field in ("initContainers", "containers")
    }
    for name, total in containers_total(filled, "requests").items():
        if name in requests and total > requests[name]:
            message = f"must not be below what the containers ask for together, which is {total}"
            yield Finding(resources.at / "requests" / name, message, str(requests[name]))
    for name, total in containers_total(filled, "limits").items():
        if name.startswith(_HUGE_PAGES) and name in limits and total > limits[name]:
            message = f"must not be below the containers' limits together, which are {total}"
            yield Finding(resources.at / "limits" / name, message, str(limits[name]))
    for container in spec.children("containers"):
        own = container.part("resources")
        for name, limit in _quantities(own, "limits").items():
            if name in limits and limit > limits[name]:
                message = f"must not be above the pod's limit, which is {limits[name]}"
                yield Finding(own.at / "limits" / name, message, str(limit))


def _with_default_requests(container: View) -> dict[str, object]:
    """Return the container with its limits as requests where it has none."""
    limits, requests = (container.part("resources").part(key).value for key in ("limits", "requests"))
    return {
        "restartPolicy": container.get("restartPolicy"),
        "resources": {"limits": limits, "requests": {**limits, **requests}},
    }

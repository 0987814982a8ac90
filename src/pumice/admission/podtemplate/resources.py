"""What a container asks for: names and amounts of resources, requests against limits, claims of devices.

Kubernetes rounds amounts up to a thousandth before it compares them, so that is done here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

from pumice.admission.podtemplate.checks import spelled
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding, Path
from pumice.model.quantity import Quantity
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import dns_label_error, qualified_name_error

_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E")
_WITH_UNIT = re.compile(r"([0-9.]+)\s*([A-Za-z]+)")
_ACCEPTED: Final = "must be a quantity such as 500m, 2, 1.5 or 4Gi"


def read_quantity(value: object, at: Path) -> Quantity | Finding | None:
    """The quantity; or what is wrong with it; or nothing where the shape is wrong, which is reported elsewhere."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return Quantity.parse(value)
    except ValueError:
        return Finding(at, _ACCEPTED, value, _unit_hint(value))


def _unit_hint(value: object) -> str:
    """`8GB` was meant to be `8G`, `8 gib` to be `8Gi`."""
    match = _WITH_UNIT.fullmatch(str(value).strip())
    if match is None:
        return ""
    number, unit = match[1], match[2].casefold().removesuffix("b")
    meant = next((known for known in _UNITS if known.casefold() == unit), None)
    return f"did you mean {number}{meant}?" if meant else ""


STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES: Final = "hugepages-"
_POD_LEVEL: Final = ("cpu", "memory")
_MILLI: Final = 1000
_NAME_RULE: Final = f"must be {', '.join(STANDARD)}, hugepages-<size>, or a device such as nvidia.com/gpu"

Amounts = dict[str, Quantity]


def check_resources(resources: View, claim_names: Collection[str]) -> Iterator[Finding]:
    """The resources of one container."""
    yield from check_amounts(resources, container_resource_error)
    yield from _check_claims(resources, claim_names)


def check_amounts(resources: View, name_error: Callable[[str], str]) -> Iterator[Finding]:
    """Names, amounts, and requests against limits; the names that are fine depend on who asks."""
    for key in ("limits", "requests"):
        yield from check_quantities(resources, key, name_error)
    limits, requests = amounts(resources, "limits"), amounts(resources, "requests")
    for name, request in requests.items():
        yield from _against_limit(resources, name, request, limits.get(name))
    yield from check_huge_pages(resources, limits | requests)


def check_huge_pages(resources: View, asked: Amounts) -> Iterator[Finding]:
    if any(name.startswith(HUGE_PAGES) for name in asked) and not asked.keys() & {"cpu", "memory"}:
        yield Finding(resources.at, "huge pages need a request or limit of cpu or memory beside them")


def check_quantities(view: View, key: str, name_error: Callable[[str], str]) -> Iterator[Finding]:
    """A map of resources to amounts."""
    for at, name, value in view.pairs(key):
        if error := name_error(name):
            yield Finding(at, error, name, _name_hint(name))
        quantity = read_quantity(value, at)
        if isinstance(quantity, Finding):
            yield quantity
        elif quantity is not None and (error := _amount_error(name, quantity)):
            yield Finding(at, error, value)


def amounts(view: View, key: str) -> Amounts:
    """The amounts that can be read, in thousandths."""
    read = {name: read_quantity(value, at) for at, name, value in view.pairs(key)}
    return {name: quantity for name, quantity in read.items() if isinstance(quantity, Quantity)}


def container_resource_error(name: str) -> str:
    if error := qualified_name_error(name):
        return error
    if "/" not in name:
        known = name in STANDARD or name.startswith(HUGE_PAGES)
        return "" if known else _NAME_RULE
    if _is_native(name) or is_extended(name):
        return ""
    return "must not begin with 'requests.', and be short enough to put that before it"


def pod_resource_error(name: str) -> str:
    if name in _POD_LEVEL or name.startswith(HUGE_PAGES):
        return qualified_name_error(name)
    return "must be cpu, memory or hugepages-<size> for a whole pod"


def is_extended(name: str) -> bool:
    """A device or other resource with a domain of its own; it cannot be shared or divided."""
    return not _is_native(name) and not name.startswith("requests.") and not qualified_name_error(f"requests.{name}")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _may_be_overcommitted(name: str) -> bool:
    return _is_native(name) and not name.startswith(HUGE_PAGES)


def _name_hint(name: str) -> str:
    if name.casefold() in {"gpu", "gpus"}:
        return "did you mean nvidia.com/gpu?"
    return did_you_mean(name, STANDARD)


def _amount_error(name: str, quantity: Quantity) -> str:
    if quantity.is_negative:
        return "must be 0 or more"
    if is_extended(name) and quantity.milli_value() % _MILLI:
        return "must be a whole number"
    if name.startswith(HUGE_PAGES) and not _fills_pages(name, quantity):
        return f"must be a multiple of the page size in {name}"
    return ""


def _fills_pages(name: str, quantity: Quantity) -> bool:
    page = read_quantity(name.removeprefix(HUGE_PAGES), Path())
    if not isinstance(page, Quantity) or page.nanos <= 0 or page.milli_value() % _MILLI:
        return False
    return quantity.value() % page.value() == 0


def _against_limit(resources: View, name: str, request: Quantity, limit: Quantity | None) -> Iterator[Finding]:
    at = resources.at / "requests" / name
    if limit is None:
        if not _may_be_overcommitted(name) and name not in resources.part("limits").value:
            message = f"is required, because {name} cannot be promised to more than one"
            yield Finding(resources.at / "limits" / name, message, hint=f"set it to {request}, as in the requests")
    elif not _may_be_overcommitted(name) and request.milli_value() != limit.milli_value():
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


def check_pod_resources(spec: View) -> Iterator[Finding]:
    yield from check_quantities(spec, "overhead", container_resource_error)
    yield from check_huge_pages(spec.part("overhead"), amounts(spec, "overhead"))
    resources = spec.child("resources")
    if resources is None:
        return
    if spec.part("os").text("name") == "windows":
        yield spec.missing("resources", "cannot be set for a windows pod")
        return
    # An empty list is refused, too.
    if resources.has("claims"):
        yield resources.missing("claims", "belong to a container, not to the whole pod")
    yield from check_amounts(resources, pod_resource_error)
    yield from _consistent(spec, resources)


def _consistent(spec: View, resources: View) -> Iterator[Finding]:
    asked, limits = amounts(resources, "requests"), amounts(resources, "limits")
    for name, total in _totals(spec, "requests").items():
        if name in asked and total > asked[name]:
            message = f"must not be below what the containers ask for together, which is {total}"
            yield Finding(resources.at / "requests" / name, message, str(asked[name]))
    for name, total in _totals(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in limits and total > limits[name]:
            message = f"must not be below the containers' limits together, which are {total}"
            yield Finding(resources.at / "limits" / name, message, str(limits[name]))
    for container in spec.children("containers"):
        own = container.part("resources")
        for name, limit in amounts(own, "limits").items():
            if name in limits and limit > limits[name]:
                message = f"must not be above the pod's limit, which is {limits[name]}"
                yield Finding(own.at / "limits" / name, message, str(limit))


def _totals(spec: View, key: str) -> Amounts:
    total: Amounts = {}
    for container in spec.children("containers"):
        total = _sum(total, _of(container, key))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.children("initContainers"):
        own = _of(container, key)
        if container.text("restartPolicy") == "Always":
            sidecars = _sum(sidecars, own)
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, _sum(own, sidecars))
    return _larger(_sum(total, sidecars), peak)


def _of(container: View, key: str) -> Amounts:
    """What a container asks for; where it has only a limit, that is its request too."""
    resources = container.part("resources")
    return amounts(resources, "limits") | amounts(resources, key)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, Quantity()) + right.get(name, Quantity()) for name in (*left, *right)}


def _larger(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Quantity()), right.get(name, Quantity())) for name in (*left, *right)}

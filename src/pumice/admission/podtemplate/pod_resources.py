"""Resources of a whole pod: no less than what its containers add up to.

Init containers run one after another, so the largest counts; sidecars (init containers that always restart) stay and
count beside everything that starts after them.
"""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.resources import (
    HUGE_PAGES,
    Amounts,
    amounts,
    check_amounts,
    check_huge_pages,
    check_quantities,
    container_resource_fault,
    pod_resource_fault,
)
from pumice.model.findings import Finding
from pumice.model.quantity import Quantity


def check_pod_resources(spec: View) -> Iterator[Finding]:
    yield from check_quantities(spec, "overhead", container_resource_fault)
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
    yield from check_amounts(resources, pod_resource_fault)
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

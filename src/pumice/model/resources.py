"""Resources of a pod: what a ResourceQuota charges for it, and the limits that MPI slots derive from.

The template counts as written, without the defaults of the API server: a container with limits alone adds no requests.
The rules are those of Kubernetes 1.37 (its quota evaluator for pods, with pod-level resources, which are on by
default), and Volcano's for the bare names of extended resources. Ill-formed values count as absent, because admission
reports them; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from pumice.model.quantity import Quantity
from pumice.model.syntax import qualified_name_error

Usage: TypeAlias = dict[str, Quantity]

GPU: Final = "nvidia.com/gpu"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_ONE: Final = Quantity.parse(1)


def pod_usage(spec: Mapping[str, object]) -> Usage:
    """Return the usage of one pod, by the names that a ResourceQuota and a PodGroup use."""
    spec = _mapping(spec)
    requests, limits = _pod_requests(spec), _pod_limits(spec)
    usage = {"pods": _ONE, "count/pods": _ONE}
    for name, quantity in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES) or is_extended(name):
            usage[name] = usage[_REQUESTS + name] = quantity
        elif name.startswith("deviceclass.resource.kubernetes.io/"):
            usage[_REQUESTS + name] = quantity
    for name in _COMPUTE:
        if name in limits:
            usage[_LIMITS + name] = limits[name]
    return dict(sorted(usage.items()))


def sum_usage(parts: Iterable[tuple[Mapping[str, Quantity], int]]) -> Usage:
    """Return the sum of usages, each times a number of pods; a number of 0 adds no names."""
    total: Usage = {}
    for usage, count in parts:
        if count > 0:
            _add(total, {name: quantity * count for name, quantity in usage.items()})
    return dict(sorted(total.items()))


def resource_list(owner: Mapping[str, object], kind: str) -> Usage:
    """Return the `requests` or `limits` (`kind`) of a container or pod spec, without ill-formed quantities."""
    return _quantities(_mapping(_mapping(owner).get("resources")).get(kind))


def gpu_limit(container: Mapping[str, object]) -> int | None:
    """Return how many GPUs, or slices of one, the container may use; None if none."""
    limits = resource_list(container, "limits")
    # A slice of a GPU (MIG) is a device of its own, with one resource name per size.
    names = [name for name in limits if name.endswith("/gpu") or name.startswith("nvidia.com/mig-")]
    return sum(_whole(limits[name]) for name in names) or None


def cpu_limit(container: Mapping[str, object]) -> int | None:
    """Return how many whole CPUs the container may use; None if it has no limit or less than one."""
    return _whole(resource_list(container, "limits").get("cpu", Quantity())) or None


def _whole(quantity: Quantity) -> int:
    return max(0, quantity.floor())


def _pod_requests(spec: Mapping[str, object]) -> Usage:
    total = containers_total(spec, "requests") | _pod_level(spec, "requests")
    _add(total, _quantities(spec.get("overhead")))
    return total


def _pod_limits(spec: Mapping[str, object]) -> Usage:
    total = containers_total(spec, "limits") | _pod_level(spec, "limits")
    # A limit of zero means no limit; the overhead of the runtime does not turn it into one.
    overhead = _quantities(spec.get("overhead"))
    _add(total, {name: quantity for name, quantity in overhead.items() if name in total and not total[name].is_zero})
    return total


def containers_total(spec: Mapping[str, object], kind: str) -> Usage:
    """Return the peak usage of the pod: one of its init containers, or all of its containers at once.

    A sidecar (an init container with restartPolicy Always) counts from its start to the end of the pod.
    """
    running: Usage = {}
    for container in _mappings(spec.get("containers")):
        _add(running, resource_list(container, kind))
    sidecars: Usage = {}
    starting: Usage = {}
    for container in _mappings(spec.get("initContainers")):
        own = resource_list(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(running, own)
            _add(sidecars, own)
            _raise_to(starting, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(starting, own)
    _raise_to(running, starting)
    return running


def _pod_level(spec: Mapping[str, object], kind: str) -> Usage:
    """Return the pod-level resources, which replace the sum over the containers."""
    quantities = resource_list(spec, kind)
    return {
        name: quantity for name, quantity in quantities.items() if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
    }


def is_extended(name: str) -> bool:
    """Return whether the resource is an extended one, such as `nvidia.com/gpu`."""
    return (
        "/" in name
        and "kubernetes.io/" not in name
        and not name.startswith(_REQUESTS)
        and not qualified_name_error(_REQUESTS + name)
    )


def _add(total: Usage, quantities: Usage) -> None:
    for name, quantity in quantities.items():
        total[name] = total.get(name, Quantity()) + quantity


def _raise_to(total: Usage, quantities: Usage) -> None:
    for name, quantity in quantities.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


def _quantities(value: object) -> Usage:
    quantities: Usage = {}
    for name, found in _mapping(value).items():
        try:
            quantities[str(name)] = Quantity.parse(found)
        except ValueError:
            continue
    return quantities


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    return (_mapping(item) for item in value) if isinstance(value, list) else iter(())


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}

"""What a pod template asks for: what a ResourceQuota would charge for a pod, and the limits that slots are counted by.

The template is taken as it is written, without the defaults of the API server: a container with limits alone adds no
requests. The rules are those of Kubernetes 1.37 (its quota evaluator for pods, with pod-level resources, which are on
by default), and Volcano's for the bare names of extended resources. What is ill-formed counts as absent: telling the
author is the work of admission, and nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from pumice.model.quantity import Quantity
from pumice.model.syntax import qualified_name_error

Usage: TypeAlias = dict[str, Quantity]

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_ONE: Final = Quantity.parse(1)


def pod_usage(spec: Mapping[str, object]) -> Usage:
    """What one pod with this spec counts for, by the names that a ResourceQuota and a PodGroup use."""
    spec = _mapping(spec)
    requests, limits = _pod_requests(spec), _pod_limits(spec)
    usage = {"pods": _ONE, "count/pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES) or _is_extended(name):
            usage[name] = usage[_REQUESTS + name] = amount
        elif name.startswith("deviceclass.resource.kubernetes.io/"):
            usage[_REQUESTS + name] = amount
    for name in _COMPUTE:
        if name in limits:
            usage[_LIMITS + name] = limits[name]
    return dict(sorted(usage.items()))


def sum_usage(parts: Iterable[tuple[Mapping[str, Quantity], int]]) -> Usage:
    """The usage of so many pods of each kind; a kind of which there are none leaves no names behind."""
    total: Usage = {}
    for usage, count in parts:
        if count > 0:
            _add(total, {name: amount * count for name, amount in usage.items()})
    return dict(sorted(total.items()))


def resource_list(owner: Mapping[str, object], kind: str) -> Usage:
    """Return the `requests` or `limits` (`kind`) of a container or pod spec, without ill-formed quantities."""
    return _amounts(_mapping(_mapping(owner).get("resources")).get(kind))


def gpu_limit(container: Mapping[str, object]) -> int | None:
    """How many GPUs, or slices of one, the container may use; None if none."""
    limits = resource_list(container, "limits")
    # A slice of a GPU is a device of its own, one resource name a size.
    names = [name for name in limits if name.endswith("/gpu") or name.startswith("nvidia.com/mig-")]
    return sum(_whole(limits[name]) for name in names) or None


def cpu_limit(container: Mapping[str, object]) -> int | None:
    """How many whole CPUs the container may use; None if it has no limit or less than one."""
    return _whole(resource_list(container, "limits").get("cpu", Quantity())) or None


def _whole(amount: Quantity) -> int:
    return max(0, amount.floor())


def _pod_requests(spec: Mapping[str, object]) -> Usage:
    total = _containers_total(spec, "requests") | _pod_level(spec, "requests")
    _add(total, _amounts(spec.get("overhead")))
    return total


def _pod_limits(spec: Mapping[str, object]) -> Usage:
    total = _containers_total(spec, "limits") | _pod_level(spec, "limits")
    # A limit of zero means no limit, and no limit stays none, whatever the runtime itself uses.
    overhead = _amounts(spec.get("overhead"))
    _add(total, {name: amount for name, amount in overhead.items() if name in total and not total[name].is_zero})
    return total


def _containers_total(spec: Mapping[str, object], kind: str) -> Usage:
    """What the pod needs at its most demanding moment: one of its init containers, or all of its containers at once.

    A sidecar (an init container that is always restarted) counts from its start on, to the end.
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
    """What the spec sets for the pod as a whole, in place of the sum of its containers."""
    amounts = resource_list(spec, kind)
    return {name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)}


def _is_extended(name: str) -> bool:
    """Whether the resource comes from a device plugin, like `nvidia.com/gpu`."""
    return (
        "/" in name
        and "kubernetes.io/" not in name
        and not name.startswith(_REQUESTS)
        and not qualified_name_error(_REQUESTS + name)
    )


def _add(total: Usage, amounts: Usage) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, Quantity()) + amount


def _raise_to(total: Usage, amounts: Usage) -> None:
    for name, amount in amounts.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _amounts(value: object) -> Usage:
    amounts: Usage = {}
    for name, found in _mapping(value).items():
        try:
            amounts[str(name)] = Quantity.parse(found)
        except ValueError:
            continue
    return amounts


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    return (_mapping(item) for item in value) if isinstance(value, list) else iter(())


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}

"""Checks whether pods fit this machine, and what is short; divides a pod's GPUs among its containers.

Where a container has only limits, they are its requests, as in an API server.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Option
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, Usage, pod_usage, resource_list
from pumice.model.units import amount_text
from pumice.store.run_errors import Unsupported

_CORE: Final = ("cpu", "memory")
_OF_CONTAINER: Final = ("resources", "restartPolicy")  # the fields on which its requests depend
# A pod has three namespaces; a container has two pipes and a log file or, in job-init, a process.
_FILES_OF_POD: Final = 3
_FILES_OF_CONTAINER: Final = 4
_FILES_OF_ENGINE: Final = 96
# For connections through the proxy and to published ports, as far as the hard limit allows.
_CONNECTIONS: Final = 1024


def pod_requests(spec: Manifest) -> Usage:
    """Return what a pod takes of the machine: cpu, memory and extended resources."""
    resources: Manifest = {key: spec[key] for key in ("resources", "overhead") if key in spec}
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind) or []
        resources[kind] = [{key: each[key] for key in _OF_CONTAINER if key in each} for each in containers]
    return dict(_requests(msgspec.json.encode(resources)))


@lru_cache(maxsize=64)
def _requests(resources: bytes) -> Usage:
    """Return the requests of a pod spec: computed once for all pods of a task, several times in a run."""
    spec: Manifest = msgspec.json.decode(resources)
    filled: Manifest = {**_with_requests(spec)}
    for kind in ("containers", "initContainers"):
        filled[kind] = [_with_requests(container) for container in spec[kind]]
    usage = pod_usage(filled)
    return {
        name: amount
        for name, amount in usage.items()
        # Of the others, only extended resources are of a machine.
        if name in _CORE or ("/" in name and not name.startswith(("count/", "requests.", "limits.")))
        if not amount.is_zero and not amount.is_negative
    }


class Row(Struct, frozen=True):
    """One resource: what the gang requests in total, and what is free."""

    name: str
    requested: Quantity
    free: Quantity

    @property
    def short(self) -> Quantity:
        return max(self.requested - self.free, Quantity())


class Fit(Struct, frozen=True):
    pods: int  # that must run at once
    fitting: int  # how many of them fit at once
    rows: tuple[Row, ...]

    @property
    def fits(self) -> bool:
        return self.fitting == self.pods

    @property
    def short(self) -> tuple[str, ...]:
        """Return the names of the resources that are short."""
        return tuple(row.name for row in self.rows if not row.short.is_zero)


def fit(gang: Sequence[Mapping[str, Quantity]], free: Mapping[str, Quantity]) -> Fit:
    """Check whether all pods fit at once. Of an unknown resource nothing is free."""
    left = dict(free)
    fitting = 0
    total: Usage = {}
    for usage in gang:
        if all(amount <= left.get(name, Quantity()) for name, amount in usage.items()):
            fitting += 1
            left.update({name: left[name] - amount for name, amount in usage.items()})
        for name, amount in usage.items():
            total[name] = total.get(name, Quantity()) + amount
    ordered = sorted(total.items(), key=lambda item: (item[0] not in _CORE, item[0]))
    return Fit(len(gang), fitting, tuple(Row(name, amount, free.get(name, Quantity())) for name, amount in ordered))


def shortfall(fit: Fit) -> list[str]:
    """Return a table of what is wanted, free and short."""
    cells = [("", "wanted", "free", "short")]
    for row in fit.rows:
        wanted, free, short = (amount_text(row.name, each, ".2f") for each in (row.requested, row.free, row.short))
        cells.append((row.name, wanted, free, "-" if row.short.is_zero else short))
    names, *numbers = (max(map(len, column)) for column in zip(*cells, strict=True))
    widths = [max(width, 7) + 2 for width in numbers]
    return [
        f"  {name:<{names}}" + "".join(f"{cell:>{width}}" for cell, width in zip(amounts, widths, strict=True))
        for name, *amounts in cells
    ]


def container_gpus(container: Manifest) -> int:
    """Return how many whole GPUs the container requests."""
    amounts = resource_list(container, "limits") | resource_list(container, "requests")
    return max(0, amounts.get(GPU, Quantity()).value())


def gpu_shares(spec: Manifest, gpus: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the GPUs of each container. Init containers end before the others start, so they may use the same ones."""
    shares: dict[str, tuple[str, ...]] = {}
    used = 0  # by sidecars and containers, which keep running
    for container in all_containers(spec):
        count = container_gpus(container)
        shares[str(container["name"])] = tuple(gpus[used : used + count])
        if container.get("restartPolicy") == "Always" or container in spec["containers"]:
            used += count
    return shares


def gpu_env(ids: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"), ",".join(ids))


def _with_requests(owner: Manifest) -> Manifest:
    """Return the container, or the pod spec, with limits as the default of requests."""
    resources: Mapping[str, Any] = owner.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return {**owner, "resources": {**resources, "requests": {**limits, **requests}}} if limits else owner


def pods_and_containers(manifests: Sequence[Manifest]) -> tuple[int, int]:
    return len(manifests), sum(len(all_containers(manifest["spec"])) for manifest in manifests)


def needed_files(pods: int, containers: int) -> int:
    return _FILES_OF_ENGINE + _FILES_OF_POD * pods + _FILES_OF_CONTAINER * containers


def check_open_files(pods: int, containers: int) -> None:
    """Raise Unsupported if the job would exceed the hard limit while it runs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = needed_files(pods, containers)
    if hard != resource.RLIM_INFINITY and needed > hard:
        hint = f"raise the hard limit (ulimit -n {needed}, as root), or run fewer pods with "
        message = f"{pods} pods need {needed} open files, and a process may have {hard} here"
        raise Unsupported(message, (hint, Option("scale")))


def raise_open_files_limit(pods: int, containers: int) -> None:
    """Raise the soft limit, which is often 1,024, to what the job needs, at most to the hard limit.

    Call it after the sandbox has started, so that containers keep the user's limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed_files(pods, containers) + _CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

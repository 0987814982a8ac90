"""What a container may use of the machine, and do: limits as the sandbox takes them, CPUs, threads, capabilities.

Each restriction of its securityContext is applied, or the run is refused. Fields of a pod that have no effect on this
machine are warned of. Others are supported, or make no difference on a single machine (tolerations, say); the test
lists these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.sandbox.specs import CAPABILITIES, DEFAULT_CAPABILITIES
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Problem
from pumice.model.resources import resource_list

_PROFILES: Final = {
    "seccompProfile": "RuntimeDefault stands for the filter that every container has",
    "appArmorProfile": "leave it out, or run the job on a cluster",
}
UNSUPPORTED: Final[Mapping[str, Mapping[str, str]]] = {
    "PodSpec": {
        "enableServiceLinks": "there are no variables for Services; their names resolve",
        "ephemeralContainers": "containers cannot be added to a running pod",
        "hostIPC": "the pod has its own IPC namespace",
        "hostNetwork": "the pod has its own network and address",
        "hostPID": "the pod sees only its own processes",
        "readinessGates": "nothing sets these conditions, so they do not delay the pod",
        "resourceClaims": "only nvidia.com/gpu devices are assigned",
        "runtimeClassName": "there is only one runtime",
        "schedulingGates": "nothing removes gates, so they do not delay the pod",
    },
    "PodSecurityContext": {
        "appArmorProfile": "no profile is loaded",
        "seLinuxOptions": "no labels are set",
        "seccompProfile": "the filter stays; only --unconfined lifts it",
        "sysctls": "the kernel's values are not changed",
        "windowsOptions": "this is not Windows",
    },
    "Container": {
        "resizePolicy": "running containers are not resized",
        "stdin": "the container reads an empty input",
        "tty": "the output goes to a log, not to a terminal",
        "volumeDevices": "block devices are not passed to containers",
    },
    "SecurityContext": {
        "appArmorProfile": "no profile is loaded",
        "capabilities.add": "beyond the default ones only NET_RAW is granted",
        "privileged": "containers get no privileges on the machine",
        "procMount": "/proc stays masked",
        "seLinuxOptions": "no labels are set",
        "seccompProfile": "the filter stays; only --unconfined lifts it",
        "windowsOptions": "this is not Windows",
    },
    "Probe": {"grpc": "only checks whether the port is open"},
    "VolumeMount": {
        "bindMountOptions": "the mount has the default options",
        "mountPropagation": "mounts made on one side do not appear on the other",
    },
    "ContainerPort": {"hostPort": "no port of the machine is opened; use --publish"},
}
# Values that describe what happens anyway.
_HARMLESS: Final[Mapping[str, tuple[object, ...]]] = {
    "seccompProfile": ({"type": "RuntimeDefault"},),
    "appArmorProfile": ({"type": "RuntimeDefault"}, {"type": "Unconfined"}),
    "mountPropagation": ("None",),
    "procMount": ("Default",),
}


def memory_limit(container: Manifest) -> int | None:
    limit = resource_list(container, "limits").get("memory")
    return None if limit is None else limit.value()


def cpu_limit(container: Manifest) -> float | None:
    """Return how many CPUs the container may keep busy, possibly a fraction; None without a limit."""
    limit = resource_list(container, "limits").get("cpu")
    return None if limit is None else limit.milli_value() / 1000


def threads_env(container: Manifest) -> dict[str, str]:
    """Limit OpenMP to the container's CPUs: libraries start one thread per CPU of the machine otherwise."""
    amounts = resource_list(container, "requests") | resource_list(container, "limits")
    return {"OMP_NUM_THREADS": str(max(1, amounts["cpu"].ceil()))} if "cpu" in amounts else {}


class Processors(Struct):
    """Binds containers to CPUs where the kernel does not enforce a CPU limit."""

    numbers: Sequence[int]
    _bound: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _load: dict[int, int] = field(default_factory=dict)

    def bind(self, container: str, count: int) -> tuple[int, ...]:
        """Return the least used CPUs, the same for each start of a container; () if it may use all of them.

        `container` is unique in the job, as `POD/CONTAINER`.
        """
        if count >= len(self.numbers):
            return ()
        if container not in self._bound:
            chosen = sorted(self.numbers, key=lambda number: self._load.get(number, 0))[:count]
            for number in chosen:
                self._load[number] = self._load.get(number, 0) + 1
            self._bound[container] = tuple(sorted(chosen))
        return self._bound[container]


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
    for kind, hint in _PROFILES.items():
        profile: Mapping[str, Any] = next((each[kind] for each in reversed(contexts) if each.get(kind)), {})
        if profile.get("type") == "Localhost":
            name = profile.get("localhostProfile")
            yield Problem(f"securityContext.{kind}: the profile {name} is not on this machine", hint)


def _security_context(container: Manifest) -> Mapping[str, Any]:
    return container.get("securityContext") or {}


def unsupported_fields(manifest: Manifest) -> list[str]:
    """Return one warning per unsupported field: `hostNetwork: the pod has its own network and address`."""
    spec = manifest.get("spec") or {}
    found = [
        *_warnings("PodSpec", spec, ""),
        *_warnings("PodSecurityContext", spec.get("securityContext"), "securityContext."),
    ]
    for container in all_containers(spec):
        at = f"container {container.get('name')}: "
        found += _warnings("Container", container, at)
        found += _warnings("SecurityContext", container.get("securityContext"), f"{at}securityContext.")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            found += _warnings("Probe", container.get(probe), f"{at}{probe}.")
        for mount in container.get("volumeMounts") or []:
            found += _warnings("VolumeMount", mount, f"{at}volumeMounts: {mount.get('name')}: ")
        for port in container.get("ports") or []:
            found += _warnings("ContainerPort", port, f"{at}ports: {port.get('containerPort')}: ")
    return list(dict.fromkeys(found))


def _warnings(kind: str, value: Mapping[str, Any] | None, at: str) -> Iterator[str]:
    for path, reason in UNSUPPORTED[kind].items():
        parent, _, name = path.rpartition(".")
        owner = value or {}
        found = ((owner.get(parent) or {}) if parent else owner).get(name)
        if path == "capabilities.add" and grants_all(found or ()):
            continue
        if found and found not in _HARMLESS.get(path, ()):
            yield f"{at}{path}: {reason}"

"""Warns of fields of a pod that have no effect on this machine.

Other fields are supported, or make no difference on a single machine (tolerations, say); the test lists these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, Final

from pumice.engines.local.container_spec.restrictions import grants_all
from pumice.model.job import Manifest
from pumice.model.pod import all_containers

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
    for field, reason in UNSUPPORTED[kind].items():
        *outer, name = field.split(".")
        found = reduce(lambda inner, key: inner.get(key) or {}, outer, value or {}).get(name)
        if field == "capabilities.add" and grants_all(found or ()):
            continue
        if found and found not in _HARMLESS.get(field, ()):
            yield f"{at}{field}: {reason}"

"""Every field of a pod that has no effect on this machine, with the reason; everything else is honoured.

`TOLD` are those whose absence somebody may notice: they are named in a warning. `MOOT` are those that ask for nothing
that one machine without a cluster could give or deny, so that nobody misses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pumice.model.job import Manifest
from pumice.model.pod import all_containers

TOLD: Final[Mapping[str, Mapping[str, str]]] = {
    "PodSpec": {
        "enableServiceLinks": "no variables are made for Services; their names resolve",
        "ephemeralContainers": "a running pod takes no more containers",
        "hostIPC": "the pod has its own IPC namespace",
        "hostNetwork": "the pod has its own network and address",
        "hostPID": "the pod sees its own processes only",
        "readinessGates": "nobody sets the conditions, so they do not hold the pod back",
        "resourceClaims": "devices are only given out as nvidia.com/gpu",
        "runtimeClassName": "there is one runtime",
        "schedulingGates": "nobody removes gates, so they do not hold the pod back",
    },
    "PodSecurityContext": {
        "appArmorProfile": "no profile is loaded",
        "seLinuxOptions": "no labels are set",
        "seccompProfile": "no filter is loaded",
        "sysctls": "the kernel's values stay as they are",
        "windowsOptions": "this is not Windows",
    },
    "Container": {
        "resizePolicy": "a running container is not resized",
        "stdin": "the container reads from an empty input",
        "tty": "the output goes to a log, not to a terminal",
        "volumeDevices": "block devices are not given to containers",
    },
    "SecurityContext": {
        "appArmorProfile": "no profile is loaded",
        "capabilities.add": "no capability beyond the usual ones is granted",
        "privileged": "no container gets power over the machine",
        "procMount": "/proc stays masked",
        "seLinuxOptions": "no labels are set",
        "seccompProfile": "no filter is loaded",
        "windowsOptions": "this is not Windows",
    },
    "Probe": {
        "grpc": "only whether the port is open is asked",
    },
    "VolumeMount": {
        "bindMountOptions": "the mount has the usual options",
        "mountPropagation": "mounts made on one side do not appear on the other",
    },
    "ContainerPort": {
        "hostPort": "no port of the machine is opened; use --publish",
    },
}

MOOT: Final[Mapping[str, Mapping[str, str]]] = {
    "PodSpec": {
        "affinity": "there is one node",
        "automountServiceAccountToken": "there is no API server to log in to",
        "dnsPolicy": "names of the job come from /etc/hosts; None is honoured",
        "evictionResponders": "nothing is evicted",
        "hostUsers": "pods are in a user namespace anyway",
        "imagePullSecrets": "no registry is asked",
        "nodeName": "there is one node",
        "nodeSelector": "there is one node",
        "os": "it is this machine's",
        "preemptionPolicy": "nothing is preempted",
        "priority": "nothing is preempted",
        "priorityClassName": "nothing is preempted",
        "schedulerName": "the engine places the pods",
        "schedulingGroup": "the engine places the pods",
        "serviceAccount": "there is no API server to log in to",
        "serviceAccountName": "there is no API server to log in to",
        "tolerations": "there is one node, without taints",
        "topologySpreadConstraints": "there is one node",
    },
    "PodSecurityContext": {
        "fsGroupChangePolicy": "goes with fsGroup",
        "seLinuxChangePolicy": "goes with seLinuxOptions",
        "supplementalGroupsPolicy": "groups of the image's /etc/group are not looked up",
    },
    "Container": {
        "imagePullPolicy": "no registry is asked",
        "stdinOnce": "goes with stdin",
        "terminationMessagePolicy": "who leaves no message is known by the last line of its log",
    },
    "SecurityContext": {
        "allowPrivilegeEscalation": "no container can gain power over the machine",
        "capabilities.drop": "what is left has no power over the machine",
    },
    "VolumeMount": {
        "recursiveReadOnly": "a read-only mount is always read-only all the way down",
    },
    "ContainerPort": {
        "hostIP": "goes with hostPort",
        "name": "names are for Services and probes",
        "protocol": "any port can be used, declared or not",
    },
}

# Values that ask for what is the case anyway.
_HARMLESS: Final[Mapping[str, tuple[object, ...]]] = {
    "seccompProfile": ({"type": "RuntimeDefault"}, {"type": "Unconfined"}),
    "appArmorProfile": ({"type": "RuntimeDefault"}, {"type": "Unconfined"}),
    "mountPropagation": ("None",),
    "procMount": ("Default",),
    "capabilities.add": ([],),
}


def unsupported_fields(manifest: Manifest) -> list[str]:
    """What this pod asks for and does not get, each once: `hostNetwork: the pod has its own network and address`."""
    spec = manifest.get("spec") or {}
    found = [*_told("PodSpec", spec, ""), *_told("PodSecurityContext", spec.get("securityContext"), "securityContext.")]
    for container in all_containers(spec):
        found += _of_container(container)
    return list(dict.fromkeys(found))


def _of_container(container: Manifest) -> Iterator[str]:
    at = f"container {container.get('name')}: "
    yield from _told("Container", container, at)
    yield from _told("SecurityContext", container.get("securityContext"), f"{at}securityContext.")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        yield from _told("Probe", container.get(probe), f"{at}{probe}.")
    for mount in container.get("volumeMounts") or []:
        yield from _told("VolumeMount", mount, f"{at}volumeMounts: {mount.get('name')}: ")
    for port in container.get("ports") or []:
        yield from _told("ContainerPort", port, f"{at}ports: {port.get('containerPort')}: ")


def _told(kind: str, value: Mapping[str, Any] | None, at: str) -> Iterator[str]:
    for field, reason in TOLD[kind].items():
        found = _get(value or {}, field)
        if found and found not in _HARMLESS.get(field, ()):
            yield f"{at}{field}: {reason}"


def _get(value: Mapping[str, Any], field: str) -> Any:
    head, _, rest = field.partition(".")
    return _get(value.get(head) or {}, rest) if rest else value.get(head)

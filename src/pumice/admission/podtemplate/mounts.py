"""Mounts and devices of a container: each names a volume of the pod, and paths are unique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pumice.admission.podtemplate.checks import descending_path, no_backsteps, one_of, required, unique
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding, Path
from pumice.model.suggestions import did_you_mean

_PROPAGATIONS: Final = ("None", "HostToContainer", "Bidirectional")
_RECURSIONS: Final = ("Disabled", "IfPossible", "Enabled")
_OPTIONS: Final = ("noexec", "nodev", "nosuid")


def check_mounts(container: View, volumes: Mapping[str, str]) -> Iterator[Finding]:
    devices, mounts = container.children("volumeDevices"), container.children("volumeMounts")
    taken: dict[str, Path] = {}
    for mount in mounts:
        yield from _check_volume_name(mount, volumes)
        yield from required(mount, "mountPath")
        yield from unique(taken, mount.text("mountPath"), mount.at / "mountPath", "this path")
        if ":" in mount.text("mountPath"):
            yield mount.warning("mountPath", "container runtimes refuse a path with ':' in it")
        yield from descending_path(mount, "subPath")
        yield from descending_path(mount, "subPathExpr")
        if mount.text("subPath") and mount.text("subPathExpr"):
            yield mount.error("subPathExpr", "cannot be set together with subPath")
        yield from _check_propagation(mount, privileged=container.part("securityContext").flag("privileged"))
        seen: dict[str, Path] = {}
        for at, option in mount.texts("bindMountOptions"):
            if option not in _OPTIONS:
                yield Finding(at, "must be noexec, nodev or nosuid", option, did_you_mean(option, _OPTIONS))
            yield from unique(seen, option, at, "this option")
        name = mount.text("name")
        if seen and volumes.get(name) == "image":
            yield mount.missing("bindMountOptions", "cannot be used with an image volume")
    mounted = {mount.text("name"): mount.at for mount in mounts}
    for device in devices:
        yield from _check_device(device, volumes, mounted)
        yield from unique(taken, device.text("devicePath"), device.at / "devicePath", "this path")


def _check_volume_name(mount: View, volumes: Mapping[str, str]) -> Iterator[Finding]:
    yield from required(mount, "name")
    name = mount.text("name")
    if name and name not in volumes:
        hint = did_you_mean(name, volumes) or f"add a volume {name} to the volumes of the pod"
        yield mount.error("name", "no volume of the pod has this name", hint)


def _check_propagation(mount: View, *, privileged: bool) -> Iterator[Finding]:
    yield from one_of(mount, "mountPropagation", _PROPAGATIONS, blank_is_unset=False)
    if mount.text("mountPropagation") == "Bidirectional" and not privileged:
        yield mount.error("mountPropagation", "only a privileged container may have Bidirectional")
    yield from one_of(mount, "recursiveReadOnly", _RECURSIONS, blank_is_unset=False)
    if mount.text("recursiveReadOnly") in {"IfPossible", "Enabled"}:
        if not mount.flag("readOnly"):
            yield mount.error("recursiveReadOnly", "needs readOnly: true")
        if mount.text("mountPropagation") not in {"", "None"}:
            yield mount.error("recursiveReadOnly", "needs mountPropagation None")


def _check_device(device: View, volumes: Mapping[str, str], mounted: dict[str, Path]) -> Iterator[Finding]:
    yield from _check_volume_name(device, volumes)
    name = device.text("name")
    if volumes.get(name, "ephemeral") not in {"persistentVolumeClaim", "ephemeral"}:
        yield device.error("name", "must be a volume of type persistentVolumeClaim or ephemeral")
    yield from unique(mounted, name, device.at / "name", "this volume")
    yield from required(device, "devicePath")
    yield from no_backsteps(device, "devicePath")

"""Volumes outside the pod: on the node, the network or a cloud, of a driver, in an image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pumice.admission.podtemplate.checks import (
    descending_path,
    no_backsteps,
    one_of,
    required,
    required_spelled,
    within,
)
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding
from pumice.model.syntax import LONGEST_LABEL, dns_subdomain_error, too_long

# The required fields of each type; the functions below check the rest.
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": (),
    "flocker": (),
    "persistentVolumeClaim": ("claimName",),
    "rbd": (),
    "cinder": ("volumeID",),
    "cephfs": (),
    "quobyte": (),
    "fc": (),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": (),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": (),
    "scaleIO": (),
    "csi": ("driver",),
    "image": ("reference",),
}
STORAGE: Final = tuple(_REQUIRED)
# API servers still accept these, but no kubelet has the code to mount them any more.
_REMOVED: Final = frozenset(
    ("glusterfs", "flocker", "rbd", "cephfs", "quobyte", "photonPersistentDisk", "storageos", "scaleIO")
)
_NODE_TYPES: Final = ("DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_GREATEST_LUN: Final = 255
_LONGEST_PORTAL: Final = 64
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([a-z0-9-.]+)(:[^,;*&$|\s]+)|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{32}")


def check_storage(kind: str, source: View, volume: View) -> Iterator[Finding]:
    if kind in _REMOVED:
        message = "this volume type no longer exists in Kubernetes; a pod with it never starts"
        yield volume.warning(kind, message, "use a PersistentVolumeClaim of a CSI driver")
        return
    yield from required(source, *_REQUIRED[kind])
    yield from _check_common(source)
    check = _CHECKS.get(kind)
    if check is not None:
        yield from check(source)
    if kind == "iscsi" and source.has("initiatorName"):
        portal = f"{volume.text('name')}:{source.text('targetPortal')}"
        if len(portal) > _LONGEST_PORTAL:
            yield volume.error("name", f"with the targetPortal it must be at most {_LONGEST_PORTAL} characters")


def _check_common(source: View) -> Iterator[Finding]:
    yield from within(source, "partition", 0, _GREATEST_LUN)
    # For Fibre Channel, `_fc` checks the lun where Kubernetes does.
    if not source.has("wwids") and not source.has("targetWWNs"):
        yield from within(source, "lun", 0, _GREATEST_LUN)


def _host_path(source: View) -> Iterator[Finding]:
    yield from no_backsteps(source, "path")
    yield from one_of(source, "type", _NODE_TYPES)


def _git_repo(source: View) -> Iterator[Finding]:
    yield from descending_path(source, "directory")


def _nfs(source: View) -> Iterator[Finding]:
    path = source.text("path")
    if path and not path.startswith("/"):
        yield source.error("path", "must be an absolute path")


def _iscsi(source: View) -> Iterator[Finding]:
    for key in ("iqn", "initiatorName"):
        name = source.get(key)
        if isinstance(name, str) and (name or key == "initiatorName") and not _IQN.fullmatch(name):
            yield source.error(key, "must be a name such as iqn.2001-04.com.example:storage.disk1")
    if (source.flag("chapAuthDiscovery") or source.flag("chapAuthSession")) and not source.has("secretRef"):
        yield source.missing("secretRef", "is required for CHAP")


def _secret_name(source: View) -> Iterator[Finding]:
    if secret := source.child("secretRef"):
        yield from required(secret, "name")


def _fc(source: View) -> Iterator[Finding]:
    targets, ids = source.size("targetWWNs"), source.size("wwids")
    if bool(targets) == bool(ids):
        yield source.missing("targetWWNs", "must have exactly one of targetWWNs and wwids")
    if targets and not source.has("lun"):
        yield source.missing("lun", "is required with targetWWNs")
    if targets:
        yield from within(source, "lun", 0, _GREATEST_LUN)


def _flex_volume(source: View) -> Iterator[Finding]:
    for at, name, _ in source.pairs("options"):
        domain = f".{name.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            yield Finding(at, "the domains kubernetes.io and k8s.io are reserved", name)


def _azure_disk(source: View) -> Iterator[Finding]:
    yield from one_of(source, "cachingMode", ("None", "ReadOnly", "ReadWrite"), blank_is_unset=False)
    yield from one_of(source, "kind", ("Shared", "Dedicated", "Managed"), blank_is_unset=False)
    start = "/subscriptions/" if source.text("kind") == "Managed" else "https://"
    uri = source.text("diskURI")
    if uri and not uri.startswith(start):
        yield source.error("diskURI", f"must begin with {start} for this kind of disk")


def _csi(source: View) -> Iterator[Finding]:
    driver = source.text("driver")
    if driver and (error := too_long(driver, LONGEST_LABEL) or dns_subdomain_error(driver.lower())):
        yield source.error("driver", error)
    if secret := source.child("nodePublishSecretRef"):
        yield from required_spelled(secret, "name", dns_subdomain_error)


def _image(source: View) -> Iterator[Finding]:
    yield from one_of(source, "pullPolicy", _PULL_POLICIES)


_CHECKS: Final = {
    "hostPath": _host_path,
    "gitRepo": _git_repo,
    "nfs": _nfs,
    "iscsi": _iscsi,
    "cinder": _secret_name,
    "fc": _fc,
    "flexVolume": _flex_volume,
    "azureDisk": _azure_disk,
    "csi": _csi,
    "image": _image,
}

"""Volumes outside the pod: on the node, the network or a cloud, of a driver, in an image."""

from __future__ import annotations

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

# The required fields of each type; the function below checks the rest. iscsi, fc, flexVolume and azureDisk are left to
# the API server.
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
    "iscsi": (),
    "glusterfs": (),
    "flocker": (),
    "persistentVolumeClaim": ("claimName",),
    "rbd": (),
    "cinder": ("volumeID",),
    "cephfs": (),
    "quobyte": (),
    "fc": (),
    "flexVolume": (),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": (),
    "portworxVolume": ("volumeID",),
    "azureDisk": (),
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
_GREATEST_PARTITION: Final = 255


def check_storage(kind: str, source: View, volume: View) -> Iterator[Finding]:
    if kind in _REMOVED:
        message = "this volume type no longer exists in Kubernetes; a pod with it never starts"
        yield volume.warning(kind, message, "use a PersistentVolumeClaim of a CSI driver")
        return
    yield from required(source, *_REQUIRED[kind])
    yield from within(source, "partition", 0, _GREATEST_PARTITION)
    if kind == "hostPath":
        yield from no_backsteps(source, "path")
        yield from one_of(source, "type", _NODE_TYPES)
    elif kind == "gitRepo":
        yield from descending_path(source, "directory")
    elif kind == "nfs":
        path = source.text("path")
        if path and not path.startswith("/"):
            yield source.error("path", "must be an absolute path")
    elif kind == "cinder":
        if secret := source.child("secretRef"):
            yield from required(secret, "name")
    elif kind == "csi":
        yield from _check_csi(source)
    elif kind == "image":
        yield from one_of(source, "pullPolicy", _PULL_POLICIES)


def _check_csi(source: View) -> Iterator[Finding]:
    driver = source.text("driver")
    if driver and (error := too_long(driver, LONGEST_LABEL) or dns_subdomain_error(driver.lower())):
        yield source.error("driver", error)
    if secret := source.child("nodePublishSecretRef"):
        yield from required_spelled(secret, "name", dns_subdomain_error)

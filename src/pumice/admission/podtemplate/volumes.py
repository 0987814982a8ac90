"""Volumes of a pod: each has a unique name and one source with its required fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pumice.admission.podtemplate.checks import (
    at_most_one,
    descending_path,
    no_backsteps,
    one_of,
    required,
    required_spelled,
    unique,
    within,
)
from pumice.admission.podtemplate.claims import check_claim
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.files import check_downward_files, check_key_files, check_projected
from pumice.admission.podtemplate.metadata import check_labels_and_annotations
from pumice.admission.podtemplate.resources import read_quantity
from pumice.model.findings import Finding, Path
from pumice.model.quantity import Quantity
from pumice.model.syntax import LONGEST_LABEL, dns_label_error, dns_subdomain_error, too_long

_EMPTY: Final = "emptyDir"
_GREATEST_MODE: Final = 0o1777
# The required fields of each type outside of the pod; `_check_storage` checks the rest. iscsi, fc, flexVolume and
# azureDisk are left to the API server.
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
# In the order in which Kubernetes looks for them: the first of two counts.
_SOURCES: Final = (_EMPTY, *_REQUIRED, "secret", "configMap", "downwardAPI", "projected", "ephemeral")
# API servers still accept these, but no kubelet has the code to mount them any more.
_REMOVED: Final = frozenset(
    ("glusterfs", "flocker", "rbd", "cephfs", "quobyte", "photonPersistentDisk", "storageos", "scaleIO")
)
_NODE_TYPES: Final = ("DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_GREATEST_PARTITION: Final = 255


def _source_of(volume: View) -> str:
    """Return the type of a volume; without a source it is an emptyDir, as in Kubernetes."""
    return next((key for key in _SOURCES if volume.has(key)), _EMPTY)


def volume_kinds(spec: View) -> dict[str, str]:
    """Return the type of each volume by name."""
    return {volume.text("name"): _source_of(volume) for volume in spec.children("volumes")}


def check_volumes(spec: View) -> Iterator[Finding]:
    names: dict[str, Path] = {}
    for volume in spec.children("volumes"):
        yield from required_spelled(volume, "name", dns_label_error)
        yield from unique(names, volume.text("name"), volume.at / "name", "the name of a volume")
        yield from at_most_one(volume, _SOURCES, "source")
        kind = _source_of(volume)
        if kind == _EMPTY and _EMPTY not in volume.value:
            message = "has no source, so it will be an empty directory"
            yield volume.warning("name", message, "write emptyDir: {} if you want one")
        source = volume.child(kind)
        if source is not None:
            yield from _check_source(kind, source, volume)


def _check_source(kind: str, source: View, volume: View) -> Iterator[Finding]:
    if kind == _EMPTY:
        limit = read_quantity(source.get("sizeLimit"), source.at / "sizeLimit")
        if isinstance(limit, Finding):
            yield limit
        elif isinstance(limit, Quantity) and limit.is_negative:
            yield source.error("sizeLimit", "must be 0 or more")
        mode = source.number("mode")
        if mode is not None and not 0 <= mode <= _GREATEST_MODE:
            yield source.error("mode", f"must be from 0 to {_GREATEST_MODE}, which is 01777 in octal")
    elif kind == "secret":
        yield from check_key_files(source, "secretName")
    elif kind == "configMap":
        yield from check_key_files(source, "name")
    elif kind == "downwardAPI":
        yield from check_downward_files(source)
    elif kind == "projected":
        yield from check_projected(source)
    elif kind == "ephemeral":
        yield from _check_ephemeral(source)
    else:
        yield from _check_storage(kind, source, volume)


def _check_ephemeral(source: View) -> Iterator[Finding]:
    if not source.has("volumeClaimTemplate"):
        yield source.missing("volumeClaimTemplate")
    template = source.child("volumeClaimTemplate")
    if template is None:
        return
    metadata = template.part("metadata")
    yield from check_labels_and_annotations(metadata)
    for key in metadata.value:
        if isinstance(key, str) and key not in {"labels", "annotations"} and not metadata.is_blank(key):
            yield metadata.missing(key, "cannot be set: only labels and annotations can")
    yield from check_claim(template.part("spec"))


def _check_storage(kind: str, source: View, volume: View) -> Iterator[Finding]:
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

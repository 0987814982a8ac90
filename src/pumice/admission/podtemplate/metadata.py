"""Labels and annotations of a pod template, and the metadata that has no effect there.

The annotations for seccomp and AppArmor have no effect any more, but they must be well-formed and must not contradict
the fields of the security context that replaced them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.selectors import check_labels
from pumice.model.findings import Finding, Path
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import qualified_name_error

_USED: Final = ("labels", "annotations")
_LARGEST_ANNOTATIONS: Final = 256 * 1024
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_MIRROR: Final = "kubernetes.io/config.mirror"
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_BOUND: Final = 2**31


def check_labels_and_annotations(metadata: View) -> Iterator[Finding]:
    yield from check_labels(metadata, "labels")
    size = 0
    for at, name, value in metadata.pairs("annotations"):
        # Kubernetes checks the keys of annotations in lower case.
        if error := qualified_name_error(name.lower()):
            yield Finding(at, f"the key {error}", name)
        size += len(name.encode(errors="surrogatepass")) + len(str(value).encode(errors="surrogatepass"))
    if size > _LARGEST_ANNOTATIONS:
        yield metadata.missing("annotations", f"must be at most 256 KiB together, these are {-(-size // 1024)} KiB")


def check_metadata(template: View) -> Iterator[Finding]:
    """Check the metadata of a template, of which pods get only labels and annotations."""
    metadata = template.part("metadata")
    yield from check_labels_and_annotations(metadata)
    for key in metadata.value:
        if isinstance(key, str) and key not in _USED and metadata.has(key):
            yield metadata.warning(key, "has no effect in a pod template, where only labels and annotations count")
    yield from check_known_annotations(metadata, template.part("spec"))


def check_known_annotations(metadata: View, spec: View) -> Iterator[Finding]:
    containers = [container for container in spec.containers() if container.text("name")]
    names = [container.text("name") for container in containers]
    for at, key, value in metadata.pairs("annotations"):
        if not isinstance(value, str):
            continue
        if key == _DELETION_COST and not (re.fullmatch("0|-?[1-9][0-9]*", value) and -_BOUND <= int(value) < _BOUND):
            yield Finding(at, "must be a whole number of 32 bits", value)
        elif key == _MIRROR and spec.is_blank("nodeName"):
            yield Finding(at, "is for static pods of a node, and needs spec.nodeName", value)
        elif key.startswith(_APPARMOR):
            yield from _check_apparmor(at, key.removeprefix(_APPARMOR), value, names)
        elif key == _SECCOMP_POD or key.startswith(_SECCOMP):
            yield from _check_seccomp(at, value)
    yield from _check_agreement(metadata.part("annotations"), spec, containers)


def _check_apparmor(at: Path, container: str, profile: str, names: list[str]) -> Iterator[Finding]:
    if container not in names:
        yield Finding(at, "no container of the pod has this name", container, did_you_mean(container, names))
    if profile not in {"", "runtime/default", "unconfined"} and not profile.startswith("localhost/"):
        yield Finding(at, "must be runtime/default, unconfined or localhost/<profile>", profile)


def _check_seccomp(at: Path, profile: str) -> Iterator[Finding]:
    if profile in {"runtime/default", "docker/default", "unconfined"}:
        return
    path = profile.removeprefix("localhost/")
    if path == profile or path.startswith("/") or ".." in path.split("/"):
        yield Finding(at, "must be runtime/default, unconfined or localhost/<relative path>", profile)


def _check_agreement(annotations: View, spec: View, containers: list[View]) -> Iterator[Finding]:
    of_pod = spec.part("securityContext")
    yield from _agrees(of_pod.child("seccompProfile"), annotations, _SECCOMP_POD)
    for container in containers:
        own, name = container.part("securityContext"), container.text("name")
        yield from _agrees(own.child("seccompProfile"), annotations, f"{_SECCOMP}{name}")
        if spec.part("os").text("name") != "windows":
            profile = own.child("appArmorProfile") or of_pod.child("appArmorProfile")
            yield from _agrees(profile, annotations, f"{_APPARMOR}{name}")


def _agrees(profile: View | None, annotations: View, key: str) -> Iterator[Finding]:
    said = annotations.get(key)
    if profile is None or not isinstance(said, str):
        return
    accepted = {
        "Unconfined": {"unconfined"},
        "RuntimeDefault": {"runtime/default"} | ({"docker/default"} if "seccomp" in key else set()),
        "Localhost": {f"localhost/{profile.text('localhostProfile')}"},
    }
    if said not in accepted.get(profile.text("type"), {said}):
        yield profile.error("type", f"contradicts the annotation {key}, which says {said}", "remove the annotation")

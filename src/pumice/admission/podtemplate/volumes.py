"""Volumes of a pod: each has a unique name and one source with its required fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import at_most_one, required_spelled, unique
from pumice.admission.podtemplate.claims import check_claim
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.files import check_downward_files, check_key_files, check_projected
from pumice.admission.podtemplate.metadata import check_labels_and_annotations
from pumice.admission.podtemplate.resources import read_quantity
from pumice.admission.podtemplate.storage import STORAGE, check_storage
from pumice.model.findings import Finding, Path
from pumice.model.quantity import Quantity
from pumice.model.syntax import dns_label_error

_EMPTY: Final = "emptyDir"
# In the order in which Kubernetes looks for them: the first of two counts.
SOURCES: Final = (_EMPTY, *STORAGE, "secret", "configMap", "downwardAPI", "projected", "ephemeral")
_GREATEST_MODE: Final = 0o1777


def source_of(volume: View) -> str:
    """Return the type of a volume; without a source it is an emptyDir, as in Kubernetes."""
    return next((key for key in SOURCES if volume.has(key)), _EMPTY)


def volume_kinds(spec: View) -> dict[str, str]:
    """Return the type of each volume by name."""
    return {volume.text("name"): source_of(volume) for volume in spec.children("volumes")}


def check_volumes(spec: View) -> Iterator[Finding]:
    names: dict[str, Path] = {}
    for volume in spec.children("volumes"):
        yield from required_spelled(volume, "name", dns_label_error)
        yield from unique(names, volume.text("name"), volume.at / "name", "the name of a volume")
        yield from at_most_one(volume, SOURCES, "source")
        kind = source_of(volume)
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
        yield from check_storage(kind, source, volume)


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

"""PersistentVolumeClaim specs, in a job's volumes and in ephemeral volumes of pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import one_of, required, spelled
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.resources import read_quantity
from pumice.admission.podtemplate.selectors import check_selector
from pumice.model.findings import Finding
from pumice.model.quantity import Quantity
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import dns_label_error, dns_subdomain_error
from pumice.model.text import listed

ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_OWN_KIND: Final = "PersistentVolumeClaim"


def check_claim(claim: View) -> Iterator[Finding]:
    yield from _check_access_modes(claim)
    yield from _check_storage(claim.part("resources"))
    yield from check_selector(claim, "selector")
    yield from spelled(claim, "storageClassName", dns_subdomain_error)
    yield from spelled(claim, "volumeAttributesClassName", dns_subdomain_error)
    yield from one_of(claim, "volumeMode", ("Filesystem", "Block"), blank_is_unset=False)
    yield from _check_data_sources(claim)


def _check_access_modes(claim: View) -> Iterator[Finding]:
    if claim.get("accessModes") in (None, []):
        yield claim.missing("accessModes", f"must have at least one of {listed(ACCESS_MODES)}")
    modes = claim.texts("accessModes")
    for at, mode in modes:
        if mode not in ACCESS_MODES:
            yield Finding(at, f"must be {listed(ACCESS_MODES)}", mode, did_you_mean(mode, ACCESS_MODES))
    known = {mode for _, mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        yield claim.missing("accessModes", "ReadWriteOncePod cannot be used together with other modes")


def _check_storage(resources: View) -> Iterator[Finding]:
    for key in ("limits", "requests"):
        for at, name, value in resources.pairs(key):
            quantity = read_quantity(value, at)
            if isinstance(quantity, Finding):
                yield quantity
            elif name == "storage" and key == "requests" and isinstance(quantity, Quantity) and quantity.nanos <= 0:
                yield Finding(at, "must be above 0", value)
    if "storage" not in resources.part("requests").value:
        yield resources.part("requests").missing("storage", "is required: the size of the volume, such as 10Gi")


def _check_data_sources(claim: View) -> Iterator[Finding]:
    source, reference = claim.child("dataSource"), claim.child("dataSourceRef")
    for view in (source, reference):
        if view is not None:
            yield from required(view, "name", "kind")
            yield from spelled(view, "apiGroup", dns_subdomain_error)
            yield from spelled(view, "namespace", dns_label_error)
            if view.is_blank("apiGroup") and view.text("kind") not in {"", _OWN_KIND}:
                yield view.error("kind", f"must be {_OWN_KIND} when there is no apiGroup")
    if source is None or reference is None:
        return
    if reference.text("namespace"):
        yield claim.missing("dataSource", "cannot be set when dataSourceRef has a namespace")
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        yield claim.missing("dataSource", "must be the same as dataSourceRef")

"""Environment variables, and the downward API: fields and resources of the pod in variables and files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pumice.admission.podtemplate.checks import at_most_one, no_backsteps, required, required_spelled, spelled
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.resources import read_quantity
from pumice.model.findings import Finding
from pumice.model.quantity import Quantity
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import (
    config_key_error,
    dns_label_error,
    dns_subdomain_error,
    env_name_error,
    qualified_name_error,
)
from pumice.model.text import listed

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_REFERENCES: Final = ("configMapRef", "secretRef")
ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FILE_FIELDS: Final = ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid")
_KEYED: Final = ("metadata.labels['<key>']", "metadata.annotations['<key>']")
_OLD_NAMES: Final = {"spec.host": "spec.nodeName"}
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS: Final = ("1m", "1")
_SIZE_DIVISORS: Final = (
    "1",
    *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
)


def check_env(container: View, volumes: Mapping[str, str]) -> Iterator[Finding]:
    for variable in container.children("env"):
        yield from required_spelled(variable, "name", env_name_error)
        source = variable.child("valueFrom")
        if source is not None:
            yield from _check_source(variable, source, volumes)
    for source in container.children("envFrom"):
        yield from spelled(source, "prefix", env_name_error)
        if not any(source.has(key) for key in _REFERENCES):
            yield Finding(source.at, f"must have one of {listed(_REFERENCES)}")
        yield from at_most_one(source, _REFERENCES, "source")
        for key in _REFERENCES:
            if ref := source.child(key):
                yield from required_spelled(ref, "name", dns_subdomain_error)


def _check_source(variable: View, source: View, volumes: Mapping[str, str]) -> Iterator[Finding]:
    if not any(source.has(key) for key in _SOURCES):
        yield variable.missing("valueFrom", f"must have one of {listed(_SOURCES)}")
    elif variable.text("value"):
        yield variable.missing("valueFrom", "cannot be set together with value", "remove one of the two")
    else:
        yield from at_most_one(source, _SOURCES, "source")
    if ref := source.child("fieldRef"):
        yield from check_field_ref(ref, ENV_FIELDS)
    if ref := source.child("resourceFieldRef"):
        yield from check_resource_ref(ref, names_container=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if ref := source.child(key):
            yield from required_spelled(ref, "name", dns_subdomain_error)
            yield from required_spelled(ref, "key", config_key_error)
    if ref := source.child("fileKeyRef"):
        yield from _check_file_key(ref, volumes)


def _check_file_key(ref: View, volumes: Mapping[str, str]) -> Iterator[Finding]:
    yield from required_spelled(ref, "key", env_name_error)
    yield from required_spelled(ref, "volumeName", dns_label_error)
    yield from required(ref, "path")
    yield from no_backsteps(ref, "path")
    name = ref.text("volumeName")
    if name and name not in volumes:
        yield ref.error("volumeName", "no volume of the pod has this name", did_you_mean(name, volumes))
    elif name and volumes[name] != "emptyDir":
        yield ref.error("volumeName", "must be a volume of type emptyDir")


def check_field_ref(ref: View, fields: tuple[str, ...]) -> Iterator[Finding]:
    if not ref.is_blank("apiVersion") and ref.get("apiVersion") != "v1":
        yield ref.error("apiVersion", "must be v1")
        return
    yield from required(ref, "fieldPath")
    path = ref.text("fieldPath")
    subscripted = re.fullmatch(r"(.+?)\['(.*)'\]", path, re.DOTALL)
    if subscripted:
        path, key = subscripted.groups()
        if path not in {"metadata.labels", "metadata.annotations"}:
            yield ref.error("fieldPath", "only metadata.labels and metadata.annotations have keys")
        elif error := qualified_name_error(key.lower() if path == "metadata.annotations" else key):
            yield ref.error("fieldPath", f"the key {error}")
    elif path and _OLD_NAMES.get(path, path) not in fields:
        yield ref.error("fieldPath", f"must be {listed((*fields, *_KEYED))}", did_you_mean(path, fields))


def check_resource_ref(ref: View, *, names_container: bool) -> Iterator[Finding]:
    """Check a resourceFieldRef; in a file it must name the container, in a variable its own is the default."""
    if names_container:
        yield from required(ref, "containerName")
    yield from required(ref, "resource")
    resource = ref.text("resource")
    if resource and resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        message = f"must be {listed((*_RESOURCES, *(f'{prefix}<size>' for prefix in _HUGE_PAGES)))}"
        yield ref.error("resource", message, did_you_mean(resource, _RESOURCES))
    yield from _check_divisor(ref, resource)


def _check_divisor(ref: View, resource: str) -> Iterator[Finding]:
    quantity = read_quantity(ref.get("divisor"), ref.at / "divisor")
    if isinstance(quantity, Finding):
        yield quantity
    if not isinstance(quantity, Quantity) or quantity.is_zero:
        return
    if resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        return
    accepted = _CPU_DIVISORS if resource.endswith(".cpu") else _SIZE_DIVISORS
    if str(quantity) not in accepted:
        yield ref.error("divisor", f"must be {listed(accepted)}")

"""Environment variables: names, and the sources of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pumice.admission.podtemplate.checks import at_most_one, no_backsteps, required, required_spelled, spelled
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.downward_api import ENV_FIELDS, check_field_ref, check_resource_ref
from pumice.model.findings import Finding
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import config_key_error, dns_label_error, dns_subdomain_error, env_name_error
from pumice.model.text import listed

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_REFERENCES: Final = ("configMapRef", "secretRef")


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

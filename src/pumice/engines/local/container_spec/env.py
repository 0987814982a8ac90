"""The variables of a container: those that its manifest gives it, and what lies below them.

`container_env` is what a kubelet would set, and what `$(VAR)` in commands may refer to. `complete_env` puts it on top
of the image's variables and of those that any program expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.local.container_spec.config_sources import ConfigSources, known_keys
from pumice.engines.local.container_spec.downward_api import PodFacts, field_value, resource_value
from pumice.engines.local.container_spec.expansion import expand
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.model.syntax import env_name_fault

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def container_env(
    container: Manifest, manifest: Manifest, facts: PodFacts, config_sources: ConfigSources
) -> tuple[dict[str, str], list[Problem]]:
    """The variables of the manifest, `envFrom` first; each value may refer to those before it."""
    reading = _Reading(container, manifest, facts, config_sources)
    for source in container.get("envFrom") or []:
        reading.take_all(source)
    for variable in container.get("env") or []:
        reading.take(variable)
    reading.check_values()
    return reading.env, reading.problems


def complete_env(
    declared: Mapping[str, str],
    hostname: str,
    image: Mapping[str, str],
    *,
    defaults: Mapping[str, str],
    given: Mapping[str, str],
) -> dict[str, str]:
    """All variables of the process; from low to high: defaults, the image's, those of this run, the declared ones."""
    lowest = {"PATH": DEFAULT_PATH, "HOME": "/root", **defaults}
    # A container runtime puts the host name above the image's variables: an image was built elsewhere.
    return {**lowest, **image, "HOSTNAME": hostname, **given, **declared}


@dataclass
class _Reading:
    """One pass over a container's variables."""

    container: Manifest
    manifest: Manifest
    facts: PodFacts
    config_sources: ConfigSources
    env: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def take_all(self, source: Manifest) -> None:
        for key, kind, known in self._kinds("Ref"):
            ref = source.get(key)
            if ref is None:
                continue
            entries = known.get(str(ref.get("name")))
            if entries is not None:
                self._take_entries(entries, str(source.get("prefix") or ""), f"{kind} {ref.get('name')}")
            elif not ref.get("optional"):
                self._missing(f"envFrom: there is no {kind} {ref.get('name')}", kind)

    def _take_entries(self, entries: Mapping[str, bytes], prefix: str, origin: str) -> None:
        skipped = []
        for key, value in sorted(entries.items()):
            if env_name_fault(prefix + key):
                skipped.append(prefix + key)
            else:
                self.env[prefix + key] = _text(value)
        if skipped:
            message = f"envFrom: {origin}: {', '.join(skipped)} cannot be the name of a variable and is left out"
            self.problems.append(Problem(message, fatal=False))

    def take(self, variable: Manifest) -> None:
        name, value, source = str(variable.get("name")), variable.get("value"), variable.get("valueFrom")
        if value:
            self.env[name] = expand(str(value), self.env)
        elif source:
            found = self._sourced(name, source)
            if found is not None:
                self.env[name] = found
        else:
            self.env[name] = ""

    def _sourced(self, name: str, source: Mapping[str, Any]) -> str | None:
        """The value from elsewhere; None if the variable is not set, with or without a problem."""
        for key, kind, known in self._kinds("KeyRef"):
            if source.get(key) is not None:
                return self._entry(name, kind, known, source[key])
        if (ref := source.get("fieldRef")) is not None:
            path = str(ref.get("fieldPath"))
            return self._known(field_value(path, self.manifest, self.facts), f"env {name}: fieldRef: {path}")
        if (ref := source.get("resourceFieldRef")) is not None:
            found = resource_value(ref, self.container, self.manifest, self.facts)
            return self._known(found, f"env {name}: resourceFieldRef: {ref.get('resource')}")
        kinds = ", ".join(source)
        hint = "" if "fileKeyRef" not in source else "let the command read the file itself"
        self.problems.append(
            Problem(f"env {name}: {kinds} is not read here, so the variable is not set", hint, fatal=False)
        )
        return None

    def _entry(
        self, name: str, kind: str, known: Mapping[str, Mapping[str, bytes]], ref: Mapping[str, Any]
    ) -> str | None:
        entries = known.get(str(ref.get("name")))
        value = None if entries is None else entries.get(str(ref.get("key")))
        if value is not None:
            return _text(value)
        if ref.get("optional"):
            return None
        if entries is None:
            self._missing(f"env {name}: there is no {kind} {ref.get('name')}", kind)
        else:
            key = str(ref.get("key"))
            lack = f"env {name}: {kind} {ref.get('name')} has no key {key}"
            self.problems.append(Problem(lack, known_keys(key, entries)))
        return None

    def _known(self, value: str | None, what: str) -> str | None:
        if value is None:
            self.problems.append(Problem(f"{what}: a pod has no such field"))
        return value

    def _missing(self, message: str, kind: str) -> None:
        hint = f"put the {kind} into the job's file or give it with --with FILE, or set optional: true"
        self.problems.append(Problem(message, hint))

    def _kinds(self, suffix: str) -> Iterator[tuple[str, str, Mapping[str, Mapping[str, bytes]]]]:
        yield f"configMap{suffix}", "ConfigMap", self.config_sources.config_maps
        yield f"secret{suffix}", "Secret", self.config_sources.secrets

    def check_values(self) -> None:
        for name, value in self.env.items():
            if "\0" in value:
                self.problems.append(Problem(f"env {name}: holds a zero byte, which no variable can"))


def _text(value: bytes) -> str:
    """Bytes that are no UTF-8 pass through unharmed: they are turned back when the process starts."""
    return value.decode("utf-8", "surrogateescape")

"""The environment variables of a container.

`container_env` returns what a kubelet would set, and what `$(VAR)` in commands may refer to. `complete_env` adds the
image's variables and the defaults that any program expects. `expand` replaces `$(VAR)` as Kubernetes does: `$$` is a
literal `$`, references to unknown variables stay unchanged, and inserted values are not expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.container_env.references import (
    ConfigSources,
    PodFacts,
    field_value,
    missing_key,
    missing_source,
    resource_value,
)
from pumice.engines.local.sandbox.init.exec_command import DEFAULT_PATH
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.model.syntax import env_name_error

_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"


def container_env(
    container: Manifest, manifest: Manifest, facts: PodFacts, config_sources: ConfigSources
) -> tuple[dict[str, str], list[Problem]]:
    """Return the manifest's variables, `envFrom` first; each value may refer to earlier ones."""
    reader = _EnvReader(container, manifest, facts, config_sources)
    for source in container.get("envFrom") or []:
        reader.add_source(source)
    for variable in container.get("env") or []:
        reader.add_variable(variable)
    for name, value in reader.env.items():
        if "\0" in value:
            reader.problems.append(Problem(f"env {name}: contains a zero byte, which no variable can"))
    return reader.env, reader.problems


def complete_env(
    declared: Mapping[str, str],
    hostname: str,
    image: Mapping[str, str],
    *,
    defaults: Mapping[str, str],
    given: Mapping[str, str],
) -> dict[str, str]:
    """Return all variables of the process. Later wins: defaults, the image, the manifest, `given` by flags."""
    lowest = {"PATH": DEFAULT_PATH, "HOME": "/root", **defaults}
    # As in a container runtime, HOSTNAME overrides the image, which was built elsewhere.
    return {**lowest, **image, "HOSTNAME": hostname, **declared, **given}


def expand(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return match[1] or variables.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def expand_all(texts: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand(text, variables) for text in texts)


def unknown_references(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the names in `$(...)` that are no variables."""
    names = (match[2] for match in _REFERENCE.finditer(text) if match[1] is None)
    return [name for name in names if name not in variables]


def error_file_env(container: Manifest, declared: Mapping[str, str]) -> dict[str, str]:
    """Have torch write its error file where the termination message is read, in pods of a PyTorch job.

    torchrun copies that of the rank that failed first there.
    """
    if "MASTER_ADDR" not in declared and "PET_MASTER_ADDR" not in declared:
        return {}
    return {"TORCHELASTIC_ERROR_FILE": message_path(container)}


def message_path(container: Manifest) -> str:
    """Return the path of the termination message."""
    return str(container.get("terminationMessagePath") or _DEFAULT_MESSAGE_PATH)


class _EnvReader(Struct):
    container: Manifest
    manifest: Manifest
    facts: PodFacts
    config_sources: ConfigSources
    env: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add_source(self, source: Manifest) -> None:
        for field_name, kind, known in self._kinds("Ref"):
            ref = source.get(field_name)
            if ref is None:
                continue
            name, prefix = str(ref.get("name")), str(source.get("prefix") or "")
            if name not in known:
                if not ref.get("optional"):
                    self.problems.append(missing_source("envFrom", kind, name))
                continue
            entries = {prefix + key: value for key, value in sorted(known[name].items())}
            skipped = [variable for variable in entries if env_name_error(variable)]
            self.env |= {variable: _text(value) for variable, value in entries.items() if variable not in skipped}
            if skipped:
                what = f"{', '.join(skipped)} is not a valid name of a variable and is left out"
                self._warn(f"envFrom: {kind} {name}: {what}")

    def add_variable(self, variable: Manifest) -> None:
        name, value, source = str(variable.get("name")), variable.get("value"), variable.get("valueFrom")
        if value:
            self.env[name] = expand(str(value), self.env)
        elif not source:
            self.env[name] = ""
        elif (found := self._value_from(name, source)) is not None:
            self.env[name] = found

    def _value_from(self, name: str, source: Mapping[str, Any]) -> str | None:
        """Return the value that `valueFrom` refers to; None if the variable stays unset."""
        for field_name, kind, known in self._kinds("KeyRef"):
            if (ref := source.get(field_name)) is not None:
                owner, key, where = str(ref.get("name")), str(ref.get("key")), f"env {name}"
                entries = known.get(owner)
                if entries is not None and key in entries:
                    return _text(entries[key])
                if not ref.get("optional"):
                    missing = missing_source(where, kind, owner)
                    found = missing if entries is None else missing_key(where, f"{kind} {owner}", key, entries)
                    self.problems.append(found)
                return None
        if (ref := source.get("fieldRef")) is not None:
            what = f"fieldRef: {ref.get('fieldPath')}"
            value = field_value(str(ref.get("fieldPath")), self.manifest, self.facts)
        elif (ref := source.get("resourceFieldRef")) is not None:
            what = f"resourceFieldRef: {ref.get('resource')}"
            value = resource_value(ref, self.container, self.manifest, self.facts)
        else:
            hint = "" if "fileKeyRef" not in source else "let the command read the file itself"
            self._warn(f"env {name}: {', '.join(source)} is not supported here, so the variable is not set", hint)
            return None
        if value is None:
            self.problems.append(Problem(f"env {name}: {what}: a pod has no such field"))
        return value

    def _kinds(self, suffix: str) -> Iterator[tuple[str, str, Mapping[str, Mapping[str, bytes]]]]:
        yield f"configMap{suffix}", "ConfigMap", self.config_sources.config_maps
        yield f"secret{suffix}", "Secret", self.config_sources.secrets

    def _warn(self, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, hint, fatal=False))


def _text(value: bytes) -> str:
    """Decode a value; bytes that are not UTF-8 become surrogates, and bytes again when the process starts."""
    return value.decode("utf-8", "surrogateescape")

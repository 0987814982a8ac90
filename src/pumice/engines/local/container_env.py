"""The environment variables of a container, and what variables and volumes refer to.

`container_env` returns what a kubelet would set, and what `$(VAR)` in commands may refer to. `complete_env` adds the
image's variables and the defaults that any program expects. `expand` replaces `$(VAR)` as Kubernetes does: `$$` is a
literal `$`, references to unknown variables stay unchanged, and inserted values are not expanded again.

ConfigMaps, Secrets and claims come from the job's plugins and from the user's files, in the form in which an API server
accepts them. The downward API has the values of `fieldRef` and `resourceFieldRef`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.sandbox.init.exec_command import DEFAULT_PATH
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Option, Problem
from pumice.model.quantity import Quantity
from pumice.model.resources import resource_list
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import config_key_error, env_name_error

_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
_SUBSCRIPTED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_ONE: Final = Quantity.parse(1)
_ZERO: Final = Quantity()
_SHORT_ESCAPES: Final = dict(zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True))


class ConfigSources(Struct, frozen=True):
    """`binary` holds a ConfigMap's binaryData, which cannot become a variable."""

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    binary: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)  # the directory of each claim
    real_paths: Mapping[str, str] = field(default_factory=dict)  # where each path of this machine leads

    def config_map_files(self, name: str) -> Mapping[str, bytes] | None:
        """Return all entries of a ConfigMap; None if there is no such ConfigMap."""
        if name not in self.config_maps:
            return None
        return {**self.config_maps[name], **self.binary.get(name, {})}


def read_config_sources(
    manifests: Iterable[Manifest], claims: Mapping[str, Path], real_paths: Mapping[str, str] | None = None
) -> tuple[ConfigSources, list[Problem]]:
    """Return what the manifests contain, without the entries that have a problem."""
    config_maps: dict[str, dict[str, bytes]] = {}
    binary: dict[str, dict[str, bytes]] = {}
    secrets: dict[str, dict[str, bytes]] = {}
    problems: list[Problem] = []
    for manifest in manifests:
        kind, name = manifest.get("kind"), str((manifest.get("metadata") or {}).get("name"))
        if kind == "ConfigMap":
            config_maps[name] = _texts(manifest, "data", problems)
            binary[name] = _encoded(manifest, "binaryData", problems)
        elif kind == "Secret":
            secrets[name] = {**_encoded(manifest, "data", problems), **_texts(manifest, "stringData", problems)}
    return ConfigSources(config_maps, binary, secrets, dict(claims), real_paths or {}), problems


def missing_source(where: str, kind: str, name: object) -> Problem:
    hint = f"add the {kind} to the job's file, pass it with ", Option("with", "FILE"), ", or set optional: true"
    return Problem(f"{where}: there is no {kind} {name}", hint)


def missing_key(where: str, source: str, key: str, entries: Iterable[str]) -> Problem:
    listed = f"it has {', '.join(sorted(entries))}" if entries else "it is empty"
    hint = f"{did_you_mean(key, entries)} {listed}; correct the key, or set optional: true".lstrip()
    return Problem(f"{where}: {source} has no key {key}", hint)


def _texts(manifest: Manifest, field_name: str, problems: list[Problem]) -> dict[str, bytes]:
    # Bytes of a file that are not UTF-8 were read as lone surrogates; this restores them.
    entries = _entries(manifest, field_name, problems)
    return {key: value.encode("utf-8", "surrogateescape") for key, value in entries}


def _encoded(manifest: Manifest, field_name: str, problems: list[Problem]) -> dict[str, bytes]:
    entries = {}
    for key, value in _entries(manifest, field_name, problems):
        try:
            entries[key] = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            hint = "encode it with base64, or put it under stringData as it is" if field_name == "data" else ""
            problems.append(Problem(f"{_entry_path(manifest, field_name, key)}: is not base64", hint))
    return entries


def _entries(manifest: Manifest, field_name: str, problems: list[Problem]) -> Iterable[tuple[str, str]]:
    for key, value in (manifest.get(field_name) or {}).items():
        message = config_key_error(str(key)) if isinstance(value, str) else "must be a string"
        if message:
            hint = "" if isinstance(value, str) else "put quotes around it"
            problems.append(Problem(f"{_entry_path(manifest, field_name, key)}: {message}", hint))
        else:
            yield str(key), value


def _entry_path(manifest: Manifest, field_name: str, key: object) -> str:
    return f"{manifest['kind']} {(manifest.get('metadata') or {}).get('name')}: {field_name}.{key}"


class PodFacts(Struct, frozen=True, kw_only=True):
    """What a scheduled pod may read about itself beyond its manifest."""

    name: str
    namespace: str
    uid: str
    ip: str
    hostname: str
    node_name: str
    host_ip: str
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)  # stands in for a missing limit


def field_value(path: str, manifest: Manifest, facts: PodFacts) -> str | None:
    """Return the value of a pod's field; None for a path that the downward API does not know."""
    metadata = manifest.get("metadata") or {}
    if match := _SUBSCRIPTED.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        # Sorted `key="value"` lines, quoted as Go quotes them: programs parse these files.
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        escaped = {key: "".join(map(_escaped, str(value))) for key, value in sorted(entries.items())}
        return "\n".join(f'{key}="{value}"' for key, value in escaped.items())
    spec = manifest.get("spec") or {}
    known = {
        "metadata.name": facts.name,
        "metadata.namespace": facts.namespace,
        "metadata.uid": facts.uid,
        "spec.nodeName": facts.node_name,
        "spec.host": facts.node_name,
        "spec.serviceAccountName": str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.ip,
        "status.podIPs": facts.ip,
    }
    return known.get(path)


def resource_value(ref: Mapping[str, Any], container: Manifest, manifest: Manifest, facts: PodFacts) -> str | None:
    """Return a container's limit or request in units of `divisor`; None if the downward API has no such resource."""
    kind, _, name = str(ref.get("resource")).partition(".")
    if kind not in {"limits", "requests"} or not (
        name in {"cpu", "memory", "ephemeral-storage"} or name.startswith("hugepages-")
    ):
        return None
    spec = manifest.get("spec") or {}
    named = (each for each in all_containers(spec) if each.get("name") == ref.get("containerName"))
    amount = _amount(kind, name, (next(named, container), spec))
    if amount is None:
        amount = facts.allocatable.get(name, _ZERO) if kind == "limits" else _ZERO
    divisor = _ONE
    with suppress(ValueError):
        given = Quantity.parse(ref.get("divisor"))
        divisor = _ONE if given.is_zero else given
    return str(-(-amount.nanos // divisor.nanos))


def _amount(kind: str, name: str, owners: Sequence[Manifest]) -> Quantity | None:
    """Return the first owner's amount that is not zero. A limit serves as request; zero means no limit."""
    for owner in owners:
        for which in ("limits",) if kind == "limits" else ("requests", "limits"):
            amount = resource_list(owner, which).get(name, _ZERO)
            if not amount.is_zero:
                return amount
    return None


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return f"\\{_SHORT_ESCAPES[character]}"
    if character.isprintable():
        return character
    if code < 0x80:  # noqa: PLR2004 - ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits


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

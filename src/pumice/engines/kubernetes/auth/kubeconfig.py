"""Kubeconfig files, read and merged as kubectl does it: of several files, the first to say something wins.

Files that do not exist are passed over where several are named, and relative paths count from the file that holds them.
What a file holds is secret: a message names places, never values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pumice.engines.kubernetes.api.errors import AccessError

# Far above what people have there: a cluster takes some five kilobytes, and six levels.
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_LEVELS: Final = 50
_WORDS: Final = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False
    extensions: list[dict[str, Any]] | None = None


class Variable(msgspec.Struct):
    name: str
    value: str = ""


class Exec(msgspec.Struct, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class AuthProvider(msgspec.Struct):
    name: str = ""


class User(msgspec.Struct, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None
    impersonate: str | None = msgspec.field(default=None, name="as")
    impersonate_uid: str | None = msgspec.field(default=None, name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")


class Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: Context | None = None


class _File(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(slots=True)
class Kubeconfig:
    """All files together. Each cluster and user comes with the file that it stands in."""

    files: list[Path] = field(default_factory=list)
    current: str = ""
    clusters: dict[str, tuple[Cluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[User, Path]] = field(default_factory=dict)
    contexts: dict[str, Context] = field(default_factory=dict)

    @property
    def described(self) -> str:
        return ", ".join(map(str, self.files))


def read_kubeconfig(paths: list[Path]) -> Kubeconfig:
    """One file must exist, of several those that do."""
    merged = Kubeconfig()
    for path in paths:
        if len(paths) == 1 or _is_there(path):
            _add(merged, path)
    if not merged.files:
        raise AccessError(
            f"none of the files of KUBECONFIG exists: {', '.join(map(str, paths))}; correct the variable or unset it"
        )
    return merged


def _is_there(path: Path) -> bool:
    """One in a folder that is closed to us counts: then reading it says what is wrong."""
    try:
        return path.exists()
    except OSError:
        return True


def _add(merged: Kubeconfig, path: Path) -> None:
    file = _read(path)
    merged.files.append(path)
    merged.current = merged.current or file.current_context or ""
    for cluster in file.clusters or ():
        merged.clusters.setdefault(cluster.name, (cluster.cluster or Cluster(), path))
    for user in file.users or ():
        merged.users.setdefault(user.name, (user.user or User(), path))
    for context in file.contexts or ():
        merged.contexts.setdefault(context.name, context.context or Context())


def _read(path: Path) -> _File:
    try:
        document = yaml.load(_content(path), Loader=_Loader)  # noqa: S506 - a safe loader, the fast one if it is there
    except OSError as error:
        raise AccessError(f"cannot read the kubeconfig {path}: {error.strerror or error}") from error
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise AccessError(f"the kubeconfig {path} is not YAML: {error.problem}{place}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, AttributeError, KeyError) as error:
        # The last three are how PyYAML takes a tag at something that it cannot be for.
        raise AccessError(f"the kubeconfig {path} is not YAML") from error
    if document is None:
        return _File()
    if not isinstance(document, dict):
        raise AccessError(f"the kubeconfig {path} is not a mapping with clusters, users and contexts")
    try:
        return msgspec.convert(document, type=_File)
    except msgspec.ValidationError as error:
        raise AccessError(f"the kubeconfig {path} cannot be used: {_told(error)}") from error


def _content(path: Path) -> bytes:
    """What the file holds, if it can be loaded: PyYAML's fast loader calls itself for each level, until it crashes."""
    with path.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise AccessError(f"the kubeconfig {path} is larger than {_MOST_BYTES // 1024 // 1024} MiB")
    depth = 0
    for event in yaml.parse(content, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_LEVELS:
            line = event.start_mark.line + 1
            raise AccessError(f"the kubeconfig {path} is nested more than {_MOST_LEVELS} levels deep in line {line}")
    return content


def _told(error: msgspec.ValidationError) -> str:
    """`users[0].user.token: expected a string, got a number`, from msgspec's `Expected ... - at `$.users[0]...``."""
    problem, _, place = str(error).partition(" - at ")
    place = place.strip("`").removeprefix("$").lstrip(".")
    problem = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), problem[:1].lower() + problem[1:])
    return f"{place}: {problem}" if place else problem


def _in_words(types: str) -> str:
    """`str | null` as people call it; what may be null may just as well be left out."""
    return " or ".join(_WORDS.get(type_, type_) for type_ in types.split(" | ") if type_ != "null") or "nothing"

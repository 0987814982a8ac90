"""Kubeconfig files, read and merged as kubectl does it: the first file that defines a name wins.

Missing files are skipped where several are named, and relative paths are resolved against the directory of their file.
The content is secret: messages name positions, never values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api.errors import AccessError
from pumice.model.problem import Problem
from pumice.yaml.reader import parse
from pumice.yaml.source import read_text

_TYPE_NAMES: Final = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


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


class _Named(msgspec.Struct):
    """An entry of one of the lists."""

    name: str
    cluster: Cluster | None = None
    user: User | None = None
    context: Context | None = None


class _File(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    clusters: list[_Named] | None = None
    users: list[_Named] | None = None
    contexts: list[_Named] | None = None


@dataclass(slots=True)
class Kubeconfig:
    """The merged files. Each cluster and user comes with the file that defines it."""

    files: list[Path] = field(default_factory=list)
    current: str = ""
    clusters: dict[str, tuple[Cluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[User, Path]] = field(default_factory=dict)
    contexts: dict[str, Context] = field(default_factory=dict)

    @property
    def description(self) -> str:
        return ", ".join(map(str, self.files))


def read_kubeconfig(paths: list[Path]) -> Kubeconfig:
    """Read and merge these files. A single file must exist; of several, missing ones are skipped."""
    merged = Kubeconfig()
    for path in paths:
        if len(paths) == 1 or _exists(path):
            file = _read(path)
            merged.files.append(path)
            merged.current = merged.current or file.current_context or ""
            for cluster in file.clusters or ():
                merged.clusters.setdefault(cluster.name, (cluster.cluster or Cluster(), path))
            for user in file.users or ():
                merged.users.setdefault(user.name, (user.user or User(), path))
            for context in file.contexts or ():
                merged.contexts.setdefault(context.name, context.context or Context())
    if not merged.files:
        raise AccessError(
            f"none of the files of KUBECONFIG exists: {', '.join(map(str, paths))}; correct the variable or unset it"
        )
    return merged


def _exists(path: Path) -> bool:
    """Whether the file exists, also in a directory without permission: reading it then says what is wrong."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> _File:
    text = read_text(str(path.absolute()))
    if isinstance(text, Problem):
        raise AccessError(f"cannot read the kubeconfig {path}: {text.message}")
    documents, problems = parse(text, str(path))
    if problems:
        # The message may quote a value, which may be secret.
        where = problems[0].where
        raise AccessError(f"the kubeconfig {path} is not valid YAML at line {where.line}, column {where.column}")
    if not documents:
        return _File()
    document, _ = documents[0]
    if not isinstance(document, dict):
        raise AccessError(f"the kubeconfig {path} is not a mapping with clusters, users and contexts")
    try:
        return msgspec.convert(document, type=_File)
    except msgspec.ValidationError as error:
        raise AccessError(f"the kubeconfig {path} cannot be used: {_explain(error)}") from error


def _explain(error: msgspec.ValidationError) -> str:
    """`users[0].user.token: expected a string, got a number`, from msgspec's `Expected ... - at `$.users[0]...``."""
    message, _, path = str(error).partition(" - at ")
    path = path.strip("`").removeprefix("$").lstrip(".")
    message = re.sub(r"`([^`]*)`", lambda found: _type_names(found[1]), message[:1].lower() + message[1:])
    return f"{path}: {message}" if path else message


def _type_names(types: str) -> str:
    """Name the types of `str | null`; null is left out, because the field may be left out too."""
    return " or ".join(_TYPE_NAMES.get(type_, type_) for type_ in types.split(" | ") if type_ != "null") or "nothing"

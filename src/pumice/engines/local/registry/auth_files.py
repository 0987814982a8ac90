"""Credentials for a registry, from the files that `docker login` and `podman login` write.

The first file with an entry for the registry wins: `$REGISTRY_AUTH_FILE` alone if it is set, else those of podman, else
that of docker. An entry may leave the secret to a program, `docker-credential-NAME`, which is run only when a registry
asks for a login. Secrets are neither printed nor stored.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.sources import dict_or_empty, text_or_empty
from pumice.store.settings import home_directory

_HUB: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")
_HUB_KEY: Final = "https://index.docker.io/v1/"
_HELPER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A helper prints this for a registry that it does not know.
_NOT_FOUND: Final = "credentials not found"
# A helper may return a token for OAuth 2 in the place of a password.
_NO_USER: Final = "<token>"
_LARGEST: Final = 1 << 20
_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    source: str  # where it comes from, for messages
    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)  # exchanged for an access token
    registry_token: str = field(default="", repr=False)  # an access token

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


def find_login(host: str, repository: str, environ: Mapping[str, str]) -> RegistryLogin | None:
    """Return the login for a repository. Raises ImageError for a file that cannot be read, or a helper that fails."""
    for path in auth_files(environ):
        document = _read(path)
        helpers = dict_or_empty(document.get("credHelpers"))
        for key in (*_HUB, _HUB_KEY) if host in _HUB else (host,):
            if isinstance(helper := helpers.get(key), str) and (found := _from_helper(helper, key, path)):
                return found
        if found := _from_auths(dict_or_empty(document.get("auths")), host, repository, path):
            return found
        store, server = text_or_empty(document.get("credsStore")), _HUB_KEY if host in _HUB else host
        if store and (found := _from_helper(store, server, path)):
            return found
    return None


def auth_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files to search, in order; they need not exist."""
    if own := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(own)
        return
    home = home_directory(environ)
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    if config := environ.get("XDG_CONFIG_HOME"):
        yield Path(config) / "containers" / "auth.json"
    elif home is not None:
        yield home / ".config" / "containers" / "auth.json"
    if docker := environ.get("DOCKER_CONFIG"):
        yield Path(docker) / "config.json"
    elif home is not None:
        yield home / ".docker" / "config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ImageError("is too large for a file with credentials", where=str(path))
        return dict_or_empty(json.loads(data))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ImageError((error.strerror or str(error)).lower(), where=str(path)) from None
    except (ValueError, RecursionError):
        # The text is secret, and never shown.
        raise ImageError("is not JSON", "log in again, or remove the file", str(path)) from None


def _from_auths(auths: Mapping[str, Any], host: str, repository: str, path: Path) -> RegistryLogin | None:
    """Of several entries that match, the most specific one; podman has them per namespace."""
    entries = {_stripped(key): value for key, value in auths.items()}
    steps = repository.split("/")
    names = _HUB if host in _HUB else (host,)
    for count in range(len(steps), -1, -1):
        for name in names:
            entry = dict_or_empty(entries.get("/".join((name, *steps[:count]))))
            if entry and (found := _entry(entry, path)):
                return found
    return None


def _entry(entry: Mapping[str, Any], path: Path) -> RegistryLogin | None:
    """An entry is empty where the secret is left to a helper."""
    username, password, identity, registry = (
        text_or_empty(entry.get(key)) for key in ("username", "password", "identitytoken", "registrytoken")
    )
    if auth := text_or_empty(entry.get("auth")):
        try:
            decoded = base64.b64decode(auth, validate=True).decode().rstrip("\0")
        except (binascii.Error, UnicodeDecodeError):
            raise ImageError("an entry of `auths` is not base64", "log in again", str(path)) from None
        username, _, password = decoded.partition(":")
    if not (username or identity or registry):
        return None
    return RegistryLogin(str(path), username, password, identity, registry)


def _from_helper(name: str, server: str, path: Path) -> RegistryLogin | None:
    program = f"docker-credential-{name}"
    found = shutil.which(program) if _HELPER.fullmatch(name) else None
    if found is None:
        raise ImageError(f"the credential helper {program} was not found", "install it, or log in again", str(path))
    try:
        done = subprocess.run(  # noqa: S603 - the user's own configuration names the program
            [found, "get"], input=server.encode(), capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise ImageError(f"{program} cannot be run, or does not answer", where=str(path)) from None
    if done.returncode != 0:
        if _NOT_FOUND in done.stdout.decode(errors="replace"):
            return None
        raise ImageError(f"{program} failed with code {done.returncode}", f"try `{program} get`", str(path))
    try:
        answer = dict_or_empty(json.loads(done.stdout))
    except (ValueError, RecursionError):
        raise ImageError(f"{program} wrote no JSON", where=str(path)) from None
    username, secret = text_or_empty(answer.get("Username")), text_or_empty(answer.get("Secret"))
    if username == _NO_USER:
        return RegistryLogin(program, identity_token=secret)
    return RegistryLogin(program, username, secret) if username else None


def _stripped(key: str) -> str:
    """Strip what `docker login` adds to some registries: `https://index.docker.io/v1/`."""
    scheme, separator, rest = key.partition("://")
    if separator and scheme in ("http", "https"):
        return rest.partition("/")[0]
    return key.rstrip("/")

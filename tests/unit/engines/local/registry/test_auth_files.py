from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.registry.auth_files import RegistryLogin, auth_files, find_login

HUB = "https://index.docker.io/v1/"


def _auth(user: str, password: str = "pw") -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def _write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def _user(home: Path, host: str, repository: str = "a/b", **environ: str) -> str:
    found = find_login(host, repository, {"HOME": str(home), **environ})
    return "" if found is None else found.username


def _helper(home: Path, name: str, script: str) -> None:
    path = _write(home / "bin" / f"docker-credential-{name}", f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_order_of_files(home: Path) -> None:
    environ = {"HOME": "/h"}
    assert [str(path) for path in auth_files(environ)] == ["/h/.config/containers/auth.json", "/h/.docker/config.json"]
    environ |= {"XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d"}
    expected = ["/r/containers/auth.json", "/c/containers/auth.json", "/d/config.json"]
    assert [str(path) for path in auth_files(environ)] == expected
    assert [str(path) for path in auth_files({**environ, "REGISTRY_AUTH_FILE": "/f"})] == ["/f"]


def test_the_first_file_with_an_entry_wins(home: Path) -> None:
    _write(home / ".docker" / "config.json", {"auths": {"r.io": _auth("docker"), "other.io": _auth("other")}})
    assert _user(home, "r.io") == "docker"
    _write(home / ".config" / "containers" / "auth.json", {"auths": {"r.io": _auth("podman")}})
    assert _user(home, "r.io") == "podman"
    assert _user(home, "other.io") == "other"
    assert _user(home, "unknown.io") == ""
    runtime = _write(home / "run" / "containers" / "auth.json", {"auths": {"r.io": _auth("runtime")}})
    assert _user(home, "r.io", XDG_RUNTIME_DIR=str(home / "run")) == "runtime"
    assert _user(home, "other.io", REGISTRY_AUTH_FILE=str(runtime)) == ""


@pytest.mark.parametrize(
    ("auths", "host", "expected"),
    [
        pytest.param({"r.io": _auth("host")}, "r.io", "host", id="host"),
        pytest.param({"https://r.io": _auth("url")}, "r.io", "url", id="URL"),
        pytest.param({"https://r.io/v2/": _auth("url")}, "r.io", "url", id="URL with a path"),
        pytest.param({"r.io": _auth("host"), "r.io/a": _auth("space")}, "r.io", "space", id="namespace"),
        pytest.param({"r.io/a/b": _auth("exact"), "r.io/a": _auth("space")}, "r.io", "exact", id="repository"),
        pytest.param({"r.io/other": _auth("other")}, "r.io", "", id="another namespace"),
        pytest.param({"r.io:5000": _auth("port")}, "r.io", "", id="another port"),
        pytest.param({HUB: _auth("hub")}, "docker.io", "hub", id="Docker Hub"),
        pytest.param({"docker.io": _auth("hub")}, "docker.io", "hub", id="Docker Hub by podman"),
        pytest.param({"r.io": {"username": "u", "password": "p"}}, "r.io", "u", id="plain text"),
        pytest.param({"r.io": {}}, "r.io", "", id="empty entry"),
        pytest.param({"r.io": "nonsense"}, "r.io", "", id="entry of a wrong type"),
        pytest.param("nonsense", "r.io", "", id="entries of a wrong type"),
    ],
)
def test_entries(home: Path, auths: Any, host: str, expected: str) -> None:
    _write(home / ".docker" / "config.json", {"auths": auths})
    assert _user(home, host) == expected


def test_tokens(home: Path) -> None:
    entry = {**_auth("u"), "identitytoken": "i", "registrytoken": "r"}
    path = _write(home / ".docker" / "config.json", {"auths": {"r.io": entry}})
    found = find_login("r.io", "a", {"HOME": str(home)})
    assert found == RegistryLogin(str(path), "u", "pw", "i", "r")
    assert found.basic == "Basic dTpwdw=="
    assert "pw" not in repr(found)


def test_helpers(home: Path) -> None:
    _helper(home, "one", 'read -r host; printf \'{"Username":"%s","Secret":"s"}\' "one-$host"')
    _helper(home, "store", 'read -r host; printf \'{"Username":"<token>","Secret":"%s"}\' "$host"')
    _helper(home, "none", "echo credentials not found in native keychain; exit 1")
    config = {"credHelpers": {"r.io": "one", "none.io": "none"}, "credsStore": "store", "auths": {"r.io": {}}}
    _write(home / ".docker" / "config.json", config)
    assert _user(home, "r.io") == "one-r.io"
    stored = RegistryLogin("docker-credential-store", identity_token=HUB)
    assert find_login("docker.io", "a", {"HOME": str(home)}) == stored
    assert find_login("none.io", "a", {"HOME": str(home)}) == RegistryLogin(
        "docker-credential-store", identity_token="none.io"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param("{s3cret", "is not JSON", id="not JSON"),
        pytest.param("[" * 100_000, "is not JSON", id="deep nesting"),
        pytest.param(" " * (2 << 20), "is too large", id="too large"),
        pytest.param({"auths": {"r.io": {"auth": "s3cret!"}}}, "is not base64", id="not base64"),
        pytest.param({"credsStore": "missing"}, "docker-credential-missing was not found", id="no helper"),
        pytest.param({"credsStore": "../../evil"}, "was not found", id="path as helper"),
        pytest.param({"credsStore": "fails"}, "docker-credential-fails failed with code 3", id="helper fails"),
        pytest.param({"credsStore": "talks"}, "docker-credential-talks wrote no JSON", id="helper talks"),
    ],
)
def test_errors_name_the_file_and_no_secret(home: Path, config: Any, message: str) -> None:
    _helper(home, "fails", "echo s3cret; echo s3cret >&2; exit 3")
    _helper(home, "talks", "echo s3cret")
    path = _write(home / ".docker" / "config.json", config)
    with pytest.raises(ImageError) as caught:
        find_login("r.io", "a", {"HOME": str(home)})
    assert message in caught.value.problem.text
    assert caught.value.problem.where.file == str(path)
    assert "s3cret" not in caught.value.problem.text


def test_a_helper_is_a_name_and_not_a_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = _write(home / "evil", f"#!/bin/sh\ntouch '{home}/canary'\n")
    evil.chmod(0o755)
    (home / "docker-credential-..").mkdir()
    monkeypatch.chdir(home)
    _write(home / ".docker" / "config.json", {"credsStore": "../../evil"})
    with pytest.raises(ImageError, match="was not found"):
        find_login("r.io", "a", {"HOME": str(home)})
    assert not (home / "canary").exists()


def test_a_file_that_cannot_be_read(home: Path) -> None:
    (home / ".docker" / "config.json").mkdir(parents=True)
    with pytest.raises(ImageError, match="is a directory"):
        find_login("r.io", "a", {"HOME": str(home)})

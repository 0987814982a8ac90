from __future__ import annotations

import asyncio
import base64
import datetime as dt
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.kubernetes.auth import access as access_module
from pumice.engines.kubernetes.auth.access import Access, AccessError, find_access
from tests.cluster.pki import Pki, make_pki
from tests.unit.engines.kubernetes.kubeconfigs import SERVER, config, plugin, write


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"), dt.datetime.now(dt.UTC))  # noqa: TID251 - TLS knows no other time


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the kubeconfig, the proxies and the pod of the machine that runs the tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("KUBERNETES_", "KUBECONFIG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(access_module, "SERVICE_ACCOUNT", tmp_path / "account")


def _found(access: Access) -> tuple[str, str, str]:
    return access.server, access.namespace, access.description


def test_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "home/.kube/config", config(name="usual"))
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "variable", config(name="variable")))
    named = write(tmp_path / "named", config(name="named", namespace="mine"))
    assert _found(find_access(named)) == (SERVER, "mine", "named")
    assert _found(find_access(None)) == (SERVER, "default", "variable")
    monkeypatch.delenv("KUBECONFIG")
    assert _found(find_access(None)) == (SERVER, "default", "usual")


def test_a_tilde_is_expanded(tmp_path: Path) -> None:
    write(tmp_path / "home/mine", config(name="mine"))
    assert find_access("~/mine").description == "mine"


def test_several_files_are_merged_and_the_first_definition_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = config(cluster={"server": "https://first:1"}, name="both")
    del first["current-context"]
    second = config(cluster={"server": "https://second:2"}, name="both")
    other = config(cluster={"server": "https://other:3"}, name="other", namespace="o")
    other["contexts"].append({"name": "mixed", "context": {"cluster": "both", "user": "other"}})
    files = [
        write(tmp_path / "a/first", first),
        str(tmp_path / "absent"),
        write(tmp_path / "b/empty", ""),
        write(tmp_path / "b/second", second),
        write(tmp_path / "c/other", other),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([*files, "", files[0]]))
    assert _found(find_access(None)) == ("https://first:1", "default", "both")
    assert _found(find_access(None, "other")) == ("https://other:3", "o", "other")
    assert _found(find_access(None, "mixed")) == ("https://first:1", "default", "mixed")


def test_relative_paths_start_at_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki) -> None:
    for name in ("ca.crt", "server.crt", "server.key"):
        write(tmp_path / "certificates" / name, Path(pki.path(name)).read_text())
    cluster = {"server": SERVER, "certificate-authority": "../certificates/ca.crt"}
    user = {"client-certificate": "../certificates/server.crt", "client-key": "../certificates/server.key"}
    monkeypatch.chdir("/")
    access = find_access(write(tmp_path / "configs/one", config(cluster, user)))
    assert access.tls is not None
    assert [authority["subject"] for authority in access.tls.get_ca_certs()] == [((("commonName", "pumice tests"),),)]


def test_embedded_certificates(tmp_path: Path, pki: Pki) -> None:
    def encoded(name: str) -> str:
        return base64.b64encode(Path(pki.path(name)).read_bytes()).decode()

    cluster = {"server": SERVER, "certificate-authority-data": encoded("ca.crt"), "tls-server-name": "kubernetes"}
    user = {"client-certificate-data": encoded("server.crt"), "client-key-data": encoded("server.key")}
    access = find_access(write(tmp_path / "config", config(cluster, user)))
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_REQUIRED
    assert access.tls.check_hostname
    assert access.server_name == "kubernetes"


def test_insecure_skip_tls_verify(tmp_path: Path) -> None:
    cluster = {"server": SERVER, "insecure-skip-tls-verify": True}
    access = find_access(write(tmp_path / "config", config(cluster)))
    assert access.tls is not None
    assert (access.tls.verify_mode, access.tls.check_hostname) == (ssl.CERT_NONE, False)


def test_a_server_without_tls_and_with_a_path(tmp_path: Path) -> None:
    access = find_access(write(tmp_path / "config", config({"server": "http://10.0.0.1:8080/k8s/clusters/c-1/"})))
    assert access.tls is None
    assert access.server == "http://10.0.0.1:8080/k8s/clusters/c-1"


def test_flow_style_and_unknown_fields(tmp_path: Path) -> None:
    text = f"""
current-context: here
clusters:
- {{name: here, cluster: {{server: "{SERVER}"}}}}
users: null
contexts:
- name: here
  context: {{cluster: here, extra: ignored}}
preferences: {{}}
"""
    assert _found(find_access(write(tmp_path / "config", text))) == (SERVER, "default", "here")


@pytest.mark.parametrize(
    ("cluster", "environment", "expected"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param({"proxy-url": "http://p:1"}, {}, "http://p:1", id="kubeconfig"),
        pytest.param({}, {"HTTPS_PROXY": "http://q:1"}, "http://q:1", id="environment"),
        pytest.param({"proxy-url": "http://p:1"}, {"HTTPS_PROXY": "http://q:1"}, "http://p:1", id="both"),
    ],
)
def test_proxies(
    cluster: dict[str, str],
    environment: dict[str, str],
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_access(write(tmp_path / "config", config({"server": SERVER} | cluster))).proxy == expected


NO_PEM = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("a: [", r"is not valid YAML at line 2, column 1$", id="no YAML"),
        pytest.param("\x00\x01", "a NUL byte is not allowed in YAML$", id="control characters"),
        pytest.param("[" * 100_000, "is not valid YAML at line 1, column 101$", id="too deep"),
        pytest.param("# nothing\n" * 420_000, "larger than 4 MiB: reading stops here$", id="too large"),
        pytest.param("a: !!timestamp x", "is not valid YAML at line 1, column 4$", id="a tag"),
        pytest.param("just words", "is not a mapping with clusters, users and contexts", id="no mapping"),
        pytest.param({}, "has no current-context; choose one with --context, of: none", id="empty"),
        pytest.param(
            config() | {"current-context": ""},
            "has no current-context; choose one with --context, of: here",
            id="no current context",
        ),
        pytest.param(
            config() | {"current-context": "Here"},
            "has no context 'Here'; there are: here; did you mean here\\?",
            id="unknown context",
        ),
        pytest.param(
            config() | {"clusters": []},
            "the context 'here' .* names the cluster 'here', which does not exist; there are: none",
            id="unknown cluster",
        ),
        pytest.param(config() | {"users": []}, "names the user 'here', which does not exist", id="unknown user"),
        pytest.param(config({}), "the cluster 'here' of .*: server is ''; it must be an address", id="no server"),
        pytest.param(config({"server": "10.0.0.1:6443"}), "server is '10.0.0.1:6443'", id="no scheme"),
        pytest.param(
            config({"server": "https://h:99999"}), "server is 'https://h:99999'; it must be", id="no such port"
        ),
        pytest.param(
            config({"server": "https://h:abc"}), "server is 'https://h:abc'; it must be", id="port in letters"
        ),
        pytest.param(
            config({"server": "https://[::1"}), r"server is 'https://\[::1'; it must be", id="unclosed bracket"
        ),
        pytest.param(config({"server": "https://h/é"}), "server is 'https://h/é'; it must be", id="no ASCII"),
        pytest.param(config({"server": "https://h h"}), "server is 'https://h h'; it must be", id="space"),
        pytest.param(
            config({"server": SERVER, "proxy-url": "http://p:0"}),
            "proxy-url must be an address such as http://proxy:3128",
            id="proxy without a port",
        ),
        pytest.param(config({"server": "https://u:p@h"}), "without user, query and fragment", id="user in server"),
        pytest.param(
            config({"server": SERVER, "proxy-url": "socks5://p"}),
            "the cluster 'here' of .*: proxy-url must be an address such as http://proxy:3128",
            id="socks",
        ),
        pytest.param(
            config({"server": SERVER, "certificate-authority": "no.crt"}),
            "certificate-authority: cannot read .*no.crt: No such file",
            id="no such authority",
        ),
        pytest.param(
            config({"server": SERVER, "certificate-authority-data": NO_PEM}),
            "certificate-authority is not a certificate authority in PEM form",
            id="no authority",
        ),
        pytest.param(
            config({"server": SERVER, "certificate-authority-data": "%"}),
            "certificate-authority-data is not base64",
            id="no base64",
        ),
        pytest.param(
            config({"server": SERVER, "certificate-authority-data": NO_PEM, "insecure-skip-tls-verify": True}),
            "contradict each other",
            id="authority and skip verify",
        ),
        pytest.param(
            config(user={"client-certificate-data": NO_PEM}),
            "client-certificate and client-key must be given together",
            id="no key",
        ),
        pytest.param(
            config(user={"client-certificate-data": NO_PEM, "client-key-data": NO_PEM}),
            "certificate and key are not in PEM form, or do not belong together",
            id="no pair",
        ),
        pytest.param(
            config(user={"client-certificate": "c.crt", "client-key": "c.key"}),
            "the user 'here' of .*: client-certificate: cannot read .*c.crt",
            id="no such certificate",
        ),
        pytest.param(
            config(user={"token": 12345}), r"users\[0\].user.token: expected a string, got a number$", id="number"
        ),
        pytest.param(
            config({"server": "http://me:secret@here:99999"}),
            r"of \S+: server must be an address",
            id="with password",
        ),
        pytest.param({"clusters": [None]}, r"clusters\[0\]: expected a mapping, got nothing$", id="null"),
        pytest.param({"clusters": [{}]}, r"clusters\[0\]: object missing required field name$", id="no name"),
        pytest.param(config(user={"tokenFile": "gone"}), "tokenFile .*gone does not exist", id="no such token"),
        pytest.param(
            config(user={"username": "u", "password": "p"}),
            "username and password are not accepted .*; use a token",
            id="password",
        ),
        pytest.param(
            config(user={"auth-provider": {"name": "gcp", "config": {}}}),
            "auth-provider 'gcp' was removed from Kubernetes; recreate the kubeconfig",
            id="auth provider",
        ),
        pytest.param(config(user={"as-groups": ["g"]}), "as-groups and as-user-extra need as", id="groups"),
        pytest.param(config(user={"exec": {}}), "exec has no command", id="plugin without command"),
        pytest.param(
            config(user=plugin(apiVersion="client.authentication.k8s.io/v1alpha1")),
            "exec.apiVersion is 'client.authentication.k8s.io/v1alpha1', accepted are .*/v1 and .*/v1beta1",
            id="old plugin",
        ),
        pytest.param(
            config(user=plugin(interactiveMode="Sometimes")),
            "exec.interactiveMode is 'Sometimes', accepted are Never, IfAvailable, Always",
            id="interactive mode",
        ),
    ],
)
def test_mistakes_name_the_file(content: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(AccessError, match=message) as caught:
        find_access(path)
    assert str(tmp_path) in str(caught.value)


def test_an_unsupported_proxy_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "config", config())
    monkeypatch.setenv("HTTPS_PROXY", "https://secure-proxy")
    with pytest.raises(AccessError, match=r"HTTPS_PROXY must be an address .*exclude the server .* with NO_PROXY"):
        find_access(path)
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert find_access(path).proxy is None


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        pytest.param({"token": "t"}, {"Authorization": "Bearer t"}, id="token"),
        pytest.param({"tokenFile": "file"}, {"Authorization": "Bearer from-file"}, id="token in a file"),
        pytest.param({"token": "t", "tokenFile": "file"}, {"Authorization": "Bearer from-file"}, id="the file wins"),
        pytest.param({"token": "t"} | plugin(), {"Authorization": "Bearer t"}, id="a token beats a plugin"),
        pytest.param(
            {"token": "t", "as": "jane", "as-uid": "7"},
            {"Authorization": "Bearer t", "Impersonate-User": "jane", "Impersonate-Uid": "7"},
            id="impersonation",
        ),
        pytest.param(
            {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"acme.com/team": ["x"]}},
            {
                "Authorization": "Bearer t",
                "Impersonate-User": "jane",
                "Impersonate-Group": ("a", "b"),
                "Impersonate-Extra-acme.com%2Fteam": ("x",),
            },
            id="impersonation of a member of groups",
        ),
        pytest.param({}, {}, id="anonymous"),
    ],
)
def test_auth_headers(user: dict[str, Any], headers: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "file", "from-file\n")
    access = find_access(write(tmp_path / "config", config(user=user)))
    assert asyncio.run(access.credentials.renew()) == headers


@pytest.mark.parametrize(
    "text", ["users:\n- user: {token: s3cr3t\n  name: [x", "users:\n- user: {token: !!int s3cr3t}"]
)
def test_a_message_never_shows_a_secret(text: str, tmp_path: Path) -> None:
    with pytest.raises(AccessError) as caught:
        find_access(write(tmp_path / "config", text))
    assert "s3cr3t" not in str(caught.value)


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(tmp_path: Path, pki: Pki) -> None:
    from cryptography.hazmat.primitives import serialization

    key = pki.authority_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = {"client-certificate": pki.path("ca.crt"), "client-key": write(tmp_path / "key", key.decode())}
    with pytest.raises(AccessError, match="the key is protected by a passphrase"):
        find_access(write(tmp_path / "config", config(user=user)))


def test_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match=r"cannot read the kubeconfig .*gone: no such file"):
        find_access(str(tmp_path / "gone"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a{os.pathsep}{tmp_path}/b")
    with pytest.raises(AccessError, match=r"none of the files of KUBECONFIG exists: .*a, .*b; correct the variable"):
        find_access(None)


def test_a_home_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is too long fails for root too."""
    home = tmp_path / ("h" * 300)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(AccessError, match="no cluster to connect to"):
        find_access(None)
    monkeypatch.setenv("KUBECONFIG", f"{home / 'config'}:{tmp_path / 'other'}")
    with pytest.raises(AccessError, match=r"cannot read the kubeconfig .*: cannot be read: file name too long"):
        find_access(None)


def test_no_cluster() -> None:
    with pytest.raises(AccessError, match=r"no cluster to connect to: .*name a file with --kubeconfig"):
        find_access(None)


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.96.0.1", "https://10.96.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6"),
    ],
)
def test_in_a_pod(host: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    write(tmp_path / "account/ca.crt", Path(pki.path("ca.crt")).read_text())
    write(tmp_path / "account/token", "t")
    assert _found(find_access(None)) == (server, "default", "in-cluster")
    write(tmp_path / "account/namespace", "pumice-system\n")
    assert find_access(None).namespace == "pumice-system"


def test_a_pod_without_a_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(AccessError, match=r"cannot read .*ca.crt.*automountServiceAccountToken: true"):
        find_access(None)
    write(tmp_path / "account/ca.crt", "no certificate")
    with pytest.raises(AccessError, match="token does not exist"):
        find_access(None)
    write(tmp_path / "account/token", "t")
    with pytest.raises(AccessError, match=r"ca.crt is not a certificate authority in PEM form"):
        find_access(None)

from __future__ import annotations

import socket

import pytest
import yaml

from tests.unit.cli.running import Terminal


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test on any attempt to open a connection."""

    def refused(*_: object) -> None:
        raise AssertionError("install opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.mark.usefixtures("offline")
def test_manifests_are_printed_without_contacting_a_cluster(terminal: Terminal) -> None:
    code, out, err = terminal.run("install", "--image=a")
    assert (code, err) == (0, "")
    kinds = [document["kind"] for document in yaml.safe_load_all(out)]
    assert kinds[0] == "Namespace"
    assert {"Deployment", "ClusterRole", "CustomResourceDefinition", "ValidatingWebhookConfiguration"} <= set(kinds)
    assert terminal.run("install", "--image=a") == (code, out, err)


def test_an_image_that_is_not_named_is_warned_of(terminal: Terminal) -> None:
    code, out, err = terminal.run("install")
    assert (code, out.count("image: pumice:")) == (0, 2)
    assert err.startswith("pumice install: warning: no --image: the pods use pumice:")
    assert "add --image NAME" in err


@pytest.mark.parametrize(
    ("flags", "definitions"),
    [
        pytest.param((), ["jobs", "commands"], id="auto"),
        pytest.param(("--gang", "volcano"), ["jobs", "commands", "podgroups", "queues"], id="volcano"),
        pytest.param(("--gang", "native"), ["jobs", "commands"], id="native"),
    ],
)
def test_crds_only(terminal: Terminal, flags: tuple[str, ...], definitions: list[str]) -> None:
    code, out, err = terminal.run("install", "--crds-only", *flags)
    assert (code, err) == (0, "")
    documents = list(yaml.load_all(out, yaml.CSafeLoader))
    assert {document["kind"] for document in documents} == {"CustomResourceDefinition"}
    assert [document["spec"]["names"]["plural"] for document in documents] == definitions


def test_the_printed_yaml_reads_back_as_the_definitions(terminal: Terminal) -> None:
    from pumice.engines.kubernetes.install.crds import custom_resources

    out = terminal.run("install", "--crds-only", "--gang=volcano").out
    assert list(yaml.load_all(out, yaml.CSafeLoader)) == custom_resources(volcano=True)


def test_image_of_the_workloads(terminal: Terminal) -> None:
    out = terminal.run("install", "--image", "example.org/pumice:1").out
    assert out.count("image: example.org/pumice:1\n") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--namespace=Big"], "--namespace Big: must be lower-case letters", id="invalid namespace"),
        pytest.param(["--namespace=default"], "must be a namespace for Pumice alone", id="default namespace"),
        pytest.param(["--namespace=kube-system"], "must be a namespace for Pumice alone", id="system namespace"),
        pytest.param(["--json"], "--json needs --check", id="flag of --check without it"),
        pytest.param(["--context=a"], "--context need --check or --upgrade", id="cluster without --check or --upgrade"),
        pytest.param(
            ["--upgrade", "--no-webhook"], "--upgrade keeps what is installed", id="upgrade to something else"
        ),
        pytest.param(["--upgrade", "--kubeconfig=nosuch"], "pumice install: ", id="upgrade without a kubeconfig"),
        pytest.param(["--gang=kueue"], "invalid choice: 'kueue'", id="unknown provider"),
        pytest.param(["--check", "--kubeconfig=nosuch"], "pumice install: ", id="missing kubeconfig"),
    ],
)
def test_bad_input(terminal: Terminal, words: list[str], message: str) -> None:
    code, out, err = terminal.run("install", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--network-policy"], "--network-policy needs --apiserver-cidr CIDR", id="no range"),
        pytest.param(["--apiserver-cidr=192.0.2.1/32"], "--apiserver-cidr needs --network-policy", id="no policy"),
        pytest.param(
            ["--network-policy", "--apiserver-cidr=master"], "--apiserver-cidr master: must be a range", id="a name"
        ),
        pytest.param(
            ["--network-policy", "--apiserver-cidr=192.0.2.1/24"], "192.0.2.1/24: must be a range", id="host bits"
        ),
        pytest.param(
            ["--network-policy", "--apiserver-cidr=192.0.2.1/32", "--crds-only"], "cannot be combined", id="CRDs only"
        ),
    ],
)
def test_bad_flags_of_the_network_policies(terminal: Terminal, words: list[str], message: str) -> None:
    code, out, err = terminal.run("install", "--image=a", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_network_policies_are_printed_on_request(terminal: Terminal) -> None:
    flags = ("--network-policy", "--apiserver-cidr=192.0.2.10", "--apiserver-cidr=2001:db8::/64")
    code, out, err = terminal.run("install", "--image=a", *flags)
    assert (code, err) == (0, "")
    policies = [each for each in yaml.load_all(out, yaml.CSafeLoader) if each["kind"] == "NetworkPolicy"]
    assert [each["metadata"]["name"] for each in policies] == ["pumice-controller", "pumice-webhook"]
    assert policies[1]["spec"]["ingress"][0]["from"] == [
        {"ipBlock": {"cidr": "192.0.2.10/32"}},
        {"ipBlock": {"cidr": "2001:db8::/64"}},
    ]

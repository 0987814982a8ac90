from __future__ import annotations

import socket

import pytest
import yaml

from pumice.cli.cluster import install
from tests.unit.cli.running import Terminal


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to contact something fails the test."""

    def refused(*_: object) -> None:
        raise AssertionError("something was contacted")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.mark.usefixtures("offline")
def test_manifests_are_printed_and_nothing_is_contacted(terminal: Terminal) -> None:
    code, out, err = terminal.run("install")
    assert (code, err) == (0, "")
    kinds = [document["kind"] for document in yaml.safe_load_all(out)]
    assert kinds[0] == "Namespace"
    assert {"Deployment", "ClusterRole", "CustomResourceDefinition", "ValidatingWebhookConfiguration"} <= set(kinds)
    assert terminal.run("install") == (code, out, err)


@pytest.mark.parametrize(
    ("flags", "definitions"),
    [
        pytest.param((), ["jobs", "commands"], id="auto"),
        pytest.param(("--gang", "volcano"), ["jobs", "commands", "podgroups", "queues"], id="volcano"),
        pytest.param(("--gang", "native"), ["jobs", "commands"], id="native"),
    ],
)
def test_definitions_alone(terminal: Terminal, flags: tuple[str, ...], definitions: list[str]) -> None:
    code, out, err = terminal.run("install", "--crds-only", *flags)
    assert (code, err) == (0, "")
    documents = list(yaml.safe_load_all(out))
    assert {document["kind"] for document in documents} == {"CustomResourceDefinition"}
    assert [document["spec"]["names"]["plural"] for document in documents] == definitions


def test_what_is_printed_is_what_was_made(terminal: Terminal) -> None:
    """The YAML writer loses nothing of patterns, empty texts and numbers."""
    from pumice.engines.kubernetes.install.crds import custom_resources

    out = terminal.run("install", "--crds-only", "--gang=volcano").out
    assert list(yaml.safe_load_all(out)) == custom_resources(volcano=True)


def test_the_image(terminal: Terminal) -> None:
    out = terminal.run("install", "--image", "example.org/pumice:1").out
    assert out.count("image: example.org/pumice:1\n") == 2
    assert terminal.run("install").out.count("image: pumice:") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--namespace=Big"], "--namespace Big: must be lower-case letters", id="no name"),
        pytest.param(["--namespace=default"], "Pumice needs a namespace of its own", id="everybody's"),
        pytest.param(["--namespace=kube-system"], "Pumice needs a namespace of its own", id="the system's"),
        pytest.param(["--json"], "--json belong to --check", id="a flag of --check"),
        pytest.param(["--gang=kueue"], "invalid choice: 'kueue'", id="no provider"),
        pytest.param(["--check", "--kubeconfig=nosuch"], "pumice install: ", id="no kubeconfig"),
    ],
)
def test_bad_input(terminal: Terminal, words: list[str], message: str) -> None:
    code, out, err = terminal.run("install", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_the_width_of_subjects_holds_all_of_them() -> None:
    assert len("definition of Command") < install._SUBJECT_WIDTH

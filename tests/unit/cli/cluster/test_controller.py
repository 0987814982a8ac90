from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from pumice.cli.cluster.controller import namespaces, switched_on
from tests.unit.cli.running import UNREACHABLE, Terminal

pytestmark = pytest.mark.usefixtures("logs_as_before")


def error_of(terminal: Terminal, *words: str) -> str:
    config = terminal.folder / "config"
    config.write_text(UNREACHABLE)
    code, out, err = terminal.run("controller", f"--kubeconfig={config}", *words)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--metrics-listen=8081"], "--metrics-listen: 8081: must be", id="metrics without host"),
        pytest.param(["--listen=8081"], "--listen: 8081: must be HOST:PORT", id="listen without host"),
        pytest.param(["--workers=0"], "--workers: 0: must be a number, 1 or more", id="no workers"),
        pytest.param(["--parallel-writes=many"], "--parallel-writes: many: must be", id="not a number"),
        pytest.param(["--gang=all"], "argument --gang: all: must be one of auto, volcano,", id="unknown provider"),
        pytest.param(["--namespace=Team A"], "--namespace: Team A: ", id="invalid namespace"),
        pytest.param(["--kubeconfig=nosuch"], "nosuch", id="missing kubeconfig"),
        pytest.param(["--context=nosuch"], "nosuch", id="missing context"),
    ],
)
def test_bad_input(terminal: Terminal, words: list[str], message: str) -> None:
    assert message in error_of(terminal, *words)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param("GANG", "all", "argument --gang: all: must be one of auto, volcano,", id="gang"),
        pytest.param("LOG_LEVEL", "loud", "argument --log-level: loud: must be one of debug,", id="log level"),
        pytest.param("LOG_FORMAT", "xml", "argument --log-format: xml: must be one of text, json", id="log format"),
        pytest.param("WORKERS", "-1", "--workers: -1: must be", id="workers"),
        pytest.param("NAMESPACE", "a, B", "--namespace: B: ", id="namespace"),
        pytest.param("NO_LEADER_ELECT", "perhaps", "--no-leader-elect: perhaps: ", id="boolean flag"),
    ],
)
def test_bad_input_from_the_environment(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"PUMICE_{name}", value)
    assert message in error_of(terminal)


def test_an_address_in_use(terminal: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert f"--listen: {address}: " in error_of(terminal, f"--listen={address}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([""], (), id="all"),
        pytest.param(["a", "b", "a"], ("a", "b"), id="without duplicates"),
        pytest.param(["a, b,", "c"], ("a", "b", "c"), id="separated by commas"),
    ],
)
def test_namespaces(given: list[str], expected: tuple[str, ...]) -> None:
    assert namespaces(given) == expected


@pytest.mark.parametrize(
    ("word", "expected"), [("", False), ("0", False), ("False", False), ("1", True), ("TRUE", True)]
)
def test_boolean_flags_from_the_environment(monkeypatch: pytest.MonkeyPatch, word: str, expected: bool) -> None:
    monkeypatch.setenv("PUMICE_NO_LEADER_ELECT", word)
    assert switched_on("no-leader-elect") is expected


@pytest.mark.parametrize("command", ["controller", "webhook"])
def test_without_the_extra_the_command_to_install_it_is_printed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert terminal.run(command) == (
        2,
        "",
        f"pumice {command}: not installed: prometheus-client\n  hint: pip install 'pumice[controller]'\n",
    )


WITHOUT_EXTRA = """
import sys
sys.modules |= dict.fromkeys(("uvloop", "prometheus_client"))
import pumice, pumice.testing
from pumice.cli.main import COMMANDS, main
for command in COMMANDS:
    try:
        main([command, "--help"])
    except SystemExit as end:
        assert end.code == 0, command
assert main(["install", "--crds-only"]) == 0
"""


def test_nothing_else_needs_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

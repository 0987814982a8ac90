from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.running import UNREACHABLE, Terminal

pytestmark = pytest.mark.usefixtures("logs_as_before")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--listen=9443"], "must be HOST:PORT", id="listen without host"),
        pytest.param(["--listen=127.0.0.1:99999"], "must be HOST:PORT", id="port out of range"),
        pytest.param(
            ["--register", "--listen=0.0.0.0:9443"], "that the API server can reach", id="register on all addresses"
        ),
        pytest.param(
            ["--register", "--listen=[::]:9443"], "that the API server can reach", id="register on all IPv6 addresses"
        ),
        pytest.param(["--register", "--service=a"], "use one of them", id="register and service"),
        pytest.param(["--service=a", "--state=b"], "--state is for a webhook outside", id="state and service"),
        pytest.param(["--metrics-listen=8080"], "--metrics-listen: 8080: must be HOST:PORT", id="metrics without host"),
        pytest.param(["--client-ca=nosuch"], "--client-ca: nosuch: no such file", id="client CA not found"),
        pytest.param(["--client-ca=config"], "must be a file of certificates in PEM", id="no client CA"),
        pytest.param(["--kubeconfig=nosuch"], "nosuch", id="missing kubeconfig"),
        pytest.param(["--register", "--listen=127.0.0.1:0"], "could not register", id="unreachable cluster"),
    ],
)
def test_bad_input(terminal: Terminal, words: list[str], message: str) -> None:
    config = terminal.folder / "config"
    config.write_text(UNREACHABLE)
    if not any(word.startswith("--kubeconfig") for word in words):
        words = [*words, f"--kubeconfig={config}"]
    code, out, err = terminal.run("webhook", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_flags_can_be_set_in_the_environment(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PUMICE_LISTEN", "nonsense")
    monkeypatch.setenv("PUMICE_KUBECONFIG", str(tmp_path / "nosuch"))
    assert "--listen: nonsense: must be HOST:PORT" in terminal.run("webhook").err

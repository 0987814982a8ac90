from __future__ import annotations

import pytest

from pumice.cli.main import COMMANDS
from pumice.cli.offline.completion import SCRIPTS
from tests.unit.cli.running import Terminal


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_command_and_flag_is_in_the_script(name: str, terminal: Terminal) -> None:
    result = terminal.run("completion", name)
    assert (result.code, result.err) == (0, "")
    assert all(command in result.out for command in COMMANDS)
    for flag in ("--workdir-read-only", "--show-secrets", "--kubeconfig"):
        assert (flag if name != "fish" else f"-l {flag[2:]}") in result.out


def test_without_a_shell(terminal: Terminal) -> None:
    assert terminal.run("completion") == (
        2,
        "",
        "pumice completion: which shell?\n  hint: there are bash, zsh, fish\n",
    )


def test_names(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
    assert "pytorch\n" in terminal.run("completion", "--names", "plugins").out
    assert terminal.run("completion", "--names", "runs") == (0, "@last\n", "")
    assert terminal.run("completion", "--names", "pods").code == 2

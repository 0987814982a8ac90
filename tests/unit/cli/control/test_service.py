"""`pumice service install|uninstall`: the unit of the user's systemd, with a fake systemctl."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pumice.cli.main import main


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a systemctl on the PATH that records its arguments."""
    program, noted = tmp_path / "bin/systemctl", tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$@\" >> '{noted}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    return noted


def test_install_and_uninstall(calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = tmp_path / ".config/systemd/user/pumice.service"
    assert main(["service", "install"]) == 0
    assert capsys.readouterr().out == f"{unit}\n"
    command = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    assert f"-m pumice.engines.local.service '{tmp_path}/a state/pumice'" in command
    assert "KillMode=process" in unit.read_text().splitlines(), "the runs go on when the service ends"
    assert calls.read_text().splitlines() == ["--user daemon-reload", "--user enable pumice.service"]
    assert main(["service", "uninstall"]) == 0
    assert not unit.exists()
    assert calls.read_text().splitlines()[2:] == ["--user disable pumice.service"]
    assert main(["service", "uninstall"]) == 0
    assert capsys.readouterr().err.endswith("no unit is installed\n")


def test_without_systemd(calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\necho 'no bus' >&2; exit 1\n")
    assert main(["service", "install"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("no bus\nsystemd did not accept it: start it at login with\n  ")
    assert not calls.exists()

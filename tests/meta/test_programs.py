"""How missing programs are installed: services in their packages are not started."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.programs import apt_get

# What the script of openssh-server in Debian 12 calls when it is configured.
CONFIGURE = """\
update-rc.d ssh defaults >/dev/null
invoke-rc.d --skip-systemd-native ssh start || exit 1
deb-systemd-helper unmask ssh.service
if deb-systemd-helper --quiet was-enabled ssh.service; then
    deb-systemd-helper enable ssh.service
else
    deb-systemd-helper update-state ssh.service
fi
systemctl --system daemon-reload
deb-systemd-invoke start rescue-ssh.target ssh.service
"""
REAL = ("invoke-rc.d", "update-rc.d", "deb-systemd-invoke", "deb-systemd-helper", "systemctl")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs that record how they are called, with an apt-get that runs the script of a package."""
    programs = tmp_path / "sbin"
    programs.mkdir()
    for name in REAL:
        fake(programs / name, f"echo \"{name} $*\" >> '{tmp_path}/calls'")
    path = 'case "$word" in --option=DPkg::Path=*) PATH=${word#*Path=};; esac'
    fake(programs / "apt-get", f"PATH={programs}:/usr/bin:/bin\nfor word; do {path}; done\n{CONFIGURE}")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return programs


def fake(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\nset -e\n{script}\n")
    program.chmod(0o755)


def test_services_are_neither_started_nor_enabled(machine: Path, tmp_path: Path) -> None:
    before = sorted(machine.iterdir())
    assert apt_get(["openssh-server"], f"{machine}:/usr/bin:/bin") == ""
    assert (tmp_path / "calls").read_text().splitlines() == [
        "update-rc.d ssh defaults-disabled",
        "deb-systemd-helper unmask ssh.service",
        "deb-systemd-helper update-state ssh.service",
        "systemctl --system daemon-reload",
    ]
    assert sorted(machine.iterdir()) == before, "no policy for the whole machine, which could stay there"


def test_after_new_lists_services_are_not_started_either(machine: Path, tmp_path: Path) -> None:
    once = f"case \"$*\" in update*) touch '{tmp_path}/lists'; exit 0;; esac\n[ -e '{tmp_path}/lists' ] || exit 100\n"
    text = (machine / "apt-get").read_text()
    fake(machine / "apt-get", once + text)
    assert apt_get(["openssh-server"], f"{machine}:/usr/bin:/bin") == ""
    assert "start" not in (tmp_path / "calls").read_text()


def test_the_cause_of_a_failure_is_the_last_line(machine: Path) -> None:
    fake(machine / "apt-get", "echo 'E: first' >&2; echo 'E: no route to host' >&2; exit 100")
    assert apt_get(["openssh-server"], f"{machine}:/usr/bin:/bin") == "E: no route to host"

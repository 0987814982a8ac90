"""The outside programs that tests start: what for, and how to get them.

A test says `@pytest.mark.needs("busybox")`; tests/conftest.py looks the name up here. `make test` prints the table and,
as root on Debian, installs what is missing; services of the packages are not started, now or at the next boot.
Elsewhere it only reports. Facilities of the kernel do not belong here: they cannot be installed, so a test that needs
one probes for it and skips with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Installs Debian packages; what it returns is empty, or says what went wrong.
Install = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    package: str
    used_for: str

    @property
    def found(self) -> bool:
        # Daemons are in directories that are not on an ordinary user's PATH.
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        return shutil.which(self.name, path=path) is not None

    @property
    def how_to_get(self) -> str:
        return f"apt-get install {self.package}"


PROGRAMS = (
    Program("bash", "bash", "runs the scripts that plugins put into pods"),
    Program("busybox", "busybox", "runs the wait-for-master script as a small image would"),
    Program("chromium", "chromium", "shows the page of pumice ui"),
    Program("dash", "dash", "runs the wait-for-master script as a Debian image would"),
    Program("docker-registry", "docker-registry", "the registry from which images are pulled"),
    Program("fish", "fish", "completes the words of commands"),
    Program("git", "git", "makes the repositories whose code is recorded"),
    Program("gdb", "gdb", "debugs a process in a pod"),
    Program("mpiexec", "openmpi-bin", "runs the MPI job of the examples"),
    Program("pasta", "passt", "outbound traffic of pods"),
    Program("slirp4netns", "slirp4netns", "outbound traffic of pods, where pasta is missing"),
    Program("ssh-keygen", "openssh-client", "reads the generated ssh keys back"),
    Program("sshd", "openssh-server", "lets the pods of the MPI job reach each other"),
    Program("zsh", "zsh", "completes the words of commands"),
)


def named(name: str) -> Program:
    for program in PROGRAMS:
        if program.name == name:
            return program
    raise LookupError(f"{name}: no such program in scripts/programs.py, add it there")


def provide(
    programs: Sequence[Program], *, install: Callable[[Sequence[str]], str] | None
) -> tuple[str, list[Program]]:
    """Install missing programs if possible; return a table of the result, and what is still missing."""
    missing_before = [program for program in programs if not program.found]
    failure = install([program.package for program in missing_before]) if install and missing_before else ""
    missing = [program for program in missing_before if not program.found]
    rows = []
    for program in programs:
        if program in missing:
            state = f"missing: {program.how_to_get}"
        else:
            state = "installed now" if program in missing_before else "found"
        rows.append(f"  {program.name:<12} {state:<42} {program.used_for}")
    if failure:
        rows.append(f"  apt-get: {failure}")
    return "\n".join(rows), missing


# What apt gives to dpkg as PATH.
_DPKG_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# The programs by which the scripts of packages start services and enable them for the next boot. They are replaced for
# one call of apt-get only: a policy-rc.d would hold for the whole machine, stay if this process is killed, and let the
# service start at the next boot.
_REPLACED = {
    "invoke-rc.d": "exit 0",
    "deb-systemd-invoke": "exit 0",
    "deb-systemd-helper": (
        'case " $* " in *" was-enabled "*) exit 1;; esac\nPATH=${PATH#*:}\nexec deb-systemd-helper "$@"'
    ),
    "update-rc.d": 'PATH=${PATH#*:}\n[ "$2" != defaults ] || set -- "$1" defaults-disabled\nexec update-rc.d "$@"',
}


def apt_get(packages: Sequence[str], path: str = _DPKG_PATH) -> str:
    """Install Debian packages without starting their services; empty, or the last line of what went wrong."""
    # needrestart, where it is installed, restarts services of other packages.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
    # Another apt-get, such as the one of the daily upgrade, may hold the lock: wait for it.
    install = ["apt-get", "install", "--option=DPkg::Lock::Timeout=300", "--quiet", "--yes", "--no-install-recommends"]
    install += packages
    with _no_services() as replaced:
        install[1:1] = [f"--option=DPkg::Path={replaced}:{path}"]
        # The lists are fetched only if the machine has none, or too old ones: that takes longer than the packages.
        for command in (install, ["apt-get", "update", "--quiet"], install):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if command is install and done.returncode == 0:
                return ""
    return (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]


@contextmanager
def _no_services() -> Iterator[str]:
    """Yield a directory with the programs that replace those which start services."""
    # Programs can be started from where Python was; from /tmp not everywhere.
    with tempfile.TemporaryDirectory(prefix="no-services-", dir=sys.prefix) as directory:
        for name, script in _REPLACED.items():
            program = Path(directory) / name
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
        yield directory


def installer() -> Install | None:
    """`apt_get` where it may be used: on Debian and its kin, as root."""
    return apt_get if os.geteuid() == 0 and shutil.which("apt-get") else None

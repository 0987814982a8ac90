"""containerd, runc and the CNI plugins: the system's own, or Debian's, unpacked into the user's cache directory.

The packages are not installed: that would start a containerd on this machine, or replace the one of Docker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.user_cache import cache_directory

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
PLUGINS = ("bridge", "host-local", "loopback")
PLUGIN_FOLDERS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
PACKAGES = ("containerd", "runc", "containernetworking-plugins")
_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


class PackagesError(Exception):
    """Why containerd is not available; printed to the user as it is."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """`path` is where PROGRAMS are found, `plugins` the directory of the CNI plugins."""

    path: str
    plugins: str


def find_or_unpack(environ: Mapping[str, str]) -> Runtime:
    """Raises PackagesError."""
    path = os.pathsep.join([environ.get("PATH", os.defpath), *_PATH])
    unpacked = cache_directory("kubelet", environ) / "packages"
    return _find(path, PLUGIN_FOLDERS) or _find_in(unpacked, path) or _unpack(unpacked, path)


def _find(path: str, folders: tuple[str, ...]) -> Runtime | None:
    if any(shutil.which(program, path=path) is None for program in PROGRAMS):
        return None
    for folder in folders:
        if all(os.access(Path(folder, plugin), os.X_OK) for plugin in PLUGINS):
            return Runtime(path, folder)
    return None


def _find_in(root: Path, path: str) -> Runtime | None:
    first = [str(root / folder) for folder in ("usr/bin", "usr/sbin")]
    return _find(os.pathsep.join([*first, path]), (str(root / "usr/lib/cni"), *PLUGIN_FOLDERS))


def _unpack(root: Path, path: str) -> Runtime:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        wanted = f"{', '.join(PROGRAMS)} on PATH and the CNI plugins in {' or '.join(PLUGIN_FOLDERS)}"
        raise PackagesError(f"{wanted}; only on Debian and its kin can they be fetched")
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix="unpacking-") as folder:
        made = Path(folder, "made")
        made.mkdir()
        download = ["apt-get", "--quiet", "--option=APT::Sandbox::User=root", "download", *PACKAGES]
        _call(download, Path(folder))
        for package in Path(folder).glob("*.deb"):
            _call(["dpkg-deb", "--extract", str(package), str(made)], Path(folder))
        shutil.rmtree(root, ignore_errors=True)
        made.rename(root)
    found = _find_in(root, path)
    if found is None:
        raise PackagesError(f"Debian's packages {', '.join(PACKAGES)} lack one of {', '.join(PROGRAMS + PLUGINS)}")
    return found


def _call(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = "\n".join(f"    {line}" for line in done.stderr.strip().splitlines()[-4:])
        raise PackagesError(f"`{' '.join(command)}` failed; `apt-get update` may help:\n{lines}")

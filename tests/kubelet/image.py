"""The images of the containers, without a registry: this machine's files, as for `pumice run`.

An image holds empty directories, links such as /bin, and a small /etc; /usr and the environment of torch are mounted
read-only into every container by the base spec of the container runtime. So nothing large is copied. The container
that holds the namespaces of a pod has no such mounts: for it, the image has `sleep` and its libraries.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.meta.tree import ROOT

PAUSE = "pumice.test/pause:1"
BUSYBOX = "docker.io/library/busybox:1.36.1"
PYTHON = "docker.io/library/python:3.12-slim"
PYTORCH = "gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"
PUMICE = "pumice.test/pumice:1"
TOOLLESS = "pumice.test/toolless:1"  # no program is found in it by name
MPI = "docker.io/volcanosh/example-mpi:0.0.1"
PROGRAMS = "/opt/pumice/bin"
PATH = f"{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

FOLDERS = {"etc": 0o755, "etc/ssh": 0o755, "home": 0o755, "opt/pumice/bin": 0o755, "proc": 0o755, "root": 0o755}
FOLDERS |= {"run": 0o755, "sys": 0o755, "tmp": 0o1777, "usr": 0o755, "var": 0o755, "var/tmp": 0o1777, "dev": 0o755}
# Which program a name stands for, and where libraries are, is the machine's to say.
COPIED = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/openmpi",
    "/etc/nsswitch.conf",
)
PASSWD = """root:x:0:0:root:/root:/bin/sh
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
SHADOW = "root:*:20000:0:99999:7:::\n"  # without it, sshd takes the account to be locked
GROUP = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"
# Open MPI starts its programs by ssh, where PATH is not that of the container.
SSHD = f"UsePAM no\nSetEnv PATH={PATH}\n"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SLEEP = "/usr/bin/sleep"
# Names that programs have in the images, but maybe not on this machine.
LINKS = {f"{PROGRAMS}/python": "/usr/bin/python3", f"{PROGRAMS}/wget": "/usr/bin/busybox"}
STAND_INS = {"mpi_hello_world": f"{PROGRAMS}/mpi_hello_world", "sendrecv.py": "/opt/pumice/sendrecv.py"}


def write_archive(file: Path, folder: Path, python: str) -> None:
    """Write an OCI archive with every image; all have the same layer."""
    entrypoints = {
        PAUSE: [SLEEP, "infinity"],
        BUSYBOX: ["/bin/sh"],
        MPI: ["/bin/sh"],
        PYTHON: ["/usr/bin/python3"],
        TOOLLESS: ["/usr/bin/python3"],
        PUMICE: [str(Path(sys.executable).with_name("pumice"))],
        PYTORCH: [python or "/usr/bin/python3", STAND_INS["sendrecv.py"]],
    }
    with tarfile.open(file, "w") as archive:
        layer = _layer(folder)
        layer_blob = _add_blob(archive, layer, "application/vnd.oci.image.layer.v1.tar")
        manifests = [_manifest(archive, layer_blob, name, command) for name, command in entrypoints.items()]
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
        _add(archive, "index.json", json.dumps(index).encode())
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def _manifest(archive: tarfile.TarFile, layer: dict[str, object], name: str, command: list[str]) -> dict[str, object]:
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": [f"PATH={'/nonexistent' if name == TOOLLESS else PATH}"], "Entrypoint": command},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _add_blob(archive, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [layer],
    }
    blob = _add_blob(archive, json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    return {**blob, "annotations": {"io.containerd.image.name": name}}


def _layer(folder: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for name, mode in FOLDERS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            layer.addfile(entry)
        links = {
            path.name: str(path.readlink()) for path in Path("/").glob("*") if path.name in _TOP and path.is_symlink()
        }
        for name, target in {**links, **LINKS, "var/run": "/run"}.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
        for name in COPIED:
            if Path(name).exists():
                layer.add(name, name.lstrip("/"))
        for name, text in {"passwd": PASSWD, "shadow": SHADOW, "group": GROUP, "ssh/sshd_config": SSHD}.items():
            _add(layer, f"etc/{name}", text.encode())
        for key in ("ed25519", "rsa"):
            made = folder / f"ssh_host_{key}_key"
            subprocess.run(["ssh-keygen", "-q", "-t", key, "-N", "", "-f", str(made)], check=True)
            _add(layer, f"etc/ssh/{made.name}", made.read_bytes(), 0o600)
        for file in (Path(SLEEP), *_libraries(SLEEP)):
            _add(layer, str(file).lstrip("/"), file.read_bytes(), 0o755)
        for name, path in STAND_INS.items():
            _add(layer, path.lstrip("/"), (ROOT / "examples" / "stand-ins" / name).read_bytes(), 0o755)
    return content.getvalue()


def _libraries(program: str) -> list[Path]:
    """Return the libraries of a program, by paths without links to directories such as /lib."""
    printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = [Path(path) for path in re.findall(r"(/\S+)", printed)]
    return [path.parent.resolve() / path.name for path in found]


_TOP = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_blob(archive: tarfile.TarFile, content: bytes, media_type: str) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

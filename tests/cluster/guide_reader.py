"""Types the commands of a guide as it shows them, with kubectl, a stand-in for podman and a kubeconfig."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import Cluster, free_port
from tests.docs.console import ENVIRONMENT
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

GUIDES = ROOT / "docs" / "guides"
# The sections of each page whose commands test_guides.py types; tests/docs checks that there are no others.
FOLLOWED = {
    "install.md": (
        "Install",
        "Check the installation",
        "Run outside of the cluster",
        "Upgrade",
        "Uninstall",
    ),
    "operations.md": ("Webhook", "Maintenance"),
    "moving-from-volcano.md": ("With the rest of Volcano",),
}
# An address of the documentation's network (RFC 5737) stands for one of this machine.
_ADDRESS = "192.0.2.10:9443"
_BLOCK = re.compile(r"^(?P<indent> *)```sh\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
# Checks what a real podman would: the recipe of the image, and that an image was built before it is pushed.
_PODMAN = """\
#!/bin/sh -e
case "$1 $2 $4" in
'build --tag --file') test -f "$5" && test -d "$6" && echo "$3" >> "$HOME/built" ;;
'push '*) grep -qxF "$2" "$HOME/built" && echo "$2" >> "$HOME/registry" ;;
*) echo "podman: $*" >&2; exit 125 ;;
esac
"""
# Carries out the edit that the guide describes in a comment.
_EDITOR = """\
#!/bin/sh -e
sed -i 's/- --leader-elect=false/- "--controllers=*,-job-controller,-gc-controller,-sharding-controller"/' "$1"
"""


def commands(page: str, heading: str = "") -> list[str]:
    """Return the commands of a page, or of the section with this heading."""
    text = (ROOT / page if page == "README.md" else GUIDES / page).read_text(encoding="utf-8")
    if heading:
        _, found, text = text.partition(f"\n## {heading}\n")
        assert found, f"{page} has no section {heading}"
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    lines = [line for block in _BLOCK.finditer(text) for line in textwrap.dedent(block["text"]).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@dataclass(slots=True)
class Reader:
    """A reader with a home directory of their own, in a checkout of Pumice."""

    cluster: Cluster
    home: Path

    def __post_init__(self) -> None:
        (self.home / "bin").mkdir(parents=True)
        (self.home / ".kube").mkdir()
        (self.home / "registry").touch()
        self.cluster.kubeconfig().rename(self.home / ".kube" / "config")
        for name, script in (("podman", _PODMAN), ("editor", _EDITOR)):
            (self.home / "bin" / name).write_text(script)
            (self.home / "bin" / name).chmod(0o755)
        (self.home / "bin" / "kubectl").symlink_to(self.cluster.programs.path("kubectl"))

    def environ(self) -> dict[str, str]:
        path = os.pathsep.join((str(self.home / "bin"), str(ENVIRONMENT / "bin"), os.defpath))
        return {"PATH": path, "HOME": str(self.home), "KUBE_EDITOR": "editor", "LC_ALL": "C.UTF-8"}

    def push(self, image: str) -> None:
        """Push an image of another version, which the guide does not build."""
        with (self.home / "registry").open("a") as registry:
            registry.write(f"{image}\n")

    def follow(self, page: str, heading: str = "") -> None:
        """Type the commands of a section, each of which must succeed."""
        for command in commands(page, heading):
            self.type(command)

    def type(self, command: str, code: int = 0) -> str:
        """Type a command as it is and return what it prints on both streams."""
        process = self.start(command)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == code, f"{command}\nexit code {process.returncode}\n{output}"
        return output

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command.replace(_ADDRESS, f"127.0.0.1:{free_port()}")],
            cwd=ROOT,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def running(self, command: str, until: str) -> Iterator[None]:
        """Type a command that runs until it is ended, and wait for a word of its log."""
        process = self.start(f"exec {command}")
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line)
            if until in line:
                break
        else:
            raise AssertionError(f"{command}: never {until}\n{''.join(seen)}")
        try:
            yield
        finally:
            process.terminate()
            rest, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, "".join(seen) + rest

"""The init container that unpacks code: its script, run by real shells with real programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pumice.client.cluster.submission.code_parts import LARGEST_PART, CodeParts, make_parts
from pumice.client.cluster.submission.code_volumes import CODE_PATH, PARTS_PATH, SCRIPT
from pumice.diagnosis.pod_ends import NO_TOOLS
from pumice.store.options import ClusterOptions

TAR = ("cat", "sha256sum", "tar", "gzip")


@pytest.fixture
def code(tmp_path: Path) -> CodeParts:
    """Several parts: a file that does not become smaller."""
    source = tmp_path / "source"
    (source / "pkg").mkdir(parents=True)
    (source / "train.py").write_text("print('hello')\n")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "pkg" / "noise").write_bytes(os.urandom(LARGEST_PART + 1000))
    (source / "link").symlink_to("pkg/noise")
    return make_parts(ClusterOptions(code=source))


class Pod:
    """Directories as the pod has them, and a PATH with only some programs."""

    def __init__(self, folder: Path, code: CodeParts, programs: Sequence[str]) -> None:
        self.parts, self.code, path = folder / "parts", folder / "code", folder / "bin"
        for each in (self.parts, self.code, path):
            each.mkdir()
        # As kubelet does: hidden directories, and links to what is in them.
        hidden = self.parts / "..2026"
        hidden.mkdir()
        (self.parts / "..data").symlink_to("..2026")
        for number, part in enumerate(code.parts):
            (hidden / f"{number:03}").write_bytes(part["part"])
            (self.parts / f"{number:03}").symlink_to(f"..data/{number:03}")
        for name in programs:
            found = sys.executable if name == "python3" else shutil.which(name)
            assert found is not None
            (path / name).symlink_to(Path(found).resolve())
        self.path, self.sha256 = path, code.sha256

    def unpack(self, *shell: str, sha256: str = "") -> subprocess.CompletedProcess[str]:
        script = SCRIPT.replace(PARTS_PATH, str(self.parts)).replace(CODE_PATH, str(self.code))
        return subprocess.run(
            [*shell, "-c", script, "pumice-code", sha256 or self.sha256],
            env={"PATH": str(self.path)},
            capture_output=True,
            text=True,
            check=False,
        )


def _assert_complete(folder: Path, directory: Path) -> None:
    assert (directory / "train.py").read_text() == "print('hello')\n"
    assert os.access(directory / "run.sh", os.X_OK)
    assert not os.access(directory / "train.py", os.X_OK)
    noise = (folder / "source" / "pkg" / "noise").read_bytes()
    assert (directory / "link").read_bytes() == (directory / "pkg" / "noise").read_bytes() == noise


def test_several_parts_are_unpacked_by_tar(code: CodeParts, tmp_path: Path) -> None:
    assert len(code.parts) == 2
    pod = Pod(tmp_path, code, TAR)
    done = pod.unpack("/bin/sh")
    assert (done.returncode, done.stderr) == (0, "")
    _assert_complete(tmp_path, pod.code)


def test_it_is_unpacked_again_over_what_is_there(code: CodeParts, tmp_path: Path) -> None:
    pod = Pod(tmp_path, code, TAR)
    pod.unpack("/bin/sh")
    (pod.code / "train.py").write_text("changed")
    assert pod.unpack("/bin/sh").returncode == 0
    _assert_complete(tmp_path, pod.code)


@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(["python3"], id="nothing but Python"),
        pytest.param(["cat", "tar", "sha256sum", "python3"], id="tar without gzip"),
        pytest.param(["tar", "gzip", "python3"], id="no sha256sum"),
    ],
)
def test_python_unpacks_where_tar_cannot(code: CodeParts, tmp_path: Path, programs: list[str]) -> None:
    pod = Pod(tmp_path, code, programs)
    done = pod.unpack("/bin/sh")
    assert done.returncode == 0, done.stderr
    _assert_complete(tmp_path, pod.code)


@pytest.mark.needs("busybox")
def test_busybox_alone_unpacks(code: CodeParts, tmp_path: Path) -> None:
    pod = Pod(tmp_path, code, [])
    busybox = shutil.which("busybox")
    assert busybox is not None
    for name in ("cat", "sha256sum", "tar", "gzip", "gunzip"):
        (pod.path / name).symlink_to(busybox)
    done = pod.unpack(busybox, "sh")
    assert done.returncode == 0, done.stderr
    _assert_complete(tmp_path, pod.code)


@pytest.mark.parametrize("programs", [pytest.param(TAR, id="tar"), pytest.param(["python3"], id="Python")])
def test_other_bytes_are_refused(code: CodeParts, tmp_path: Path, programs: list[str]) -> None:
    pod = Pod(tmp_path, code, programs)
    (pod.parts / "..2026" / "000").write_bytes(b"other")
    done = pod.unpack("/bin/sh")
    assert done.returncode != 0
    assert done.stderr.startswith("the code is damaged: its sha256 is ")
    assert list(pod.code.iterdir()) == []


def test_an_image_without_the_programs_says_so(code: CodeParts, tmp_path: Path) -> None:
    done = Pod(tmp_path, code, ["cat"]).unpack("/bin/sh")
    assert done.returncode == NO_TOOLS
    assert done.stderr.startswith("this image can unpack no code")

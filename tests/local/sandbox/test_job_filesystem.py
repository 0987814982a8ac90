"""The directories that job-init prepares, above all for an ordinary user whose image belongs to root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.rootfs.host_root import Host
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.rootfs.kernel_filesystems import KernelFileSystems
from pumice.engines.local.sandbox.specs import File, RootFs
from tests.local.sandbox.boxes import Box, in_box

MERGED = Path("/bin").is_symlink()


@pytest.fixture(autouse=True)
def _unattached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave directories where they are: the process of the tests has no mounts of its own."""
    monkeypatch.setattr(JobFilesystem, "_attach", lambda _self, path, _volume="": path)


def _filesystem(directory: Path, *, all_users: bool) -> JobFilesystem:
    skeletons = directory / "skeletons"
    skeletons.mkdir()
    return JobFilesystem(
        build=str(directory),
        files=str(directory),
        kernel=KernelFileSystems("", "", {}, (), {}, all_users),
        skeletons=str(skeletons),
        host=Host("", "/etc", None, ()),
        all_users=all_users,
        images={},
        views={},
        attached={},
    )


def _image(directory: Path) -> Path:
    (directory / "etc" / "app").mkdir(parents=True)
    (directory / "etc" / "app" / "conf").write_text("x")
    (directory / "data").mkdir(mode=0o1777)
    return directory


@pytest.mark.parametrize("all_users", [True, False], ids=["all-users", "one-user"])
def test_an_own_image_needs_no_skeleton(tmp_path: Path, all_users: bool) -> None:
    filesystem = _filesystem(tmp_path, all_users=all_users)
    image = str(_image(tmp_path / "image"))
    assert filesystem.lower_of(image) == [image]


def test_an_image_of_another_user_gets_a_writable_skeleton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = _image(tmp_path / "image")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    filesystem = _filesystem(tmp_path, all_users=False)
    made, below = filesystem.lower_of(str(image))
    assert below == str(image)
    assert sorted(str(path.relative_to(made)) for path in Path(made).rglob("*")) == ["data", "etc", "etc/app"]
    assert filesystem.lower_of(str(image)) == [made, below]


@in_box
async def test_every_user_can_run_an_image_that_belongs_to_root(made: Box) -> None:
    """/usr, with /bin and /lib in it, is a whole image where /bin is a link to /usr/bin."""
    if not MERGED:
        pytest.skip("/bin is no link to /usr/bin here")
    await made.pod("a")
    script = "cat /etc/hosts; echo new > /share/of-a-pod && cat /share/of-a-pod; pwd"
    files = (File("/etc/hosts", b"me\n"),)
    code, text = await made.shell("a", script, root=RootFs(image="/usr"), cwd="/to/be/made", files=files)
    assert (code, text) == (0, "me\nnew\n/to/be/made\n")

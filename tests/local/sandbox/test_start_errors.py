"""A container that cannot start reports the reason, in words that lead to the remedy."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pumice.engines.local.sandbox.init.cgroups import Group
from pumice.engines.local.sandbox.init.container_table import ContainerTable
from pumice.engines.local.sandbox.sandbox_errors import LIMITS, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount, RootFs
from tests.local.sandbox.boxes import Box, in_box, kernel

pytestmark = pytest.mark.usefixtures("namespaces")

SCRIPTS = {
    "empty": ("", 0o755, "not-executable", "neither a program for this machine nor a script"),
    "plain": ("echo hi\n", 0o644, "not-executable", "chmod +x"),
    "no interpreter": ("#!/no/such/sh\n", 0o755, "bad-interpreter", "the interpreter /no/such/sh of its first line"),
    "windows": ("#!/bin/sh\r\necho\r\n", 0o755, "bad-interpreter", "Unix line ends"),
}


async def _refused(box: Box, *argv: str, **changes: Any) -> tuple[str, str]:
    await box.pod("a")
    with pytest.raises(StartError) as caught:
        await box.start(box.spec("a", *argv, **changes))
    # The sandbox is as good as before.
    assert (await box.shell("a", "exit 5"))[0] == 5
    return caught.value.kind, caught.value.message


@pytest.mark.parametrize("case", SCRIPTS)
@in_box
async def test_a_script_that_cannot_run(box: Box, tmp_path: Path, case: str) -> None:
    content, mode, kind, message = SCRIPTS[case]
    script = tmp_path / "script"
    script.write_text(content, newline="")
    script.chmod(mode)
    found = await _refused(box, "/data/script", mounts=(Mount(str(tmp_path), "/data"),))
    assert (found[0], message in found[1]) == (kind, True), found


ETC_OVER_FILE = (Mount("/etc", "/etc/passwd"),)
CONTAINERS: dict[str, tuple[list[str], dict[str, Any], str, str]] = {
    "name": (["nosuchcommand"], {}, "command-not-found", "nosuchcommand: command not found in PATH="),
    "path": (["/no/such"], {}, "command-not-found", "/no/such: no such file"),
    "directory": (["/etc"], {}, "not-executable", "/etc: a directory, not a program"),
    "empty": ([], {}, "command-not-found", "the command is empty"),
    "null byte": (["true", "a\0b"], {}, "internal", "null byte"),
    "mount source": (
        ["true"],
        {"mounts": (Mount("/no/source", "/data"),)},
        "mount",
        "/no/source: the source of the mount at /data does not exist",
    ),
    "mount target": (["true"], {"mounts": (Mount("/etc", "/proc/no"),)}, "mount", "/proc/no: the mount point cannot"),
    "directory over file": (["true"], {"mounts": ETC_OVER_FILE}, "mount", "/etc/passwd: is a file, a directory cannot"),
    "device": (["true"], {"devices": ("/dev/nosuch",)}, "device", "/dev/nosuch: the device does not exist"),
    "image": (["true"], {"root": RootFs(image="/no/image")}, "image", "/no/image: not a directory"),
    "working directory": (["true"], {"cwd": "/etc/passwd"}, "working-directory", "/etc/passwd: the working directory"),
    "cpu": (["true"], {"cpus": (4000,)}, "cpu", "cannot run on CPU 4000"),
    "pod": (["true"], {"pod": "z"}, "gone", "z: no such pod"),
}


@pytest.mark.parametrize("case", CONTAINERS)
@in_box
async def test_a_container_that_cannot_start(box: Box, case: str) -> None:
    argv, changes, kind, message = CONTAINERS[case]
    found = await _refused(box, *argv, **changes)
    assert (found[0], message in found[1]) == (kind, True), found


@in_box
async def test_a_broken_link_is_reported_with_its_target(box: Box, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to("python3")
    (tmp_path / "python3").symlink_to("/opt/nosuch/bin/python3")
    _, message = await _refused(box, "/data/python", mounts=(Mount(str(tmp_path), "/data"),))
    assert message == "/data/python: a link to /opt/nosuch/bin/python3, which does not exist here"


@in_box
async def test_a_limit_that_the_kernel_refuses(box: Box) -> None:
    if "pids" not in kernel().limits:
        pytest.skip("this user may not create control groups")
    kind, message = await _refused(box, "true", pids=-5, memory=1 << 30)
    assert (kind, message.startswith("cannot limit pids to -5")) == (LIMITS, True)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        pytest.param(errno.EAGAIN, "no further process is allowed: see ulimit -u", id="processes"),
        pytest.param(errno.ENOSPC, "no further namespace is allowed: see sysctl", id="namespaces"),
    ],
)
def test_an_exhausted_resource_is_named(number: int, message: str) -> None:
    """Simulated: a real limit would hit other processes of the user as well."""

    def refuse(*_: object) -> None:
        raise OSError(number, "unshare: refused")

    table = cast(ContainerTable, SimpleNamespace(launcher=SimpleNamespace(launch=refuse)))
    spec = ContainerSpec("a/main", "a", ("true",), {}, "/", RootFs())
    with pytest.raises(StartError, match=message) as caught:
        ContainerTable._launch(table, spec.id, spec, Group(), {}, {"pids": []})
    assert caught.value.kind == LIMITS

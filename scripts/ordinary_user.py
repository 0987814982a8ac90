"""Run a command as an ordinary user: what works for root proves nothing for everyone else.

It uses the account `nobody`, which exists everywhere. Checkout and Python may be below a directory that only root may
enter, such as root's home. The command then gets a view of the machine of its own, in which an empty directory lies
over that one and holds, at their own paths, only what the command needs.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pumice.engines.local.sandbox import syscalls
from scripts.frameworks import FRAMEWORKS

ROOT = Path(__file__).resolve().parent.parent
USER = "nobody"
PYTHONS = ("PYTHON", *(framework.variable for framework in FRAMEWORKS.values()))
PASSED_ON = ("PATH", "LANG", "CI", "PUMICE_TEST_SEED", *PYTHONS)


def main(command: Sequence[str]) -> int:
    os.umask(0o022)
    user = pwd.getpwnam(USER)
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, user.pw_uid, user.pw_gid)
        try:
            syscalls.unshare(syscalls.NEWNS)
            syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
            open_up(needed(os.environ))
            _offer_tun()
        except OSError as error:
            print(f"no view of the machine for {USER}: {error}", file=sys.stderr)
            return 1
        environ = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**environ, **_directories(home), "PYTHONDONTWRITEBYTECODE": "1"},
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            check=False,
        ).returncode


def _offer_tun() -> None:
    """The device by which pods get out. On most systems it is for everyone; where it is not, in this view it is."""
    tun = Path("/dev/net/tun")
    if tun.exists() and not tun.stat().st_mode & stat.S_IWOTH:
        device = tun.stat().st_rdev
        syscalls.mount("tmpfs", "/dev/net", "tmpfs", syscalls.MS_NOSUID, "mode=755")
        os.mknod(tun, stat.S_IFCHR | 0o666, device)
        tun.chmod(0o666)


def _directories(home: str) -> dict[str, str]:
    """Where programs that would write into the checkout, or into root's home, are to write."""
    return {"HOME": home, "TMPDIR": home, "HYPOTHESIS_STORAGE_DIRECTORY": f"{home}/hypothesis"}


def needed(environ: Mapping[str, str]) -> set[Path]:
    """The checkout, the environment that the tests run in, the Pythons that variables name, and what all stand on."""
    found = {ROOT, Path(sys.prefix), Path(sys.base_prefix).resolve()}
    for python in filter(None, (shutil.which(environ.get(name, "")) for name in PYTHONS)):
        found |= {Path(python).absolute().parent.parent, Path(python).resolve().parent.parent}
    return {path for path in found if path.is_dir()}


def barred(path: Path) -> Path | None:
    """The topmost directory on the way to a path, or the path itself, that others may not enter."""
    way = [*reversed(path.parents), path]
    return next((directory for directory in way if not directory.stat().st_mode & stat.S_IXOTH), None)


def open_up(paths: Collection[Path]) -> None:
    """Let everyone get to these paths. Needs a mount namespace of its own, that no other process uses."""
    while gates := [gate for path in paths if (gate := barred(path))]:
        below = {path for path in paths if gates[0] in (path, *path.parents)}
        # One within another comes with it; a directory that is barred itself is shown entry by entry.
        tops = {path for path in below if not below & set(path.parents)}
        _cover(gates[0], set(gates[0].iterdir()) if gates[0] in tops else tops)


def _cover(gate: Path, shown: Collection[Path]) -> None:
    """Lay an empty directory over another, and in it what is to be seen of that."""
    links = {path: path.readlink() for path in shown if path.is_symlink()}
    trees = {path: syscalls.clone_tree(str(path)) for path in shown if path not in links}
    directories = {path for path in trees if path.is_dir()}
    syscalls.mount("tmpfs", str(gate), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    for path, target in links.items():
        path.symlink_to(target)
    for path, tree in trees.items():
        if path in directories:
            path.mkdir(parents=True)
        else:
            path.touch()
        syscalls.attach_tree(tree, str(path))
        os.close(tree)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

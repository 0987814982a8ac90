"""An `nc` for wait-for-master where the host serves as image and has none.

It supports what that container's script uses, `nc -z HOST PORT`, and runs in the Python that runs Pumice. That Python
may be in a directory that the container's user cannot enter, such as another user's home, so it is also mounted at a
path that everyone can read.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.sandbox.specs import File, Mount

_TARGET: Final = "/usr/local/bin/nc"
_PYTHON: Final = "/usr/local/lib/pumice/python"
_SYSTEM: Final = Path("/usr")

_PROGRAM: Final = """\
import getopt, socket, sys
try:
    options, target = getopt.gnu_getopt(sys.argv[1:], "zvnw:")
    given = dict(options)
    host, port, seconds = target[0], int(target[1]), float(given.get("-w", 10))
    if "-z" not in given or len(target) != 2:
        raise ValueError("only -z is supported")
except (getopt.GetoptError, ValueError, IndexError) as error:
    sys.exit(f"nc: {error}; usage: nc -z [-w SECONDS] HOST PORT")
try:
    socket.create_connection((host, port), seconds).close()
except OSError as error:
    sys.exit(f"nc: {host} {port}: {error}" if "-v" in given else 1)
"""
_SCRIPT: Final = """\
#!/bin/sh
for python in {pythons}; do
  [ ! -x "$python" ] || exec "$python" -I -S -c {program} "$@"
done
echo 'nc: the Python that should run this is not visible here' >&2
exit 127
"""


class Interpreter(Struct, frozen=True):
    """A Python by its real path, and the directory that it needs to run."""

    executable: Path
    prefix: Path


def running_interpreter() -> Interpreter:
    return Interpreter(Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix)))


def nc_files(path: str, python: Interpreter) -> tuple[list[File], list[Mount]]:
    """Return the shim for a container with this PATH; nothing if the host has an nc."""
    if shutil.which("nc", path=path) is not None:
        return [], []
    pythons, mounts = [str(python.executable)], []
    # /usr is visible in the container anyway.
    if not python.prefix.is_relative_to(_SYSTEM) and python.executable.is_relative_to(python.prefix):
        pythons.append(f"{_PYTHON}/{python.executable.relative_to(python.prefix)}")
        mounts.append(Mount(str(python.prefix), _PYTHON, read_only=True))
    text = _SCRIPT.format(pythons=shlex.join(pythons), program=shlex.quote(_PROGRAM))
    return [File(_TARGET, text.encode(), 0o755)], mounts

"""An `nc` for wait-for-master where the host serves as image and has none.

It supports what that container's script uses, `nc -z HOST PORT`, and runs in the Python that runs Pumice. That Python
may be in a directory that the container's user cannot enter, such as another user's home, so it is also mounted at a
path that everyone can read. There the loader does not find the libpython to which it may be linked: LD_LIBRARY_PATH
names it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.sandbox.python_start import library_directory
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
# The first of these that is visible, with the directory of its libpython.
_START: Final = """\
python={python} libraries={libraries}
if [ -x "$python" ]; then
  [ -z "$libraries" ] || export LD_LIBRARY_PATH="$libraries"
  exec "$python" -I -S -c {program} "$@"
fi
"""
_SCRIPT: Final = """\
#!/bin/sh
{starts}echo 'nc: the Python that should run this is not visible here' >&2
exit 127
"""


class Interpreter(Struct, frozen=True):
    """A Python by its real path, the directory that it needs to run, and that of the libpython it is linked to."""

    executable: Path
    prefix: Path
    libraries: Path | None = None


def running_interpreter() -> Interpreter:
    executable, prefix = (Path(os.path.realpath(path)) for path in (sys.executable, sys.base_prefix))
    directory = library_directory()
    return Interpreter(executable, prefix, Path(directory) if directory else None)


def nc_files(path: str, python: Interpreter) -> tuple[list[File], list[Mount]]:
    """Return the shim for a container with this PATH; nothing if the host has an nc."""
    if shutil.which("nc", path=path) is not None:
        return [], []
    pythons, mounts = [python], []
    # /usr is visible in the container anyway.
    if not python.prefix.is_relative_to(_SYSTEM) and python.executable.is_relative_to(python.prefix):
        # The same as it is where its prefix is mounted.
        prefix, libraries = Path(_PYTHON), python.libraries
        if libraries is not None and libraries.is_relative_to(python.prefix):
            libraries = prefix / libraries.relative_to(python.prefix)
        pythons.append(Interpreter(prefix / python.executable.relative_to(python.prefix), prefix, libraries))
        mounts.append(Mount(str(python.prefix), _PYTHON, read_only=True))
    starts = (
        _START.format(
            python=shlex.quote(str(each.executable)),
            libraries=shlex.quote(str(each.libraries or "")),
            program=shlex.quote(_PROGRAM),
        )
        for each in pythons
    )
    return [File(_TARGET, _SCRIPT.format(starts="".join(starts)).encode(), 0o755, shared=True)], mounts

"""An `nc` of our own for wait-for-master, where the host serves as its image and has none.

It knows what that container's script asks for, `nc -z HOST PORT`, and is run by the Python that runs this program.
That one may lie where the container's user cannot look, as below another's home; so it is mounted at a place where
anybody can.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pumice.engines.local.sandbox.specs import File, Mount

_PLACE: Final = "/usr/local/bin/nc"
_PYTHON: Final = "/usr/local/lib/pumice/python"
_SYSTEM: Final = Path("/usr")

_PROGRAM: Final = """\
import getopt, socket, sys
try:
    options, place = getopt.gnu_getopt(sys.argv[1:], "zvnw:")
    given = dict(options)
    host, port, seconds = place[0], int(place[1]), float(given.get("-w", 10))
    if "-z" not in given or len(place) != 2:
        raise ValueError("only -z is known")
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


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python with its real path, and the directory that it needs to run."""

    executable: Path
    prefix: Path


def running_interpreter() -> Interpreter:
    return Interpreter(Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix)))


def nc_files(path: str, python: Interpreter) -> tuple[list[File], list[Mount]]:
    """What a container with this PATH needs; nothing where the host has an nc."""
    if shutil.which("nc", path=path) is not None:
        return [], []
    pythons, mounts = [str(python.executable)], []
    # What lies below /usr is there anyway.
    if not python.prefix.is_relative_to(_SYSTEM) and python.executable.is_relative_to(python.prefix):
        pythons.append(f"{_PYTHON}/{python.executable.relative_to(python.prefix)}")
        mounts.append(Mount(str(python.prefix), _PYTHON, read_only=True))
    text = _SCRIPT.format(pythons=shlex.join(pythons), program=shlex.quote(_PROGRAM))
    return [File(_PLACE, text.encode(), 0o755)], mounts

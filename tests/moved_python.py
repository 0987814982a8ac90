"""A copy of the Python of the tests in another directory, where the loader does not find its libpython."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.python_start import library_directory


def moved_python(prefix: Path) -> Path:
    """Copy the interpreter to bin/ and its libpython to lib/, and erase the path of libpython in the copy.

    Only LD_LIBRARY_PATH finds it then, as for a Python of environment modules. Skips the test for an interpreter that
    is linked to no libpython, or to one by a path relative to itself.
    """
    directory, executable = library_directory(), Path(os.path.realpath(sys.executable))
    text, path = executable.read_bytes(), directory.encode()
    if not directory or path not in text:
        pytest.skip("the Python of the tests names no directory of a libpython")
    for name in ("bin", "lib"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    python = prefix / "bin" / executable.name
    python.write_bytes(text.replace(path, b"/" * len(path)))
    python.chmod(0o755)
    for library in Path(directory).glob(f"{sysconfig.get_config_var('LDLIBRARY')}*"):
        shutil.copy(library, prefix / "lib")
    standard = Path(sysconfig.get_path("stdlib"))
    target = prefix / standard.relative_to(sys.base_prefix)
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(standard)
    return python

"""Programs of the sandbox run without site packages, so they import the standard library and Pumice only."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.python_start import library_directory, loader_environment, python_start
from tests.meta.tree import ROOT
from tests.moved_python import moved_python

STARTED = (
    "plain_processes.reaper",
    "sandbox.diagnosis.trials",
    "sandbox.init.job_init",
    "sandbox.init.read_only_start",
)


@pytest.mark.parametrize("module", STARTED)
def test_a_module_is_imported_without_site_packages(module: str) -> None:
    command = [part.replace("; main()", "") for part in python_start(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_job_init_loads_no_library_that_each_container_would_map_for_nothing() -> None:
    *command, code = python_start("sandbox.init.read_only_start")
    code = code.replace("import main", "import load_job_init as main")
    shown = "print([line for line in open('/proc/self/maps') if any(each in line for each in ('lzma', 'bz2', 'libz'))])"
    done = subprocess.run([*command, f"{code}; {shown}"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_the_loader_needs() -> None:
    directory = library_directory()
    assert loader_environment({}) == {}
    assert loader_environment({"LD_LIBRARY_PATH": "/a"}) == ({"LD_LIBRARY_PATH": directory} if directory else {})


def test_a_python_that_only_ld_library_path_finds(tmp_path: Path) -> None:
    """Only the directory of libpython is kept, where the loader found it: what it was built with names another."""
    python = moved_python(tmp_path)
    code = f"import json, os, sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n"
    code += f"from {loader_environment.__module__} import loader_environment\n"
    code += "print(json.dumps(loader_environment(os.environ)))"
    done = subprocess.run(
        [str(python), "-I", "-S", "-c", code],
        env={"LD_LIBRARY_PATH": f"/elsewhere:{tmp_path / 'lib'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"LD_LIBRARY_PATH": str(tmp_path / "lib")}

"""The unit tests on every other supported Python of this machine; a part of `make test`.

It looks for interpreters on PATH and where pyenv and uv keep theirs, and downloads none. Each gets an environment of
its own in .venv/pythons: Pumice is installed there from this checkout, so that no other one can use it. The last lines
say which Pythons ran the tests, and which did not and why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts import setup

ROOT = Path(__file__).resolve().parent.parent
_CLASSIFIER = "Programming Language :: Python :: "
# The unit tests; and of the real pods those in which the interpreter itself is at stake.
TESTS = ("tests/unit", "tests/local/test_interpreter.py", "tests/local/test_nc_shim.py")
# It runs a shell script in shells, and waits most of the time: no Python but the test's own has a part in it.
NOT_OF_PYTHON = "tests/unit/plugins/test_wait_for_master.py"
# One process each: to collect the tests in several costs more than it gains, beside the other checks.
PYTEST = ("-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", f"--ignore={NOT_OF_PYTHON}", *TESTS)
# The other checks have real pods and come first. With 19, a test of a socket or a process would starve for minutes.
_NICENESS = 10
_QUESTION = """
import importlib.util, json, os, platform, sys, sysconfig
base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
usual = platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
can_make_venv = importlib.util.find_spec("ensurepip") is not None
print(json.dumps([base, ".".join(map(str, sys.version_info[:3])), can_make_venv, usual]))
"""


def supported(root: Path = ROOT) -> list[str]:
    """Return the versions that the classifiers of the package name: `3.11`, `3.12`, ..."""
    classifiers = tomllib.loads((root / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [each.removeprefix(_CLASSIFIER) for each in classifiers if each.startswith(_CLASSIFIER)]
    return [version for version in found if version.startswith("3.")]


def candidates(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield where an interpreter of this version may be: on PATH, then those of pyenv and of uv, newest first."""
    name = f"python{version}"
    path = [Path(directory) for directory in environ.get("PATH", "").split(os.pathsep) if directory]
    yield from (directory / name for directory in path)
    # pyenv puts a directory of shims on PATH, which start a version that the user has chosen before.
    pyenv = [each.parent for each in path if each.name == "shims"]
    if root := environ.get("PYENV_ROOT"):
        pyenv.insert(0, Path(root))
    data = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or "/nonexistent", ".local", "share")
    uv = environ.get("UV_PYTHON_INSTALL_DIR") or Path(data, "uv", "python")
    patterns = [(each / "versions", f"{version}.*") for each in pyenv] + [(Path(uv), f"cpython-{version}.*")]
    for directory, pattern in patterns:
        found = directory.glob(f"{pattern}/bin/{name}")
        yield from sorted(found, key=lambda path: [*map(int, _micro(path))], reverse=True)


def _micro(path: Path) -> list[str]:
    """Return the last number of the version in a path such as versions/3.13.10/bin/python3.13."""
    digits = path.parents[1].name.removeprefix("cpython-").split(".")[2:3]
    return [digit for text in digits if (digit := text.partition("-")[0]).isdigit()]


def ask(path: Path, version: str) -> setup.Python | None:
    """Return what an interpreter says of itself; None if it does not run, or is not a CPython of this version."""
    if not os.access(path, os.X_OK):
        return None
    try:
        done = subprocess.run([path, "-I", "-c", _QUESTION], capture_output=True, timeout=60, check=False)
        base, full, can_make_venv, usual = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    is_wanted = usual and full.rpartition(".")[0] == version
    return setup.Python(base, full, can_make_venv) if is_wanted else None


def find(versions: Sequence[str], environ: Mapping[str, str]) -> dict[str, setup.Python]:
    """Return the first interpreter of each version that is on this machine."""
    found = {}
    for version in versions:
        answers = (ask(path, version) for path in candidates(version, environ))
        python = next((each for each in answers if each is not None), None)
        if python is not None:
            found[version] = python
    return found


def run_tests(version: str, python: setup.Python) -> tuple[bool, str]:
    """Return whether the tests passed, and what to say about it. Without packages they do not run."""
    venv = ROOT / ".venv" / "pythons" / version
    try:
        venv.parent.mkdir(exist_ok=True)
        setup.ensure(ROOT, python, "unit", venv)
    except (setup.SetupError, OSError) as error:
        # As for outside programs: a test that never runs in CI would rot unseen.
        return os.environ.get("CI") != "true", f"not tested, its packages cannot be installed: {error}"
    environ = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(venv / "bin" / "python"), *PYTEST],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        print(done.stdout)
    return done.returncode == 0, done.stdout.strip().rpartition("\n")[2]


def main() -> int:
    os.nice(_NICENESS)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = [version for version in supported() if version != own]
    found = find(others, os.environ)
    with ThreadPoolExecutor(len(found) or 1) as pool:
        results = dict(zip(found, pool.map(run_tests, found, found.values()), strict=True))
    print(f"  {'.'.join(map(str, sys.version_info[:3])):8} .venv: all tests of `make test`")
    for version in others:
        if version in found:
            print(f"  {found[version].version:8} {found[version].path}: {results[version][1]}")
        else:
            print(f"  {version:8} not on this machine, not tested")
    return 0 if all(good for good, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""`make dist`, and every way to install Pumice that the README names, into a fresh directory with a space in its path.

Installers take the dependencies from the package index that the user has set, as set-up does.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pumice.model import VERSION
from scripts.setup import _environment
from tests.conftest import IN_CI
from tests.meta.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WHEEL, SDIST = f"pumice-{VERSION}-py3-none-any.whl", f"pumice-{VERSION}.tar.gz"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, with what `make dist` made of it."""
    root = tmp_path_factory.mktemp("dist") / "a checkout"
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (ROOT / name for name in ("Makefile", "pyproject.toml", "LICENSE")):
        shutil.copy(file, root)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, root)
    # Set-up has been done: this environment has the pinned build backend.
    _call(["make", "dist", "setup=@true", f"python='{sys.executable}'"], root)
    return root


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with uv and pipx as requirements/ pins them. Only CI must have a package index that answers."""
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("this Python cannot make an environment: its ensurepip is missing")
    directory = tmp_path_factory.mktemp("tools") / "of the test"
    pins = [f"--requirement={ROOT / 'requirements' / name}" for name in ("uv.txt", "pipx.txt")]
    install = [_fresh_environment(directory), "-I", "-m", "pip", "install", "--quiet", "--retries=1", *pins]
    environ = {**_environment(os.environ), "PIP_NO_COMPILE": "1"}
    done = subprocess.run([*install, "--require-hashes"], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        why = f"no package index: {done.stderr.strip()[-300:]}"
        pytest.fail(why, pytrace=False) if IN_CI else pytest.skip(why)
    return directory


def test_make_dist_builds_a_wheel_and_an_sdist(checkout: Path) -> None:
    assert sorted(file.name for file in (checkout / "dist").iterdir()) == [WHEEL, SDIST]
    with zipfile.ZipFile(checkout / "dist" / WHEEL) as wheel, tarfile.open(checkout / "dist" / SDIST) as sdist:
        in_wheel = {name for name in wheel.namelist() if ".dist-info/" not in name}
        in_sdist = {name.removeprefix(f"pumice-{VERSION}/") for name in sdist.getnames()}
    source = {str(file.relative_to(checkout / "src")) for file in (checkout / "src").rglob("*") if file.is_file()}
    assert in_wheel == source
    assert {f"src/{name}" for name in source} <= in_sdist
    assert {"pyproject.toml", "README.md", "README.zh.md", "CHANGELOG.md", "LICENSE"} <= in_sdist


@dataclass(frozen=True, slots=True)
class InstallPrefix:
    """A directory to install into. `bin` is where the command must be afterwards."""

    directory: Path
    checkout: Path
    tools: Path

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    def pip(self, *arguments: str | Path) -> None:
        _call([_fresh_environment(self.directory), "-I", "-m", "pip", "install", *arguments], self.checkout)

    def tool(self, program: str, *arguments: str) -> None:
        directories = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "tools", "PIPX_BIN_DIR": "bin"}
        extra = {name: str(self.directory / folder) for name, folder in directories.items()}
        _call([self.tools / "bin" / program, *arguments], self.checkout, extra | {"UV_PYTHON": sys.executable})


@pytest.mark.parametrize(
    "install",
    [
        pytest.param(
            lambda prefix: prefix.tool("uv", "tool", "install", "."), id="uv tool install .", marks=pytest.mark.soak
        ),
        pytest.param(lambda prefix: prefix.tool("pipx", "install", "."), id="pipx install .", marks=pytest.mark.soak),
        pytest.param(lambda prefix: prefix.pip("."), id="pip install .", marks=pytest.mark.soak),
        pytest.param(
            lambda prefix: prefix.pip(prefix.checkout / "dist" / WHEEL), id="the wheel", marks=pytest.mark.soak
        ),
        pytest.param(
            lambda prefix: prefix.pip(prefix.checkout / "dist" / SDIST), id="the sdist", marks=pytest.mark.soak
        ),
    ],
)
def test_an_installed_pumice_works(
    install: Callable[[InstallPrefix], None], checkout: Path, tools: Path, tmp_path: Path
) -> None:
    prefix = InstallPrefix(tmp_path / "a place", checkout, tools)
    install(prefix)
    example = ROOT / "examples" / "pytorch-job.yaml"
    pumice = prefix.bin / "pumice"
    assert _call([pumice, "--version"], tmp_path).stdout == f"pumice {VERSION}\n"
    assert _call([pumice, "validate", example], tmp_path).stderr == f"{example}: pytorch-job: good (3 pods)\n"


def _fresh_environment(directory: Path) -> str:
    _call([sys.executable, "-I", "-m", "venv", directory], directory.parent)
    return str(directory / "bin" / "python")


def _call(
    command: Sequence[str | Path], directory: Path, extra: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with the user's settings of index and certificates, and nothing else of this environment."""
    environ = {**_environment(os.environ), "PIP_NO_COMPILE": "1", **(extra or {})}
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done

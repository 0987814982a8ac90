"""Which Python pods get: chosen by what its files say, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.preparation.default_settings import ActivePython, active_python, python_with
from pumice.store.run_errors import InvalidOption


def python(prefix: Path, *packages: str, version: str = "3.12", venv: bool = True) -> Path:
    """An environment that leaves a mark if anybody runs it."""
    program = prefix / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF that cannot run")
    program.chmod(0o755)
    site = prefix / "lib" / f"python{version}" / "site-packages"
    for package in packages:
        (site / f"{package}.dist-info").mkdir(parents=True)
    if venv:
        (prefix / "pyvenv.cfg").write_text(f"home = {prefix}/bin\nversion = {version}.1\n")
    else:
        site.mkdir(parents=True, exist_ok=True)
    return prefix


def environ(path: Path, **variables: object) -> dict[str, str]:
    home = {"HOME": str(path.parent / "home"), "PATH": str(path / "bin")}
    return {**home, **{name: str(value) for name, value in variables.items()}}


def test_the_first_that_has_the_framework_else_the_first_that_exists(tmp_path: Path) -> None:
    active = python(tmp_path / "active", "numpy-2.0")
    project = tmp_path / "project"
    python(project / ".venv", "torch-2.9.1+cpu")
    on_path = python(tmp_path / "path", venv=False)
    given = environ(on_path, VIRTUAL_ENV=active)
    found = active_python(given, ["pytorch"], project)
    assert (found.bin, found.of_project) == (str(project / ".venv/bin"), True)
    assert found.text(["pytorch"], tmp_path) == "~/project/.venv/bin/python3 3.12, torch 2.9.1+cpu"
    assert active_python(given, [], project).bin == str(active / "bin")
    without = active_python(given, ["ray"], project)
    assert without.bin == str(active / "bin")
    assert without.text(["ray"], None) == f"{active}/bin/python3 3.12, no ray"
    assert active_python(environ(on_path, CONDA_PREFIX=active)).bin == str(active / "bin")
    assert active_python(environ(on_path, VIRTUAL_ENV=tmp_path / "gone")).bin == str(on_path / "bin")
    assert active_python(environ(on_path)).directories == (on_path,)


def test_pumice_without_the_framework_is_passed_over_for_what_make_run_fetched(tmp_path: Path) -> None:
    own = python(tmp_path / "own", "pumice-0.1.0")
    fetched = python(tmp_path / "home/.cache/pumice/torch", "torch-2.9.1")
    assert active_python(environ(own), ["pytorch"]).bin == str(own / "bin")
    (fetched / "torch-is-complete").touch()
    assert active_python(environ(own), ["pytorch"]).bin == str(fetched / "bin")
    other = python(tmp_path / "other")
    (fetched / "torch-is-complete").unlink()
    assert active_python(environ(other, VIRTUAL_ENV=own), ["pytorch"]).bin == str(other / "bin")
    assert active_python(environ(other, VIRTUAL_ENV=own)).bin == str(own / "bin")


def test_the_python_that_has_a_module_which_another_lacks(tmp_path: Path) -> None:
    on_path, project = python(tmp_path / "path"), tmp_path / "project"
    site = python(project / ".venv") / "lib" / "python3.12" / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "six.py").touch()
    given = environ(on_path)
    for module in ("torch", "six"):
        assert python_with(module, given, project) == str(project / ".venv/bin/python3")
        assert python_with(module, given) == ""
    assert python_with("numpy", given, project) == ""


def test_named_by_a_flag(tmp_path: Path) -> None:
    on_path, named = python(tmp_path / "path"), python(tmp_path / "named")
    for text in (named, named / "bin/python3", on_path / ".." / "named"):
        assert active_python(environ(on_path), named=str(text)).bin == str(named / "bin")
    with pytest.raises(InvalidOption, match=r"python: .*gone: no such Python"):
        active_python(environ(on_path), named=str(tmp_path / "gone"))


def test_a_script_of_a_version_manager_is_read_not_run(tmp_path: Path) -> None:
    shim = tmp_path / "pyenv/shims/python3"
    shim.parent.mkdir(parents=True)
    shim.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    shim.chmod(0o755)
    system = python(tmp_path / "system", venv=False)
    path = f"{shim.parent}:{system}/bin"
    assert active_python({"PATH": path, "HOME": str(tmp_path)}).bin == str(system / "bin")
    real = python(tmp_path / "pyenv/versions/3.11.7", version="3.11", venv=False)
    (tmp_path / "pyenv/version").write_text("3.11.7\n")
    found = active_python({"PATH": path, "HOME": str(tmp_path)})
    assert (found.bin, found.version) == (str(real / "bin"), "3.11")
    assert not (tmp_path / "was-run").exists()


def test_no_python(tmp_path: Path) -> None:
    assert active_python({"PATH": str(tmp_path), "HOME": str(tmp_path)}) == ActivePython()
    assert ActivePython().text([], None) == ""


def test_the_environment_of_a_checkout_of_pumice_is_passed_over(tmp_path: Path) -> None:
    """A job beside it may not need it; the active environment counts even if it has Pumice."""
    own = python(tmp_path / "checkout" / ".venv", "pumice-0.1.0")
    system = python(tmp_path / "system", venv=False)
    assert active_python(environ(system), (), own.parent).bin == f"{system}/bin"
    assert active_python(environ(system, VIRTUAL_ENV=own), (), own.parent).bin == f"{own}/bin"


def test_mpi_prefers_mpi4py_and_does_not_miss_it(tmp_path: Path) -> None:
    """An MPI program need not be Python."""
    own = python(tmp_path / "own", "pumice-0.1.0")
    on_path = python(tmp_path / "path", venv=False)
    given = environ(on_path, VIRTUAL_ENV=own)
    without = active_python(given, ["mpi"])
    assert (without.bin, without.text(["mpi"], None)) == (f"{own}/bin", f"{own}/bin/python3 3.12")
    fetched = python(tmp_path / "home/.cache/pumice/mpi4py", "mpi4py-4.1.2")
    (fetched / "mpi4py-is-complete").touch()
    found = active_python(given, ["mpi"])
    assert found.text(["mpi"], tmp_path / "home") == "~/.cache/pumice/mpi4py/bin/python3 3.12, mpi4py 4.1.2"


def test_directories_of_the_path_that_cannot_be_entered_are_passed_over(tmp_path: Path) -> None:
    """A name that is too long stands for a directory without permission, which root does not have."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").touch(mode=0o755)
    environ = {"PATH": f"/{'x' * 300}:{tmp_path / 'bin'}", "HOME": str(tmp_path)}
    assert active_python(environ).bin == str(tmp_path / "bin")

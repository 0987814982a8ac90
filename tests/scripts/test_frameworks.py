"""Which Python `make run` takes for torch, and what it says when there is none: with stubs, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import torch_env
from scripts.torch_env import Candidate


def _python(folder: Path, *, torch: bool, venv: bool = False) -> str:
    """A program that answers the question for torch as a Python would."""
    (folder / "bin").mkdir(parents=True)
    if venv:
        (folder / "pyvenv.cfg").touch()
    program = folder / "bin" / "python3"
    program.write_text(f"#!/bin/sh\nexit {0 if torch else 1}\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "path" / "bin")}


def test_the_named_python_comes_first_then_the_active_one_then_that_of_the_path(
    environ: dict[str, str], tmp_path: Path
) -> None:
    named = _python(tmp_path / "named", torch=True)
    active = _python(tmp_path / "active", torch=True, venv=True)
    found = _python(tmp_path / "path", torch=True)
    environ |= {"PYTHON": named, "VIRTUAL_ENV": str(tmp_path / "active")}
    order = [Candidate(named), Candidate(active, str(tmp_path / "active")), Candidate(found)]
    assert list(torch_env.candidates(environ, tmp_path)) == order
    assert torch_env.find(environ, tmp_path) == order[0]


def test_a_python_without_torch_is_passed_over(environ: dict[str, str], tmp_path: Path) -> None:
    environ["PYTHON"] = _python(tmp_path / "named", torch=False)
    found = _python(tmp_path / "path", torch=True, venv=True)
    assert torch_env.find(environ, tmp_path) == Candidate(found, str(tmp_path / "path"))


def test_the_environment_of_the_project_is_not_asked(environ: dict[str, str], tmp_path: Path) -> None:
    _python(tmp_path / ".venv", torch=True, venv=True)
    assert list(torch_env.candidates({**environ, "VIRTUAL_ENV": str(tmp_path / ".venv")}, tmp_path)) == []


def test_the_private_environment_counts_only_when_it_is_complete(environ: dict[str, str], tmp_path: Path) -> None:
    private = tmp_path / "cache" / "pumice" / "torch"
    python = _python(private, torch=True, venv=True)
    assert torch_env.find(environ, tmp_path) is None
    # Whole after all: whoever made it was only kept from saying so.
    assert torch_env.fetch(environ, tmp_path) == Candidate(python, str(private))
    assert torch_env.find(environ, tmp_path) == Candidate(python, str(private))


def test_an_installer_that_fails_leaves_nothing_that_counts(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho no route to the index >&2\nexit 2\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(torch_env.TorchError, match="no route to the index"):
        torch_env.fetch(environ, tmp_path)
    assert torch_env.find(environ, tmp_path) is None


def test_an_environment_is_activated_and_another_python_put_first_on_the_path() -> None:
    environ = {"PATH": "/bin", "VIRTUAL_ENV": "/old"}
    assert torch_env.environment(Candidate("/v/bin/python3", "/v"), environ) == {"PATH": "/bin", "VIRTUAL_ENV": "/v"}
    assert torch_env.environment(Candidate("/opt/bin/python3"), environ) == {"PATH": "/opt/bin:/bin"}

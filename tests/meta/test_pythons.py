"""Which Pythons `make test` finds on a machine, and what it says about them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from scripts import pythons, setup
from tests.meta.tree import ROOT


def fake_python(path: Path, version: str, *, usual: bool = True, code: int = 0) -> None:
    """Answers the question that scripts/pythons.py asks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = json.dumps([str(path), version, True, usual])
    path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"bin/python3.13": "3.13.4"}, "bin/python3.13", id="on PATH"),
        pytest.param(
            {"bin/python3.13": "3.13.4", "pyenv/versions/3.13.9/bin/python3.13": "3.13.9"},
            "bin/python3.13",
            id="PATH first",
        ),
        pytest.param(
            {"bin/python3.13": "", "pyenv/versions/3.13.9/bin/python3.13": "3.13.9"},
            "pyenv/versions/3.13.9/bin/python3.13",
            id="a shim without a version",
        ),
        pytest.param(
            {"other/shims/python3.13": "", "other/versions/3.13.1/bin/python3.13": "3.13.1"},
            "other/versions/3.13.1/bin/python3.13",
            id="beside the shims",
        ),
        pytest.param(
            {f"pyenv/versions/3.13.{micro}/bin/python3.13": f"3.13.{micro}" for micro in (9, 10, 2)},
            "pyenv/versions/3.13.10/bin/python3.13",
            id="the newest of pyenv",
        ),
        pytest.param(
            {"uv/cpython-3.13.4-linux-x86_64-gnu/bin/python3.13": "3.13.4"},
            "uv/cpython-3.13.4-linux-x86_64-gnu/bin/python3.13",
            id="of uv",
        ),
        pytest.param({"bin/python3.13": "3.12.4"}, None, id="another version under its name"),
    ],
)
def test_the_interpreter_that_is_found(tmp_path: Path, made: dict[str, str], expected: str | None) -> None:
    for path, version in made.items():
        if version:
            fake_python(tmp_path / path, version)
        else:
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
            (tmp_path / path).chmod(0o755)
    environ = {
        "PATH": f"{tmp_path / 'empty'}:{tmp_path / 'bin'}:{tmp_path / 'other' / 'shims'}",
        "PYENV_ROOT": str(tmp_path / "pyenv"),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "uv"),
    }
    found = pythons.find(["3.13"], environ)
    assert [python.path for python in found.values()] == ([str(tmp_path / expected)] if expected else [])


def test_a_python_without_a_global_lock_is_another_one(tmp_path: Path) -> None:
    fake_python(tmp_path / "python3.13", "3.13.4", usual=False)
    assert pythons.find(["3.13"], {"PATH": str(tmp_path)}) == {}


def test_the_python_of_the_tests_answers_for_itself() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = pythons.ask(Path(sys.executable), version)
    assert found == setup.Python.of_this_process()
    assert pythons.ask(Path(sys.executable), "3.9") is None


@pytest.mark.parametrize(("ci", "passes"), [("true", False), ("", True)])
def test_packages_that_cannot_be_installed_fail_only_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, passes: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(pythons, "ROOT", tmp_path)
    (tmp_path / ".venv").mkdir()
    for name in ("pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    python = setup.Python("/nowhere/python3.13", "3.13.4", can_make_venv=False)
    good, said = pythons.run_tests("3.13", python)
    assert (good, said.startswith("not tested, its packages cannot be installed: Python 3.13.4 ")) == (passes, True)


def test_one_python_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.nice", lambda _: 0)
    monkeypatch.setattr(pythons, "find", lambda *_: {})
    assert pythons.main() == 0
    own, *others = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"  3\.\d+\.\d+ +\.venv: all tests of `make test`", own)
    assert [line.split(maxsplit=1)[1] for line in others] == ["not on this machine, not tested"] * len(others)
    assert len(others) == len(pythons.supported()) - 1


def test_one_list_of_supported_pythons() -> None:
    """The classifiers have it; what else names versions agrees."""
    versions = pythons.supported()
    for name in ("README.md", "README.zh.md"):
        row = re.search(r"^\| Python \| (.*) \|$", (ROOT / name).read_text(), re.MULTILINE)
        assert row is not None
        assert re.findall(r"\b3\.\d+\b", row[1]) == versions, name
    script = (ROOT / "scripts" / "python").read_text()
    assert re.findall(r"python(3\.\d+)", script) == [*reversed(versions)]
    assert f'requires-python = ">={versions[0]}"' in (ROOT / "pyproject.toml").read_text()

"""Which Python the examples take for a framework, and what is said when there is none. With stubs, no network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import check, fetching, frameworks, with_framework
from scripts.fetching import FetchError
from scripts.frameworks import FRAMEWORKS, RAY, TORCH, Candidate, Framework
from tests.meta.tree import ROOT

EVERY = pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=lambda framework: framework.name)


def _python(folder: Path, *, able: bool, venv: bool = False) -> str:
    """A program that answers the question for a framework as a Python would."""
    (folder / "bin").mkdir(parents=True)
    if venv:
        (folder / "pyvenv.cfg").touch()
    return _program(folder / "bin" / "python3", f"exit {0 if able else 1}")


def _program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "path" / "bin")}


@EVERY
def test_the_named_python_comes_first_then_the_active_one_then_that_of_the_path(
    environ: dict[str, str], tmp_path: Path, framework: Framework
) -> None:
    named = _python(tmp_path / "named", able=True)
    active = _python(tmp_path / "active", able=True, venv=True)
    found = _python(tmp_path / "path", able=True)
    own = _python(tmp_path / "own", able=True)
    environ |= {"PYTHON": named, "VIRTUAL_ENV": str(tmp_path / "active"), f"{framework.name.upper()}_PYTHON": own}
    order = [Candidate(own), Candidate(named), Candidate(active, str(tmp_path / "active")), Candidate(found)]
    assert list(frameworks.candidates(framework, environ, tmp_path)) == order
    assert frameworks.find(framework, environ, tmp_path) == order[0]


@EVERY
def test_a_python_without_it_is_passed_over(environ: dict[str, str], tmp_path: Path, framework: Framework) -> None:
    environ["PYTHON"] = _python(tmp_path / "named", able=False)
    found = _python(tmp_path / "path", able=True, venv=True)
    assert frameworks.find(framework, environ, tmp_path) == Candidate(found, str(tmp_path / "path"))


def test_the_environment_of_the_project_is_not_asked(environ: dict[str, str], tmp_path: Path) -> None:
    _python(tmp_path / ".venv", able=True, venv=True)
    assert list(frameworks.candidates(RAY, {**environ, "VIRTUAL_ENV": str(tmp_path / ".venv")}, tmp_path)) == []


@EVERY
def test_the_private_environment_counts_only_when_it_is_complete(
    environ: dict[str, str], tmp_path: Path, framework: Framework
) -> None:
    private = tmp_path / "cache" / "pumice" / framework.name
    python = _python(private, able=True, venv=True)
    assert frameworks.find(framework, environ, tmp_path) is None
    # The environment is complete; only the marker is missing.
    assert fetching.fetch(framework, environ, tmp_path) == Candidate(python, str(private))
    assert frameworks.find(framework, environ, tmp_path) == Candidate(python, str(private))


@EVERY
def test_the_question_is_answered_by_a_real_python_that_lacks_it(framework: Framework, tmp_path: Path) -> None:
    """An answer of no, not an error in the question itself."""
    done = subprocess.run([sys.executable, "-ISc", framework.probe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


# --- fetching ---------------------------------------------------------------------------------------------------------

# Answers the calls that are made of uv: the environment that it makes has the framework once something was installed.
UV = """
echo "$*" >> {log}
case "$1" in
--version) exit 0 ;;
venv) for last; do :; done; mkdir -p "$last/bin"
  printf '#!/bin/sh\\ntest -e %s/installed\\n' "$last" > "$last/bin/python3"; chmod +x "$last/bin/python3" ;;
pip) case "$*" in *--torch-backend=cpu*) exit {small} ;; esac
  echo no route to the index >&2; [ {large} = 0 ] && touch "$(dirname "$(dirname "$4")")/installed"; exit {large} ;;
esac
[ "$1" != pip ] || touch "$(dirname "$(dirname "$4")")/installed"
"""


def _uv(folder: Path, *, small: int, large: int) -> Path:
    (folder / "path" / "bin").mkdir(parents=True)
    log = folder / "calls"
    _program(folder / "path" / "bin" / "uv", UV.format(log=log, small=small, large=large))
    return log


def _with_system(environ: dict[str, str]) -> dict[str, str]:
    return {**environ, "PATH": f"{environ['PATH']}:/usr/bin:/bin"}


def test_an_installer_that_fails_leaves_nothing_that_counts(environ: dict[str, str], tmp_path: Path) -> None:
    _uv(tmp_path, small=1, large=2)
    with pytest.raises(FetchError, match="no route to the index"):
        fetching.fetch(TORCH, _with_system(environ), tmp_path)
    assert frameworks.find(TORCH, environ, tmp_path) is None


def test_the_small_build_comes_first_and_then_the_usual_one_after_a_word_of_its_size(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _uv(tmp_path, small=1, large=0)
    private = tmp_path / "cache" / "pumice" / "torch"
    assert fetching.fetch(TORCH, _with_system(environ), tmp_path) == Candidate(f"{private}/bin/python3", str(private))
    installs = [line for line in log.read_text().splitlines() if line.startswith("pip install")]
    assert ["--torch-backend=cpu" in line for line in installs] == [True, False]
    assert "torch==" in installs[0]
    assert "--require-hashes" in installs[1]
    assert all("--compile-bytecode" in line for line in installs)
    said = capsys.readouterr().err
    assert "not installed in any of your Pythons: trying the small CPU build" in said
    assert "the CPU build is not available" in said
    assert "downloads 2.9 GB, needs 5.2 GB of disk, once" in said


def test_a_small_disk_is_reported_before_the_download(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _uv(tmp_path, small=1, large=0)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(FetchError, match=r"torch needs 5\.2 GB of disk in .*, only 0\.0 GB are free"):
        fetching.fetch(TORCH, _with_system(environ), tmp_path)
    assert not any("numpy" in line and "cpu" not in line for line in log.read_text().splitlines())


@pytest.mark.soak
def test_pip_is_used_where_uv_is_not_available(environ: dict[str, str], tmp_path: Path) -> None:
    """With a real pip that has no index: it runs, and its message is passed on."""
    nowhere = {**environ, "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"}
    if fetching._uv(nowhere, tmp_path) is not None:
        pytest.skip("there is a uv in /usr/bin")
    with pytest.raises(FetchError, match=r"(?s)-m pip install --require-hashes --requirement .*ray.txt` failed:.*=="):
        fetching.fetch(RAY, nowhere, tmp_path)
    assert os.access(tmp_path / "cache" / "pumice" / "ray" / "bin" / "python3", os.X_OK)
    assert frameworks.find(RAY, environ, tmp_path) is None


def test_a_uv_that_does_not_start_is_no_uv(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "path" / "bin").mkdir(parents=True)
    _program(tmp_path / "path" / "bin" / "uv", "echo no version is set >&2; exit 126")
    assert fetching._uv(environ, tmp_path) is None


# --- running with it --------------------------------------------------------------------------------------------------


def test_an_environment_is_activated_and_another_python_put_first_on_the_path() -> None:
    environ = {"PATH": "/bin", "VIRTUAL_ENV": "/old"}
    assert frameworks.environment(Candidate("/v/bin/python3", "/v"), environ) == {"PATH": "/bin", "VIRTUAL_ENV": "/v"}
    assert frameworks.environment(Candidate("/opt/bin/python3"), environ) == {"PATH": "/opt/bin:/bin"}


def test_a_command_runs_with_it_and_its_exit_code_is_kept(environ: dict[str, str], tmp_path: Path) -> None:
    active = _python(tmp_path / "active", able=True, venv=True)
    environ |= {"VIRTUAL_ENV": str(tmp_path / "active"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "scripts.with_framework", "ray"]
    printed = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert printed.stdout == f"{active}\n"
    done = subprocess.run(
        [*command, "sh", "-c", "echo $VIRTUAL_ENV; exit 7"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, f"{tmp_path / 'active'}\n")


def test_an_unavailable_framework_is_reported_with_reason_and_hints(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _uv(tmp_path, small=1, large=2)
    for name, value in _with_system(environ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHON", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(with_framework, "find", lambda *_: None)
    assert with_framework.main(["torch", "true"]) == 1
    printed = capsys.readouterr().err
    assert "no route to the index" in printed
    assert "make PYTHON=/path/to/python3" in printed
    assert "apt-get install python3-torch" in printed


@pytest.mark.parametrize(
    ("ci", "passes", "printed"),
    [
        pytest.param("", True, "none: its tests are skipped; `make examples` fetches it", id="skipped elsewhere"),
        pytest.param("true", False, "no route to the index", id="fetched, or failed, in CI"),
    ],
)
def test_a_framework_that_is_missing_fails_only_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, passes: bool, printed: str
) -> None:
    def fetch(*_: object) -> Candidate:
        raise FetchError("no route to the index")

    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(check, "python_with", lambda _: None)
    monkeypatch.setattr(check, "fetch", fetch)
    assert check.has(RAY) is passes
    assert printed in capsys.readouterr().out

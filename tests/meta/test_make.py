"""Set-up without a network: when it has work to do, and what it says when it cannot do it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from scripts import check, programs, setup
from tests.meta.tree import ROOT

PYTHON = setup.Python("/usr/bin/python3.11", "3.11.2", can_make_venv=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what set-up reads, in a path with a space, with an environment that says it is ready for `run`."""
    root = tmp_path / "a checkout"
    shutil.copytree(ROOT / "scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "requirements", root / "requirements")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copy(ROOT / "Makefile", root)
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    setup.wanted(root, PYTHON, "run").write(root / ".venv")
    return root


def is_ready(root: Path, python: setup.Python = PYTHON, level: str = "run") -> bool:
    record = setup.Record.read(root / ".venv")
    return record is not None and record.covers(setup.wanted(root, python, level))


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def test_nothing_to_do_when_nothing_changed(checkout: Path) -> None:
    assert is_ready(checkout)
    before = sorted(checkout.rglob("*"))
    setup.ensure(checkout, PYTHON, "run")
    assert sorted(checkout.rglob("*")) == before


def test_the_settings_of_linters_are_no_reason_to_install_again(checkout: Path) -> None:
    append(checkout / "pyproject.toml", "\n[tool.made-up]\nstrict = true\n")
    assert is_ready(checkout)


def test_tests_need_more_than_running_and_running_no_more_than_tests(checkout: Path) -> None:
    assert not is_ready(checkout, level="test")
    setup.wanted(checkout, PYTHON, "test").write(checkout / ".venv")
    assert is_ready(checkout, level="run")


@pytest.mark.parametrize("name", ["run", "test", "uv"])
def test_other_pins_make_another_environment(checkout: Path, name: str) -> None:
    append(checkout / "requirements" / f"{name}.txt", "# changed\n")
    assert not is_ready(checkout)


def test_other_metadata_of_the_project_is_installed_into_the_same_environment(checkout: Path) -> None:
    before = setup.wanted(checkout, PYTHON, "run")
    pyproject = checkout / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('\ndescription = "', '\ndescription = "Other '))
    after = setup.wanted(checkout, PYTHON, "run")
    assert not before.covers(after)
    assert before.environment == after.environment


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(replace(PYTHON, path="/usr/local/bin/python3.11"), id="another directory"),
        pytest.param(replace(PYTHON, version="3.12.0"), id="another version"),
    ],
)
def test_another_python_makes_another_environment(checkout: Path, python: setup.Python) -> None:
    assert not is_ready(checkout, python)


def test_a_moved_checkout_makes_another_environment(checkout: Path) -> None:
    assert not is_ready(checkout.rename(checkout.with_name("moved")))


@pytest.mark.parametrize("record", ["", "{}", "[]", '{"environment": "x", "project": "y", "level": "z"}', "\0"])
def test_a_record_that_says_nothing_counts_as_none(checkout: Path, record: str) -> None:
    (checkout / ".venv" / "made-from.json").write_text(record)
    assert setup.Record.read(checkout / ".venv") is None


def test_an_environment_without_its_python_is_rebuilt(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    link = checkout / ".venv" / "bin" / "python"
    link.unlink()
    link.symlink_to(checkout / "uninstalled")
    with pytest.raises(setup.SetupError, match="ensurepip"):
        setup.ensure(checkout, replace(PYTHON, can_make_venv=False), "run")
    assert not (checkout / ".venv").exists()


def test_an_environment_without_an_installer_is_rebuilt(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was made by a uv which is gone from PATH since: it has no pip."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(setup.SetupError, match="ensurepip"):
        setup.ensure(checkout, replace(PYTHON, can_make_venv=False), "test")
    assert not (checkout / ".venv").exists()


def test_python_without_venv_names_the_package_to_install(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    python = setup.Python("/usr/bin/python3.12", "3.12.3", can_make_venv=False)
    with pytest.raises(setup.SetupError) as caught:
        setup.ensure(checkout, python, "run")
    assert str(caught.value) == (
        "Python 3.12.3 (/usr/bin/python3.12) cannot make a virtual environment: its ensurepip is missing"
    )
    assert caught.value.hint.startswith("apt-get install python3.12-venv ")


def test_an_interrupted_set_up_leaves_no_record(
    checkout: Path, fake_bin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(
        fake_bin / "uv",
        'case "$1" in --version) exit 0 ;; venv) mkdir -p .venv/bin ;; *) echo no route; exit 7 ;; esac',
    )
    monkeypatch.setenv("PATH", f"{fake_bin}:/usr/bin:/bin")
    with pytest.raises(setup.SetupError, match=r"(?s)uv pip install .* failed with exit code 7:\n    no route"):
        setup.ensure(checkout, PYTHON, "test")
    assert setup.Record.read(checkout / ".venv") is None


def test_two_makes_do_not_build_at_once(checkout: Path) -> None:
    (checkout / ".venv" / "made-from.json").unlink()
    lock = checkout / ".venv.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        other = run_setup(checkout)
        assert other.stderr is not None
        assert other.stderr.readline() == "setup: waiting for another make that is setting up .venv\n"
        # While it waited the first one finished: nothing is left to do.
        python = setup.Python.of_this_process()
        setup.wanted(checkout, python, "test").write(checkout / ".venv")
    assert other.wait(timeout=60) == 0
    assert other.stderr.read() == ""
    other.stderr.close()


def run_setup(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", str(root / "scripts" / "setup.py"), "test"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        pytest.param(
            {"PIP_INDEX_URL": "x", "UV_SYSTEM_CERTS": "0"}, {"PIP_INDEX_URL": "x", "UV_SYSTEM_CERTS": "0"}, id="own"
        ),
        pytest.param({"VIRTUAL_ENV": "x", "PYTHONPATH": "y", "PYTHONHOME": "z"}, {}, id="of another environment"),
        pytest.param({"HOME": "/proc"}, {"HOME": "/proc", "UV_NO_CACHE": "1"}, id="home that cannot be written"),
    ],
)
def test_what_installers_see(tmp_path: Path, inherited: dict[str, str], expected: dict[str, str]) -> None:
    ours = {
        "UV_PYTHON_DOWNLOADS",
        "UV_SYSTEM_CERTS",
        "UV_NATIVE_TLS",
        "PIP_DISABLE_PIP_VERSION_CHECK",
        "PIP_ROOT_USER_ACTION",
    }
    seen = setup._environment({"HOME": str(tmp_path), **inherited})
    assert ours <= seen.keys()
    assert {key: value for key, value in seen.items() if key in inherited or key not in {*ours, "HOME"}} == expected


# --- scripts/python: the choice of the interpreter --------------------------------------------------------------------


@pytest.fixture
def fake_bin(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    return directory


def fake(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def fake_python(program: Path, version: str, *, new_enough: bool) -> None:
    """Answers the two questions that scripts/python asks, and says its name when it is chosen."""
    answers = f'*version_info\\ \\<*) exit {int(not new_enough)} ;; *print*) echo "Python {version}" ;;'
    fake(program, f'case "$*" in {answers} *) echo "chose {program.name}: $*" ;; esac')


def choose(directory: Path, path: Path, python: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "python"), "setup.py", "run"],
        cwd=directory,
        env={"PATH": str(path), "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("old", "new", "chosen"),
    [
        pytest.param([], ["python3", "python3.12"], "python3", id="the usual one first"),
        pytest.param(
            ["python3"], ["python3.12", "python3.11"], "python3.12", id="the newest where the usual one is old"
        ),
        pytest.param([], ["python"], "python", id="python where there is nothing else"),
    ],
)
def test_the_first_python_that_is_new_enough_is_chosen(
    tmp_path: Path, fake_bin: Path, old: Sequence[str], new: Sequence[str], chosen: str
) -> None:
    for name in old:
        fake_python(fake_bin / name, "3.9.2", new_enough=False)
    for name in new:
        fake_python(fake_bin / name, "3.12.1", new_enough=True)
    assert choose(tmp_path, fake_bin).stdout == f"chose {chosen}: -I setup.py run\n"


def test_the_environment_keeps_its_python(tmp_path: Path, fake_bin: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    fake_python(tmp_path / ".venv" / "bin" / "python", "3.13.0", new_enough=True)
    fake_python(fake_bin / "python3", "3.11.2", new_enough=True)
    assert choose(tmp_path, fake_bin).stdout == "chose python: -I setup.py run\n"


def test_a_named_python_wins(tmp_path: Path, fake_bin: Path) -> None:
    fake_python(fake_bin / "python3", "3.12.1", new_enough=True)
    named = fake_bin / "my own python"
    fake_python(named, "3.11.2", new_enough=True)
    assert choose(tmp_path, fake_bin, str(named)).stdout == "chose my own python: -I setup.py run\n"


@pytest.mark.parametrize(
    ("installed", "named", "message"),
    [
        pytest.param([], "", "setup: Pumice needs Python 3.11 or newer, found: none", id="no python"),
        pytest.param(
            ["python3"],
            "",
            "setup: Pumice needs Python 3.11 or newer, found: Python 3.9.2 (python3)",
            id="only an old one",
        ),
        pytest.param(
            ["python3"], "python3", "setup: PYTHON=python3 is Python 3.9.2, Pumice needs 3.11 or newer", id="named, old"
        ),
        pytest.param([], "nowhere", "setup: PYTHON=nowhere does not run", id="named, missing"),
    ],
)
def test_no_usable_python(tmp_path: Path, fake_bin: Path, installed: Sequence[str], named: str, message: str) -> None:
    for name in installed:
        fake_python(fake_bin / name, "3.9.2", new_enough=False)
    done = choose(tmp_path, fake_bin, named)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == message
    assert "make PYTHON=/path/to/python3.11" in done.stderr


# --- outside programs, and the verdict --------------------------------------------------------------------------------

THERE = programs.Program("sh", "dash", "is always there")
ABSENT = programs.Program("no-such-program", "no-such-package", "is never there")


def test_the_table_says_how_to_get_what_is_missing() -> None:
    table, missing = programs.provide([THERE, ABSENT], install=None)
    assert missing == [ABSENT]
    assert "sh           found " in table
    assert "no-such-program missing: apt-get install no-such-package " in table


def test_only_what_is_missing_is_installed(fake_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake_bin}:/usr/bin:/bin")
    asked: list[Sequence[str]] = []

    def install(packages: Sequence[str]) -> str:
        asked.append(packages)
        fake(fake_bin / ABSENT.name, "exit 0")
        return ""

    table, missing = programs.provide([THERE, ABSENT], install=install)
    assert asked == [["no-such-package"]]
    assert missing == []
    assert "no-such-program installed now " in table


def test_the_cause_of_a_failed_installation_is_reported() -> None:
    table, missing = programs.provide([ABSENT], install=lambda _: "E: no route to host")
    assert missing == [ABSENT]
    assert table.endswith("apt-get: E: no route to host")


def test_an_unknown_program_is_an_error_of_the_test_that_needs_it() -> None:
    with pytest.raises(LookupError, match=r"no-such-program: .*add it there"):
        programs.named("no-such-program")


@pytest.mark.parametrize(("results", "verdict"), [([True, True], True), ([False, True], False), ([True, False], False)])
def test_all_checks_run_and_one_failure_fails_all(
    results: list[bool], verdict: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    def passes(number: int) -> bool:
        ran.append(number)
        return results[number]

    checks = [check.Check(f"check {number}", 1, partial(passes, number)) for number in range(len(results))]
    assert check.perform(checks) is verdict
    assert ran == [0, 1]
    summary = capsys.readouterr().out.partition("== summary\n")[2].splitlines()
    assert [line.split()[0] for line in summary] == ["ok" if result else "FAILED" for result in results]


@pytest.mark.parametrize(("ci", "passes"), [("true", False), ("", True)])
def test_a_missing_program_fails_only_ci(monkeypatch: pytest.MonkeyPatch, ci: str, passes: bool) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(programs, "PROGRAMS", (ABSENT,))
    monkeypatch.setattr(programs, "installer", lambda: None)
    assert check.outside_programs() is passes


@pytest.mark.parametrize(
    ("ci", "code", "said"),
    [
        pytest.param("", 0, "1 skipped", id="skipped, with its reason"),
        pytest.param("true", 1, "1 error", id="failed in CI"),
    ],
)
def test_a_test_whose_program_is_missing(tmp_path: Path, ci: str, code: int, said: str) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.needs('busybox')\ndef test_it():\n    raise AssertionError\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-rsf"]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "--config-file=pyproject.toml", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": "", "CI": ci, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    assert "busybox is missing: apt-get install busybox" in done.stdout


def test_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in listed.splitlines()] == targets
    columns = {len(line) - len(line.split(maxsplit=2)[2]) for line in listed.splitlines()}
    assert len(columns) == 1, listed
    assert os.access(ROOT / ".ci" / "run", os.X_OK)

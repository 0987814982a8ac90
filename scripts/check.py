"""What `make test` and `make lint` do: every check, each with the time it took, and one verdict.

All checks run even if one fails, so that a developer sees everything at once. Under CI=true a program that could be
installed but is not counts as a failure: a test that never runs there would rot unseen.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import run

from scripts import kubernetes_programs, programs
from scripts.fetching import FetchError, fetch
from scripts.frameworks import FRAMEWORKS, Candidate, Framework, find

PYTHON_FOLDERS = ("src", "tests", "scripts", "benchmarks")
PURE_PACKAGES = ("model", "plugins", "admission", "reconcile")
# What depends on the rights of the user: real sandboxes, and files that are made, owned and removed.
USER_TESTS = (
    "tests/local",
    "tests/unit/engines/local/images",
    "tests/unit/engines/local/state",
    "tests/unit/engines/local/volumes",
    "tests/unit/engines/local/sandbox",
)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    passes: Callable[[], bool]


def command(name: str, *arguments: str) -> Check:
    """A check that is a program of .venv."""
    program = str(Path(sys.executable).with_name(arguments[0]))
    return Check(name, lambda: run([program, *arguments[1:]], check=False).returncode == 0)


def lint() -> list[Check]:
    folders = [folder for folder in PYTHON_FOLDERS if Path(folder).is_dir()]
    return [
        command("ruff check", "ruff", "check", "--quiet", "."),
        command("ruff format", "ruff", "format", "--check", "--quiet", "."),
        command("mypy --strict", "mypy", "--no-error-summary", *folders),
        command("import-linter", "lint-imports", "--no-logo"),
    ]


def tests() -> list[Check]:
    """As root, what depends on the user's rights is run once more as an ordinary user."""
    pure = ",".join(f"src/pumice/{package}/*" for package in PURE_PACKAGES)
    is_root = sys.platform == "linux" and os.geteuid() == 0
    again = [Check("tests as an ordinary user", ordinary_user)] if is_root else []
    return [
        Check("outside programs", outside_programs),
        *(Check(name, partial(has, framework)) for name, framework in FRAMEWORKS.items()),
        Check("kubernetes programs", kubernetes),
        command("pytest", "pytest", "-q", "-rfEs", "--numprocesses=auto", "--maxprocesses=8", "--cov", "--cov-report="),
        command("coverage of the pure packages", "coverage", "report", f"--include={pure}", "--fail-under=100"),
        *again,
    ]


def outside_programs() -> bool:
    table, missing = programs.provide(programs.PROGRAMS, install=programs.installer())
    print(table, flush=True)
    return not missing or os.environ.get("CI") != "true"


def ordinary_user() -> bool:
    found = {each.variable: python_with(each) for each in FRAMEWORKS.values()}
    environ = {**os.environ, **{name: each.python for name, each in found.items() if each is not None}}
    options = ("-q", "-rfEs", "--numprocesses=auto", "--maxprocesses=8", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "scripts.ordinary_user", sys.executable, "-m", "pytest", *options, *USER_TESTS]
    return run(command, env=environ, check=False).returncode == 0


@functools.cache
def python_with(framework: Framework) -> Candidate | None:
    return find(framework, os.environ, Path.cwd())


def has(framework: Framework) -> bool:
    """Under CI=true it is fetched; elsewhere such a download is not for a test to begin, and its tests are skipped."""
    found = python_with(framework)
    if found is None and os.environ.get("CI") == "true":
        try:
            found = fetch(framework, os.environ, Path.cwd())
            python_with.cache_clear()
        except FetchError as error:
            print(f"  {error}")
            return False
    print(f"  {found.python}" if found else "  none: its tests are skipped; `make examples` fetches it", flush=True)
    return True


def kubernetes() -> bool:
    """A real API server. Where it cannot be built, its tests are skipped; under CI=true that is a failure."""
    try:
        found = kubernetes_programs.find_or_build(os.environ, Path.cwd())
    except kubernetes_programs.ProgramsError as error:
        print(f"  not there, its tests are skipped: {error}", flush=True)
        return os.environ.get("CI") != "true"
    print(f"  {found.origin}", flush=True)
    return True


def perform(checks: Iterable[Check]) -> bool:
    lines = []
    passed = True
    for check in checks:
        print(f"\n== {check.name}", flush=True)
        started = time.monotonic()
        good = check.passes()
        passed = passed and good
        lines.append(f"  {'ok    ' if good else 'FAILED'} {time.monotonic() - started:6.1f} s  {check.name}")
    print("\n== summary", *lines, sep="\n")
    return passed


def main(arguments: Sequence[str]) -> int:
    checks = lint() if list(arguments) == ["lint"] else [*lint(), *tests()]
    return 0 if perform(checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

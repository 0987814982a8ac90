"""`make check` and `make test`: every check, how far it is, how long it takes, and one verdict.

All checks run even if one fails, so that a developer sees everything at once. Under CI=true a program that could be
installed but is missing counts as a failure: a test that never runs there would rot unseen.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from scripts import kubernetes_programs, programs
from scripts.duration_text import duration
from scripts.fetching import FetchError, fetch
from scripts.frameworks import FRAMEWORKS, Candidate, Framework, find
from scripts.user_cache import cache_directory

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FOLDERS = ("src", "tests", "scripts", "benchmarks")
PURE_PACKAGES = ("model", "plugins", "admission", "diagnosis", "reconcile")
PURE_TESTS = tuple(f"tests/unit/{package}" for package in PURE_PACKAGES)
# Tests whose result depends on the rights of the user: real sandboxes, and files that are made, owned and removed. What
# the kubelet, policies, verdicts, views and flags do is the same for every user.
USER_TESTS = (
    "tests/local/sandbox",
    "tests/local/test_examples.py::test_the_pytorch_job_sends_a_number_around_all_ranks",
    "tests/local/test_examples.py::test_the_mpi_job_says_hello_from_every_worker",
    "tests/local/test_bounds.py",
    "tests/local/test_consent.py",
    "tests/local/test_cp.py",
    "tests/local/test_damaged_store.py",
    "tests/local/test_debugging.py",
    "tests/local/test_escapes.py",
    "tests/local/test_exec.py",
    "tests/local/test_first_hour.py",
    "tests/local/test_full_disk.py",
    "tests/local/test_foreground.py",
    "tests/local/test_hard_times.py",
    "tests/local/test_init.py",
    "tests/local/test_interpreter.py",
    "tests/local/test_isolation.py",
    "tests/local/test_isolation_page.py",
    "tests/local/test_kill.py",
    "tests/local/test_process_sandbox.py",
    "tests/local/test_read_only_paths.py",
    "tests/local/test_run.py",
    "tests/local/test_run_inputs.py",
    "tests/local/test_run_volumes.py",
    "tests/local/test_scripted_hour.py",
    "tests/local/test_run_code.py",
    "tests/local/test_secrets.py",
    "tests/local/test_session.py",
    "tests/local/test_top.py",
    "tests/local/test_tunnel_programs.py",
    "tests/unit/engines/local/images",
    "tests/unit/store/files",
    "tests/unit/engines/local/volumes",
    "tests/unit/engines/local/sandbox",
)
# Run by root, these run only as an ordinary user: they show the same as root, or need limits that root does not have.
ONLY_AS_USER = (
    "tests/local/sandbox/test_death.py",
    "tests/local/sandbox/test_job_network.py",
    "tests/local/test_bounds.py",
    "tests/local/test_consent.py",
    "tests/local/test_cp.py",
    "tests/local/test_damaged_store.py",
    "tests/local/test_examples.py::test_the_pytorch_job_sends_a_number_around_all_ranks",
    "tests/local/test_examples.py::test_the_mpi_job_says_hello_from_every_worker",
    "tests/local/test_exec.py",
    "tests/local/test_first_hour.py",
    "tests/local/test_full_disk.py",
    "tests/local/test_foreground.py",
    "tests/local/test_hard_times.py",
    "tests/local/test_init.py",
    "tests/local/test_kill.py",
    "tests/local/test_process_sandbox.py",
    "tests/local/test_run.py",
    "tests/local/test_run_inputs.py",
    "tests/local/test_run_volumes.py",
    "tests/local/test_scripted_hour.py",
    "tests/local/test_secrets.py",
    "tests/local/test_session.py",
    "tests/local/test_top.py",
    "tests/local/test_tunnel_programs.py",
)
# Tests of the pure packages that take long where coverage is measured, and add nothing to it.
NOT_MEASURED = (
    "tests/unit/plugins/test_third_party.py",
    "tests/unit/plugins/test_wait_for_master.py",
)
CORES = os.cpu_count() or 1
PYTEST = ("pytest", "--progress", "-q", "-rfEs")
# Tests of the pure packages wait for nothing. Many others wait for processes and servers: more workers keep the cores
# busy.
BUSY = (*PYTEST, f"--numprocesses={CORES}")
WAITING = (*PYTEST, f"--numprocesses={CORES + 2}")
USER_PYTEST = (sys.executable, "-m", *BUSY, "-p", "no:cacheprovider", *USER_TESTS)


@dataclass(frozen=True, slots=True)
class Check:
    """`seconds` is how long the check takes on two cores, until a run on this machine has measured it."""

    name: str
    seconds: int
    passes: Callable[[], bool]


@dataclass(slots=True)
class Beside:
    """A program that runs beside a check and is a check of its own afterwards, which prints its output.

    With `only_errors` it prints the output only if the program fails.
    """

    arguments: Sequence[str]
    only_errors: bool = False
    _output: IO[bytes] | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self, environ: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - it stays open until `finish`
        self._process = subprocess.Popen(
            self.arguments,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def finish(self) -> bool:
        if self._process is None or self._output is None:
            return False
        code = self._process.wait()
        if code != 0 or not self.only_errors:
            self._output.seek(0)
            print(self._output.read().decode(errors="replace"), flush=True)
        return code == 0


def command(name: str, seconds: int, *arguments: str) -> Check:
    """Return a check that runs a program of .venv."""
    program = str(Path(sys.executable).with_name(arguments[0]))
    return Check(name, seconds, lambda: subprocess.run([program, *arguments[1:]], check=False).returncode == 0)


def lint() -> list[Check]:
    folders = [folder for folder in PYTHON_FOLDERS if Path(folder).is_dir()]
    cache = cache_directory("mypy", os.environ)
    return [
        command("ruff check", 1, "ruff", "check", "--quiet", "."),
        command("ruff format", 1, "ruff", "format", "--check", "--quiet", "."),
        # The cache of all checkouts: mypy compares the contents of files, not their paths.
        command("mypy --strict", 25, "mypy", f"--cache-dir={cache}", "--no-error-summary", *folders),
        command("import-linter", 1, "lint-imports", "--no-logo"),
    ]


def unit_tests() -> list[Check]:
    return [command("unit tests", 60, *WAITING, "tests/unit", "tests/meta/test_tree.py")]


def tests(collection: Beside | None) -> list[Check]:
    """Return the checks of `make test`; as root, tests that depend on the user's rights run as `nobody`."""
    pure = ",".join(f"src/pumice/{package}/*" for package in PURE_PACKAGES)
    is_root = sys.platform == "linux" and os.geteuid() == 0
    fuzz = Beside([sys.executable, "-m", "scripts.fuzz", "--seconds=10"])
    user = Beside([sys.executable, "-m", "scripts.ordinary_user", *USER_PYTEST])
    pythons = Beside([sys.executable, "-m", "scripts.pythons"])
    again = [Check("tests as an ordinary user", 30, user.finish)] if is_root else []
    ignored = ONLY_AS_USER if is_root else ()

    def provided_programs() -> bool:
        good = outside_programs()
        # It needs these programs. It has the lowest priority, and takes what the other checks leave.
        pythons.start({})
        return good

    def all_tests() -> bool:
        # Tests wait for processes and servers a third of the time; these use it.
        fuzz.start({})
        if is_root:
            user.start({each.variable: found.python for each in FRAMEWORKS.values() if (found := python_with(each))})
        arguments = [sys.executable, "-m", *WAITING, *map(without, (*measured(), *ignored))]
        return subprocess.run(arguments, check=False).returncode == 0

    return [
        Check("outside programs", 1, provided_programs),
        *(Check(name, 1, partial(has, framework)) for name, framework in FRAMEWORKS.items()),
        # Only where it is asked for: measuring makes Python code two to three times as slow.
        command("tests of the pure packages", 25, *BUSY, "--cov", "--cov-report=", *measured()),
        command("coverage of the pure packages", 5, "coverage", "report", f"--include={pure}", "--fail-under=100"),
        *([Check("collection of the tests", 1, collection.finish)] if collection is not None else []),
        Check("pytest", 450, all_tests),
        Check("kubernetes programs", 1, kubernetes),
        Check("fuzz", 1, fuzz.finish),
        *again,
        Check("other Pythons", 1, pythons.finish),
    ]


def measured() -> list[str]:
    """Return the files whose tests show the coverage of the pure packages."""
    files = (str(file) for folder in PURE_TESTS for file in Path(folder).rglob("test_*.py"))
    return sorted(file for file in files if file not in NOT_MEASURED)


def without(test: str) -> str:
    """Return the argument that leaves out a file, a folder, or one test."""
    return f"--deselect={test}" if "::" in test else f"--ignore={test}"


def outside_programs() -> bool:
    table, missing = programs.provide(programs.PROGRAMS, install=programs.installer())
    print(table, flush=True)
    return not missing or os.environ.get("CI") != "true"


@functools.cache
def python_with(framework: Framework) -> Candidate | None:
    return find(framework, os.environ, Path.cwd())


def has(framework: Framework) -> bool:
    """Find a framework. Under CI=true it is fetched; elsewhere no test starts such a download, and is skipped."""
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


def build_kubernetes() -> subprocess.Popen[bytes] | None:
    """Build a real API server beside the other checks; the tests that need it run last and wait for it."""
    if kubernetes_programs.find(os.environ, ROOT) is not None:
        return None
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.kubernetes_programs"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def kubernetes() -> bool:
    """Without a real API server its tests are skipped; under CI=true that is a failure."""
    found = kubernetes_programs.find(os.environ, ROOT)
    print(f"  {found.origin}" if found else "  not built: tests/cluster is skipped", flush=True)
    return found is not None or os.environ.get("CI") != "true"


def perform(checks: Iterable[Check], times: Path | None = None) -> bool:
    """Run the checks; print before each how far this is and how long it takes, and at the end a summary."""
    every = list(checks)
    known = _read_times(times)
    lines = []
    passed = True
    for number, check in enumerate(every, start=1):
        left = sum(known.get(each.name, each.seconds) for each in every[number - 1 :])
        expected = duration(known.get(check.name, check.seconds))
        print(f"\n== {number}/{len(every)} {check.name} (about {expected}; {duration(left)} to go)", flush=True)
        started = time.monotonic()
        good = check.passes()
        passed = passed and good
        known[check.name] = took = time.monotonic() - started
        lines.append(f"  {'ok    ' if good else 'FAILED'} {took:6.1f} s  {check.name}")
    print("\n== summary", *lines, sep="\n")
    if times is not None and times.parent.is_dir():
        times.write_text(json.dumps(known))
    return passed


def _read_times(file: Path | None) -> dict[str, float]:
    """How long each check took last time on this machine."""
    if file is None or not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text())
        return {str(name): float(seconds) for name, seconds in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def main(arguments: Sequence[str]) -> int:
    what = arguments[0] if arguments else "test"
    times = ROOT / ".venv" / "check-times.json"
    # Hypothesis reads all modules for constants, which takes each process five seconds; it keeps what it found here.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_directory("hypothesis", os.environ)))
    checks = lint()
    if what == "check":
        checks += unit_tests()
    if what == "test":
        # In a new checkout: pytest rewrites the asserts of each file once and keeps the bytecode. Without this all
        # workers would do so.
        collection = None
        if not times.exists():
            collection = Beside([sys.executable, "-m", "pytest", "--collect-only", "-qq"], only_errors=True)
            collection.start({})
        checks += tests(collection)
    building = build_kubernetes() if what == "test" else None
    try:
        return 0 if perform(checks, times) else 1
    finally:
        if building is not None:
            building.terminate()
            building.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Fetch torch, tensorflow, ray or mpi4py into an environment of its own in the user's cache directory, once.

Installs the versions of requirements/<framework>.txt and checks their hashes. Uses uv where it is available, else pip.
Announces a large download, and does not start it if the disk is too small.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.frameworks import Candidate, Framework, can_run, private_environment

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"


class FetchError(Exception):
    """Why the framework is not available; printed to the user as it is."""


def fetch(framework: Framework, environ: Mapping[str, str], project: Path) -> Candidate:
    """Make the private environment, or continue an interrupted attempt. Raises FetchError."""
    private = private_environment(framework, environ)
    python = str(private / "bin" / "python3")
    try:
        private.parent.mkdir(parents=True, exist_ok=True)
        with (private.parent / f"{framework.name}.lock").open("w") as lock:
            _wait_for(framework, lock.fileno())
            if not can_run(framework, python):
                _install(framework, private, environ, _uv(environ, project))
            (private / framework.done).touch()
    except OSError as error:
        raise FetchError(f"{error.filename or private.parent}: {error.strerror}") from error
    return Candidate(python, str(private))


def _install(framework: Framework, private: Path, environ: Mapping[str, str], uv: str | None) -> None:
    settings, pinned = _settings(environ), REQUIREMENTS / f"{framework.name}.txt"
    python = str(private / "bin" / "python3")
    if not os.access(python, os.X_OK):
        _make_environment(private, settings, uv)
    if framework.has_cpu_build and uv:
        say(framework, "not installed in any of your Pythons: trying the small CPU build")
        quick = {**settings, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "20"}
        # The same versions. Its wheels are others than those of the pinned hashes, so only TLS protects them.
        small = [*_installer(python, uv), "--torch-backend=cpu", *_versions(framework, pinned)]
        done = subprocess.run(small, env=quick, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode == 0 and can_run(framework, python):
            return
        say(framework, "the CPU build is not available")
    _check_room(framework, private)
    size = f"downloads {framework.download}, needs {framework.disk / 1e9:.1f} GB of disk, once"
    say(framework, f"fetching it into {private}: {size}")
    _call([*_installer(python, uv), "--require-hashes", "--requirement", str(pinned)], settings)
    if not can_run(framework, python):
        raise FetchError(f"{framework.name} was installed, but {python} cannot use it")


def _versions(framework: Framework, pinned: Path) -> list[str]:
    """The framework's own packages with their pinned versions: `torch==2.15.0`."""
    lines = (line.removesuffix(" \\") for line in pinned.read_text().splitlines() if "==" in line)
    return [line for line in lines if line.partition("==")[0] in framework.packages]


def _make_environment(private: Path, settings: Mapping[str, str], uv: str | None) -> None:
    base = _base_python()
    if uv:
        _call([uv, "venv", "--quiet", "--no-project", "--clear", "--python", base, str(private)], settings)
    else:
        _call([base, "-I", "-m", "venv", "--clear", str(private)], settings)


def _installer(python: str, uv: str | None) -> list[str]:
    """Both leave bytecode: pods see the environment read-only, and every rank would compile everything again."""
    if uv:
        return [uv, "pip", "install", "--python", python, "--compile-bytecode"]
    return [python, "-I", "-m", "pip", "install"]


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    ours = {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    kept = {name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    return {**ours, **kept}


def _check_room(framework: Framework, private: Path) -> None:
    free = shutil.disk_usage(private).free
    if free < framework.disk:
        needed = f"{framework.name} needs {framework.disk / 1e9:.1f} GB of disk in {private}"
        raise FetchError(f"{needed}, only {free / 1e9:.1f} GB are free")


def _call(command: Sequence[str], settings: Mapping[str, str]) -> None:
    """Show the installer's progress on a terminal; elsewhere print its output only if it fails."""
    watched = sys.stderr.isatty()
    done = subprocess.run(
        command,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if watched else subprocess.DEVNULL,
        stderr=None if watched else subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = "\n".join(f"    {line}" for line in (done.stderr or "").strip().splitlines()[-8:])
        raise FetchError(f"`{' '.join([Path(command[0]).name, *command[1:]])}` failed{':' if lines else ''}\n{lines}")


def _base_python() -> str:
    """Return the system's interpreter if it is new enough: pods must see the interpreter that an environment uses."""
    system = "/usr/bin/python3"
    is_new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    if os.access(system, os.X_OK) and subprocess.run([system, "-ISc", is_new_enough], check=False).returncode == 0:
        return system
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _uv(environ: Mapping[str, str], project: Path) -> str | None:
    """None where pip has to do. A name on PATH may be the stub of a version manager that has no uv to start."""
    for path in (environ.get("PATH", os.defpath), str(project / ".venv" / "bin")):
        found = shutil.which("uv", path=path)
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def _wait_for(framework: Framework, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(framework, "waiting for another make that fetches it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def say(framework: Framework, message: str) -> None:
    print(f"{framework.name}: {message}", file=sys.stderr, flush=True)

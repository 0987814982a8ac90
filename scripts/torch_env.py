"""Find a Python that has torch, or fetch one: `make run` and the tests run real jobs of PyTorch with it.

Torch stays out of the project's own environment: it is larger than all else together, and the user may have it already.
So first the Pythons of the user are asked, each in a process of its own. Only then a private environment is made in the
user's cache directory, where it serves every later run: with the small build for CPUs where its index can be reached,
else with the large one. Standard library only, as it may be the first thing that runs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD = "2.9 GB"
DISK = 5_200_000_000
PROBE = """
import importlib.util, sys
if importlib.util.find_spec("torch") is None: sys.exit(1)
import torch.distributed as dist
sys.exit(not (dist.is_available() and dist.is_gloo_available()))
"""
# Written last, so that what was interrupted is continued and not trusted.
DONE = "torch-is-complete"


class TorchError(Exception):
    """Why there is no torch, told to the user as it stands."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Python of the user that may have torch. `venv` is what VIRTUAL_ENV must say for a run with it, if anything."""

    python: str
    venv: str = ""


def candidates(environ: Mapping[str, str], project: Path) -> Iterator[Candidate]:
    """The user's Pythons, in order: the one named, the one of the active environment, the one on PATH."""
    named = environ.get("PYTHON", "")
    active = environ.get("VIRTUAL_ENV", "")
    if named and (found := shutil.which(named, path=environ.get("PATH"))):
        yield Candidate(found, venv_of(found))
    # The project's own environment never has torch: whoever has activated it is saved the time of asking.
    if active and Path(active).resolve() != (project / ".venv").resolve():
        yield Candidate(str(Path(active, "bin", "python3")), active)
    if found := shutil.which("python3", path=environ.get("PATH")):
        yield Candidate(found, venv_of(found))


def venv_of(python: str) -> str:
    """The environment that an interpreter belongs to, or nothing."""
    folder = Path(python).absolute().parent.parent
    return str(folder) if (folder / "pyvenv.cfg").is_file() else ""


def has_torch(python: str) -> bool:
    """Whether this Python can do what the example does; asked in a process of its own, as importing may go wrong.

    What is installed below the user's home directory does not count: pods do not see it.
    """
    try:
        done = subprocess.run([python, "-Ic", PROBE], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def cache_directory(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pumice"


def find(environ: Mapping[str, str], project: Path) -> Candidate | None:
    """A Python that has torch already."""
    private = cache_directory(environ) / "torch"
    asked = set()
    for candidate in candidates(environ, project):
        if candidate.python not in asked and has_torch(candidate.python):
            return candidate
        asked.add(candidate.python)
    if (private / DONE).is_file() and os.access(private / "bin" / "python3", os.X_OK):
        return Candidate(str(private / "bin" / "python3"), str(private))
    return None


def fetch(environ: Mapping[str, str], project: Path) -> Candidate:
    """Make the private environment, or go on where an earlier attempt was interrupted. Raises TorchError."""
    cache = cache_directory(environ)
    private = cache / "torch"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "torch.lock").open("w") as lock:
            _wait_for(lock.fileno())
            if not (private / DONE).is_file():
                if not has_torch(str(private / "bin" / "python3")):
                    _install(private, _uv(project), environ)
                (private / DONE).touch()
    except OSError as error:
        raise TorchError(f"{error.filename or cache}: {error.strerror}") from error
    return Candidate(str(private / "bin" / "python3"), str(private))


def _install(private: Path, uv: str, environ: Mapping[str, str]) -> None:
    settings = {**environ, "UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    settings = {name: value for name, value in settings.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    python = private / "bin" / "python3"
    if not os.access(python, os.X_OK):
        _call([uv, "venv", "--quiet", "--no-project", "--clear", "--python", _base_python(), str(private)], settings)
    # Bytecode now, because pods see the environment read-only and every rank would compile everything again.
    install = [uv, "pip", "install", "--python", str(python), "--compile-bytecode"]
    _say("no torch found in your Pythons: trying the small build for CPUs")
    quick = {**settings, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "20"}
    small = [*install, "--torch-backend=cpu", "torch", "numpy"]
    if subprocess.run(small, env=quick, capture_output=True, check=False).returncode:
        free = shutil.disk_usage(private).free
        if free < DISK:
            raise TorchError(f"torch needs 5.2 GB of disk in {private}, only {free / 1e9:.1f} GB are free")
        _say(f"it cannot be had; fetching the usual build: downloads {DOWNLOAD}, needs 5.2 GB of disk, once")
        _call([*install, "torch", "numpy"], settings)
    if not has_torch(str(python)):
        raise TorchError(f"torch was installed, but {python} cannot import torch.distributed with gloo")


def _call(command: Sequence[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=environ, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        lines = "\n".join(f"    {line}" for line in done.stderr.strip().splitlines()[-8:])
        raise TorchError(f"`{' '.join([Path(command[0]).name, *command[1:]])}` failed:\n{lines}")


def _base_python() -> str:
    """The system's interpreter if it is new enough: an environment is only as visible to pods as what it stands on."""
    system = "/usr/bin/python3"
    is_new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    if os.access(system, os.X_OK) and subprocess.run([system, "-ISc", is_new_enough], check=False).returncode == 0:
        return system
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _uv(project: Path) -> str:
    found = shutil.which("uv") or shutil.which("uv", path=str(project / ".venv" / "bin"))
    if found is None:
        raise TorchError("fetching torch takes uv, which is neither on PATH nor in .venv")
    return found


def _wait_for(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("waiting for another make that fetches torch")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _say(message: str) -> None:
    print(f"torch: {message}", file=sys.stderr, flush=True)


def find_or_fetch(environ: Mapping[str, str], project: Path) -> Candidate:
    return find(environ, project) or fetch(environ, project)


def main(command: Sequence[str]) -> int:
    """Run a command with that Python active."""
    project = Path(__file__).resolve().parent.parent
    try:
        chosen = find_or_fetch(os.environ, project)
    except TorchError as error:
        _say(str(error))
        print(
            "hint: any Python that has torch will do: make PYTHON=/path/to/python3 run, or activate its environment;\n"
            "      on Debian the small way is apt-get install python3-torch",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        _say("interrupted; the next make goes on from here")
        return 130
    if not command:
        print(chosen.python)
        return 0
    # Ctrl-C is for the command, which ends its pods first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return subprocess.call(command, env=environment(chosen, os.environ))


def environment(chosen: Candidate, environ: Mapping[str, str]) -> dict[str, str]:
    """What makes `pumice run` take the chosen Python: its environment active, or its directory first on PATH."""
    kept = {name: value for name, value in environ.items() if name != "VIRTUAL_ENV"}
    if chosen.venv:
        return {**kept, "VIRTUAL_ENV": chosen.venv}
    return {**kept, "PATH": f"{Path(chosen.python).parent}{os.pathsep}{environ.get('PATH', os.defpath)}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

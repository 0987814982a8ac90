"""Kills `pumice run` at any moment of a short job's life, and looks for whatever is left of the job afterwards.

What belongs to a run is known in three ways: its directory stands in the command line or in the environment of all its
processes, they descend from pumice, and they are in namespaces that were not there before.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.local.running import SEARCH_PATH
from tests.patience import PATIENCE

SOURCES = Path(__file__).resolve().parents[2] / "src"
MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts")

# What is waited for in the output, and how many seconds after it the kill may come: from the first import to the last
# file that is cleared away.
MOMENTS = (("", 0.6), ("pods:", 0.2), ("Pending", 0.2), ("first", 0.1), ("up", 0.3), ("down", 0.1), ("Completed", 0.1))

VICTIMS = ("client", "supervisor", "both", "client")

# The pods end by themselves, but for processes in the background. One of these leaves its session, where asked to.
LIVELY = "{detach} sleep 1000 & sleep 1000 & echo up; sleep 0.3; echo down"


def job(script: str, policies: Sequence[dict[str, str]] = (), pods: int = 3) -> list[dict[str, Any]]:
    """With all that needs clearing away: an init container, keys, volumes of every kind, a limit of memory."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("conf", "empty", "memory")]
    main = {"name": "task", "image": "host", "command": ["sh", "-c", script], "volumeMounts": mounts}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "initContainers": [
            {"name": "first", "image": "host", "command": ["sh", "-c", "echo first; echo 1 > /empty/f"]}
        ],
        "containers": [{**main, "resources": {"limits": {"memory": "64Mi"}}}],
        "volumes": [
            {"name": "conf", "configMap": {"name": "conf"}},
            {"name": "empty", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
    }
    pod["initContainers"][0]["volumeMounts"] = mounts  # type: ignore[index] # the one above
    spec = {
        "schedulerName": "volcano",
        "maxRetry": 1,
        "policies": list(policies),
        "plugins": {"svc": [], "ssh": [], "env": []},
        "tasks": [{"name": "task", "replicas": pods, "template": {"spec": pod}}],
    }
    api = "batch.volcano.sh/v1alpha1"
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"key": "value"}},
        {"apiVersion": api, "kind": "Job", "metadata": {"name": "killed"}, "spec": spec},
    ]


def start(
    directory: Path, flags: Sequence[str] = (), script: str = "", policies: Sequence[dict[str, str]] = ()
) -> subprocess.Popen[str]:
    """`pumice run` of the job in a directory, by whose name its processes are known."""
    directory.mkdir(exist_ok=True)
    file = directory / "job.yaml"
    script = script or LIVELY.format(detach="" if "process" in flags else "setsid")
    # JSON is YAML, too.
    file.write_text("\n---\n".join(json.dumps(each) for each in job(script, policies)))
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", file.name, "--env", f"MARK={directory}", *flags],
        cwd=directory,
        env={
            "PATH": SEARCH_PATH,
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
            "PYTHONPATH": str(SOURCES),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _names(directory: str) -> set[str]:
    return {path.name for path in Path(directory).iterdir()}


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int = field(compare=False)  # another one when the first has died
    born: int  # in ticks since the machine's start; with the number, it tells a process from a later one

    @classmethod
    def all(cls) -> Iterator[Process]:
        for name in _names("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    # The name of the program stands in parentheses and may hold anything.
                    fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
                except OSError:
                    continue
                if fields[0] not in ("Z", "X"):
                    yield cls(int(name), int(fields[1]), int(fields[19]))

    def namespaces(self) -> set[str]:
        """As links say, like `net:[4026531840]`; none if it is gone or somebody else's."""
        found = set()
        for kind in NAMESPACES:
            try:
                found.add(str(Path(f"/proc/{self.pid}/ns/{kind}").readlink()))
            except OSError:
                continue
        return found

    def speaks_of(self, words: str) -> bool:
        for file in ("cmdline", "environ"):
            try:
                if words.encode() in Path(f"/proc/{self.pid}/{file}").read_bytes():
                    return True
            except OSError:
                continue
        return False

    def __str__(self) -> str:
        try:
            return f"process {self.pid} {Path(f'/proc/{self.pid}/cmdline').read_bytes()!r}"
        except OSError:
            return f"process {self.pid}"


def _ancestors(everyone: Sequence[Process]) -> set[int]:
    """Of the tests: one of them adopts who has lost its parent."""
    parents = {each.pid: each.parent for each in everyone}
    found, above = {1}, os.getppid()
    while above in parents:
        found.add(above)
        above = parents[above]
    return found


def _ticks() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


@dataclass(slots=True)
class Traces:
    """What was seen of a run while it lived.

    The kernel uses the numbers of namespaces again. Who is in one that was seen, but came later than the kill or has a
    parent elsewhere, is somebody else.
    """

    directory: Path
    foreign: set[str] = field(default_factory=set)  # interfaces that were there before
    processes: set[Process] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    interfaces: set[str] = field(default_factory=set)
    seen_at: int = 0
    killed_at: int = 0

    @classmethod
    def before(cls, directory: Path) -> Traces:
        return cls(directory, foreign=_names("/sys/class/net"))

    def look(self, pid: int) -> None:
        """To be called right before the kill, and `killed` right after it."""
        self.seen_at = _ticks()
        everyone = list(Process.all())
        family = {pid}
        while more := {each.pid for each in everyone if each.parent in family} - family:
            family |= more
        found = {each for each in everyone if each.pid in family or each.speaks_of(str(self.directory))}
        self.processes |= found
        self.namespaces |= {name for each in found for name in each.namespaces()}
        self.namespaces -= {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES}
        self.interfaces |= _names("/sys/class/net") - self.foreign

    def killed(self) -> None:
        self.killed_at = _ticks() + 1

    def left(self) -> list[str]:
        """Processes, namespaces that somebody is in, mounts and interfaces of the host."""
        everyone = list(Process.all())
        found = [str(each) for each in everyone if each in self.processes or each.speaks_of(str(self.directory))]
        found += [f"{each} in {sorted(each.namespaces() & self.namespaces)}" for each in self._unseen(everyone)]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if str(self.directory) in line]
        return found + sorted(self.interfaces & _names("/sys/class/net"))

    def _unseen(self, everyone: Sequence[Process]) -> set[Process]:
        """Those that came after the look, and are children of the run or have lost their parents."""
        new = {each for each in everyone if self.seen_at <= each.born <= self.killed_at}
        inside = {each for each in new if each.namespaces() & self.namespaces}
        parents = {each.pid for each in self.processes} | _ancestors(everyone)
        found: set[Process] = set()
        while more := {each for each in inside - found if each.parent in parents}:
            found |= more
            parents |= {each.pid for each in more}
        return found

    def gone_after(self) -> float:
        """Seconds until nothing is left. Raises AssertionError if that takes too long."""
        began = time.monotonic()
        while found := self.left():
            if time.monotonic() - began > PATIENCE:
                raise AssertionError(f"left after {PATIENCE} s: {found}")
            time.sleep(0.005)
        return time.monotonic() - began


@dataclass(slots=True)
class Lane:
    """Kills one after the other, in one state directory, so that each run finds what the one before has left."""

    directory: Path
    seed: int
    flags: Sequence[str] = ()
    moments: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)  # until nothing was left
    processes: int = 0  # that were alive when the kill came

    def run(self, kills: int) -> Lane:
        chance = random.Random(self.seed)
        # In turns, so that a short lane has them all; who is first differs from lane to lane.
        for turn in range(kills):
            word, most = MOMENTS[(self.seed + turn) % len(MOMENTS)]
            self._kill(word, chance.random() * most, VICTIMS[(self.seed + turn) % len(VICTIMS)])
        self._last_run()
        return self

    def _kill(self, word: str, delay: float, victim: str) -> None:
        traces = Traces.before(self.directory)
        process = start(self.directory, self.flags)
        try:
            if word:
                self._wait_for(word, process)
            time.sleep(delay)
            traces.look(process.pid)
            supervisors = [each.pid for each in Process.all() if each.parent == process.pid and each.speaks_of(MAIN)]
            for pid in supervisors if victim != "client" else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if victim == "supervisor" and supervisors:
                # Pumice notices it, and ends by itself.
                process.wait(timeout=PATIENCE)
        finally:
            process.kill()
            traces.killed()
            process.communicate()
        self.moments[word or "begin"] += process.returncode != 0
        self.moments["ended first"] += process.returncode == 0
        self.processes += len(traces.processes)
        try:
            self.times.append(traces.gone_after())
        except AssertionError as error:
            raise AssertionError(f"{self}: {victim} killed {delay:.3f} s after {word!r}: {error}") from error

    def _wait_for(self, word: str, process: subprocess.Popen[str]) -> None:
        said = []
        for line in process.stdout or ():
            said.append(line)
            if word in line:
                return
        raise AssertionError(f"{self}: pumice ended, with {process.wait()}, before it said {word!r}: {''.join(said)}")

    def _last_run(self) -> None:
        """One that nobody kills: it goes well, and clears away what the others have left."""
        process = start(self.directory, self.flags)
        output, _ = process.communicate(timeout=PATIENCE)
        if process.returncode != 0:
            raise AssertionError(f"{self}: the run afterwards ended with {process.returncode}: {output}")
        left = scratch(self.directory)
        if left:
            raise AssertionError(f"{self}: left after one more run: {left}")

    def __str__(self) -> str:
        return f"seed {self.seed} {' '.join(self.flags)}".rstrip()


def scratch(directory: Path) -> list[str]:
    """What runs have in the state directory, but for what is meant to stay: specs and logs."""
    state = directory / "state" / "pumice"
    found = [path for path in state.glob("stage/*") if path.name != "lock"]
    return sorted(str(path.relative_to(state)) for path in [*found, *state.glob("runs/*/*/*/scratch")])

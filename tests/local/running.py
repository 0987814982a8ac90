"""`pumice run`, in a process of its own and a folder of its own, with jobs made of shell scripts."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fork_server import ForkServer, PipedFork, fork_server
from tests.patience import RUN_TIMEOUT

_SOURCES = str(Path(__file__).resolve().parents[2] / "src")
_CONFIG = str(Path(__file__).resolve().parent / "data" / "config")
# As in an active virtual environment. Elsewhere python3, which every run asks where it is, may be a slow shell script.
SEARCH_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# As a shell in the foreground would start it, also where the tests themselves run in the background.
_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, {SIGINT})
signal.signal(signal.SIGQUIT, {SIGQUIT})
from pumice.cli.program import main
sys.exit(main())
"""
_FOREGROUND = _MAIN.format(SIGINT="signal.default_int_handler", SIGQUIT="signal.SIG_DFL")
# As a shell without job control starts a program with `&`.
_BACKGROUND = _MAIN.format(SIGINT="signal.SIG_IGN", SIGQUIT="signal.SIG_IGN")
# What commands, and the processes that they fork, load in a run.
MODULES = (
    "pumice.cli.run.command",
    "pumice.cli.run.request",
    "pumice.client.local.local_backend",
    "pumice.engines.local.supervisor.leased_process",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
)
Manifest = dict[str, Any]


def _server() -> ForkServer:
    return fork_server(*MODULES)


def need_login() -> None:
    """Sshd lets only those in who have a shell, which an ordinary user of the tests may not have."""
    shell = pwd.getpwuid(os.getuid()).pw_shell
    if shell.endswith(("/nologin", "/false")):
        pytest.skip(f"sshd does not let a user in whose shell is {shell}")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def verdict(self) -> list[str]:
        """The last words, which follow an empty line."""
        return self.err.rpartition("\n\n")[2].strip("\n").splitlines()


@dataclass
class Workspace:
    directory: Path
    environ: dict[str, str] = field(default_factory=dict)
    background: bool = False  # with SIGINT and SIGQUIT ignored
    cwd: str = ""  # if not the directory

    @property
    def state(self) -> Path:
        return self.directory / "state" / "pumice"

    @property
    def env(self) -> Mapping[str, str]:
        return {
            "PATH": SEARCH_PATH,
            "HOME": str(self.directory),
            "XDG_STATE_HOME": str(self.state.parent),
            "XDG_CONFIG_HOME": _CONFIG,
            "PYTHONPATH": _SOURCES,
            **self.environ,
        }

    def configure(self, text: str) -> None:
        """Write the user's own settings, in place of those that other tests share."""
        file = self.directory / ".config" / "pumice" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.environ["XDG_CONFIG_HOME"] = str(file.parents[1])

    def write(self, *documents: Manifest, name: str = "job.yaml") -> str:
        (self.directory / name).write_text(yaml.safe_dump_all(documents))
        return name

    def _written(self, *documents: Manifest) -> str:
        return str((self.directory if self.cwd else Path()) / self.write(*documents))

    def argv(self, *documents: Manifest, flags: Sequence[str] = ()) -> list[str]:
        return [
            sys.executable,
            "-c",
            _BACKGROUND if self.background else _FOREGROUND,
            "run",
            self._written(*documents),
            *flags,
        ]

    def start(self, *documents: Manifest, flags: Sequence[str] = ()) -> PipedFork:
        """Start a job, in a process that need not load all modules first."""
        words = ["run", self._written(*documents), *flags]
        return _server().open(words, cwd=Path(self.cwd or self.directory), env=self.env)

    def start_python(self, *documents: Manifest, flags: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start Python, as a user does."""
        return subprocess.Popen(
            self.argv(*documents, flags=flags),
            cwd=self.cwd or self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *documents: Manifest, flags: Sequence[str] = ()) -> Result:
        """Run a job to its end, in a process that need not load all modules first."""
        words = ["run", self._written(*documents), RUN_TIMEOUT, *flags]
        done = _server().run(words, cwd=Path(self.cwd or self.directory), env=self.env)
        return Result(done.returncode, done.stdout, done.stderr)

    def pumice(self, *words: str) -> Result:
        """Run another command, such as `why`."""
        done = _server().run(list(words), cwd=self.directory, env=self.env)
        return Result(done.returncode, done.stdout, done.stderr)


def job(*tasks: Manifest, **spec: Any) -> Manifest:
    metadata = {"name": "trial"}
    body = {"schedulerName": "volcano", "tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": body}


def task(name: str, script: str, replicas: int = 1, **extra: Any) -> Manifest:
    container: Manifest = {"name": name, "image": "nowhere", "command": ["sh", "-c", script]}
    container |= extra.pop("container", {})
    pod: Manifest = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod |= extra.pop("pod", {})
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **extra}


def scripted(*argv: str) -> Manifest:
    """A container that runs this instead of a shell."""
    return {"command": list(argv)}


def extra_object(kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def processes(mark: str) -> list[str]:
    """The command lines that hold this, of all processes that there are."""
    found = []
    for number in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names only: processes end meanwhile
        try:
            line = Path("/proc", number, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and int(number) != os.getpid():
            found.append(line)
    return found

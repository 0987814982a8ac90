"""Plays a story with real pods and real processes, in the home directory of a user called ada."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pumice.engines.local.clock import wall_clock
from pumice.store.files.owner_lock import is_owned
from tests.golden.store_archive import OWNED
from tests.local.commands import Terminal
from tests.local.running import Manifest, Result, Workspace, processes
from tests.unit.cli.screens import OnTerminal

HOME = "home/ada"
PROJECT = "home/ada/train"
COPY = "copy"
# Files of the sandbox, which come and go.
_LEFT_OUT = shutil.ignore_patterns("reserve", "stage", "scratch")
WAIT = "while [ ! -e go ]; do sleep 0.1; done"
TERMINATE = [{"event": "PodFailed", "action": "TerminateJob"}]
RESTART = [{"event": "PodFailed", "action": "RestartJob"}]
MIXED = {"pytorch": ["--master=master", "--worker=worker"], "svc": []}


def task(name: str, script: str, replicas: int = 1, **more: Any) -> Manifest:
    """Return a task of one container that runs a shell script; `limits`, `container` and `pod` add fields."""
    container: Manifest = {"name": name, "image": "train/base:2.4", "command": ["sh", "-c", script]}
    if limits := more.pop("limits", None):
        container["resources"] = {"limits": limits}
    container |= more.pop("container", {})
    pod: Manifest = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod |= more.pop("pod", {})
    return {"name": name, "replicas": replicas, **more, "template": {"spec": pod}}


def python(script: str, **more: Any) -> Manifest:
    """Return a container that runs a script of the working directory."""
    return {"command": ["python3", script], **more}


class _Workspace(Workspace):
    """The state is in the home, not in the project."""

    @property
    def state(self) -> Path:
        return self.directory.parent / "state" / "pumice"

    def configure(self, text: str) -> None:
        file = self.directory.parent / ".config" / "pumice" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.environ["XDG_CONFIG_HOME"] = str(file.parents[1])


class Scene(Terminal):
    """The terminal of ada. Files are named after the story, and so are jobs."""

    def __init__(self, root: Path) -> None:
        (root / PROJECT).mkdir(parents=True)
        super().__init__(root / PROJECT)
        self.root = root
        self.workspace = _Workspace(root / PROJECT, {"XDG_RUNTIME_DIR": str(root / HOME), "HOME": str(root / HOME)})
        self.workspace.environ["PATH"] = "/usr/bin:/bin"
        self.workspace.configure('network = "job"\n')

    def file(self, name: str, *tasks: Manifest, documents: tuple[Manifest, ...] = (), **spec: Any) -> str:
        metadata = {"name": name, **spec.pop("metadata", {})}
        job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
        job["spec"] = {**spec, "tasks": list(tasks)}
        text = yaml.safe_dump_all([job, *documents], sort_keys=False, width=200)
        (self.workspace.directory / f"{name}.yaml").write_text(text)
        return f"{name}.yaml"

    def script(self, name: str, text: str) -> None:
        (self.workspace.directory / name).write_text(text)

    def run(self, name: str, *tasks: Manifest, flags: tuple[str, ...] = (), **spec: Any) -> Result:
        """Run a job in the foreground to its end."""
        return self("run", self.file(name, *tasks, **spec), *flags, code=None)

    def start(self, name: str, *tasks: Manifest, flags: tuple[str, ...] = (), **spec: Any) -> str:
        """Submit a job, and wait until it runs."""
        run = self("submit", self.file(name, *tasks, **spec), *flags).out.strip()
        self.reach(run, "Running")
        return run

    def item(self, run: str) -> dict[str, Any]:
        return next(each for each in self.items("-a") if each["run"] == run)

    def reach(self, run: str, phase: str) -> None:
        self.until(lambda: self.item(run)["phase"] == phase)

    def finish(self, run: str) -> None:
        """Let a job that waits for the file `go` end."""
        (self.workspace.directory / "go").touch()
        self("wait", run, code=None)
        (self.workspace.directory / "go").unlink()

    def say(self, run: str, words: str) -> None:
        """Wait until these words are in the logs of a run."""
        self.until(lambda: words in self("logs", run).out)

    def kill(self, run: str) -> None:
        """Kill the process of a run, and wait until its pods are gone, too."""
        directory = self.directory(run)
        os.kill(self.owner(run), signal.SIGKILL)
        self.until(lambda: not processes(str(directory)))

    def directory(self, run: str) -> Path:
        name, _, number = run.partition(":")
        (found,) = self.workspace.state.glob(f"runs/*/{name}/{number}")
        return found

    def lose_secrets(self, run: str) -> None:
        """Do what a restart of the machine does: no process and no runtime directory is left."""
        self("service", "stop")
        pid = self.owner(run)
        self.kill(run)
        (self.directory(run) / "owner.lock").write_text(json.dumps({"pid": pid, "start": 1, "boot": "another-boot"}))
        shutil.rmtree(self.root / HOME / "pumice")

    def on_terminal(self, name: str, *tasks: Manifest, **spec: Any) -> OnTerminal:
        """Run a job in the foreground of a terminal."""
        words = self.workspace.argv()[:3]
        self.workspace.environ["TERM"] = "xterm"
        return OnTerminal(
            [*words, "run", self.file(name, *tasks, **spec)], self.workspace.directory, self.workspace.env
        )

    def copy(self) -> None:
        """Copy the store as it is now, for the stories of runs that live."""
        # A run that writes its status replaces the file: no reader sees half of it.
        shutil.copytree(self.workspace.state, self.root / COPY, symlinks=True, ignore=_LEFT_OUT)
        self.copied = wall_clock().timestamp()
        owned = [path.parent for path in self.workspace.state.glob("runs/*/*/*/owner.lock") if is_owned(path.parent)]
        here = [path for path in owned if f'"host":"{socket.gethostname()}"' in (path / "run.json").read_text()]
        text = "".join(f"{path.relative_to(self.workspace.state)}/owner.lock\n" for path in here)
        (self.root / COPY / OWNED).write_text(text)


@contextmanager
def open_scene(root: Path) -> Iterator[Scene]:
    """Yield the terminal; at the end stop its runs and its service, and take the copy that was not taken yet."""
    scene = Scene(root)
    try:
        yield scene
        if not (root / COPY).exists():
            scene("service", "stop", code=None)
            scene.copy()
    finally:
        scene("stop", "--all", "--force", code=None)
        scene("service", "stop", code=None)
        scene.until(lambda: not processes(str(root)))


@dataclass(frozen=True)
class Story:
    """The store of a live one is copied while its runs live; it calls `copy` itself."""

    name: str
    play: Callable[[Scene], None]
    live: bool = False

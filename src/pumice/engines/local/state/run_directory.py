"""The directories of runs: spec, events and logs stay after the run; scratch files are removed.

A run holds a lock on its directory while it lives, so an unlocked directory belongs to no live run. The newest finished
runs stay; those that keep their pods' files (`--keep`) stay until the user removes them. All of it is closed to other
users: logs and specs may contain secrets.

    runs/JOB-UID8/job.json                  the Job as it ran
    runs/JOB-UID8/events.jsonl              what `--json` would have printed, without the log lines
    runs/JOB-UID8/pods/TASK-INDEX/N/       the N-th pod of this name: pod.json, and CONTAINER.M.log of its M-th restart;
                                           a long log continues in CONTAINER.M.1.log and so on
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.kubelet.container_logs import LogFile
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.model.job import Job, Manifest
from pumice.model.problem import Problem

SCRATCH: Final = "scratch"
KEPT: Final = "kept"
MOST_RUNS: Final = 20
_PRIVATE: Final = 0o700


def make_private(directory: Path) -> None:
    """Make a directory that is closed to other users; its parents get the default mode."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(exist_ok=True, mode=_PRIVATE)


def state_problem(state: Path, error: OSError) -> Problem:
    """Explain why nothing can be stored in the state directory."""
    path = Path(error.filename or state)
    # mkdir fails with FileExistsError where a file has the name of the directory.
    why = "not a directory" if isinstance(error, FileExistsError) else (error.strerror or str(error)).lower()
    owner = _other_owner(path) if isinstance(error, PermissionError) and os.path.lexists(state) else ""
    # As after a run by root with this user's home.
    first = f"it belongs to {owner}: sudo chown -R {os.getuid()} {state}" if owner else "make room there"
    hint = f"{first}, or set XDG_STATE_HOME to a directory that you can write to"
    return Problem(f"{path}: {why}, so nothing can be stored in {state}", hint)


def _other_owner(path: Path) -> str:
    """Return the owner of the path, or of its nearest existing parent; empty if that is the current user."""
    existing = next((each for each in (path, *path.parents) if os.path.lexists(each)), Path("/"))
    try:
        owner = existing.lstat().st_uid
        return "" if owner == os.getuid() else pwd.getpwuid(owner).pw_name
    except KeyError:
        return "another user"
    except OSError:
        return ""


@contextmanager
def locked_run_directory(directory: Path) -> Iterator[None]:
    """Make and lock the directory of a run, and clean up after earlier runs."""
    make_private(directory.parent)
    make_private(directory)
    with _locked(directory):
        _sweep(directory)
        yield


@dataclass(slots=True)
class RunDirectory:
    """Writes the files of a run. A failure, as on a full disk, is a warning; the job goes on."""

    directory: Path
    warn: Callable[[str], None]
    log_size: int | None = None  # bytes of the log of a container that are kept
    _created: dict[str, int] = field(default_factory=dict)  # number of pods by short name
    _events: LogFile | None = None

    def write_job(self, job: Job) -> None:
        self._write(self.directory / "job.json", job)

    def append_events(self, lines: str) -> None:
        if self._events is None:
            self._events = LogFile(self.directory / "events.jsonl", self.warn)
        self._events.write(lines.encode())

    def add_pod(self, short_name: str, manifest: Manifest) -> Path:
        """Return the directory of a new pod."""
        self._created[short_name] = self._created.get(short_name, 0) + 1
        directory = self._newest_pod(short_name)
        self._write(directory / "pod.json", manifest)
        return directory

    def open_log(self, pod_directory: Path, container: str, restart: int) -> LogFile:
        log = LogFile(pod_directory / f"{container}.{restart}.log", self.warn, self.log_size)
        # A container that prints nothing has a log, too: verdicts name it.
        log.write(b"")
        log.close()
        return log

    def newest_log(self, short_name: str, container: str) -> Path | None:
        logs = self._newest_pod(short_name).glob(f"{container}.*.log")
        return max(logs, key=lambda path: path.stat().st_mtime_ns, default=None)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events = None

    def _newest_pod(self, short_name: str) -> Path:
        return self.directory / "pods" / short_name / str(self._created.get(short_name, 0))

    def _write(self, path: Path, value: object) -> None:
        file = LogFile(path, self.warn)
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
        file.close()


def once_per_machine(state: Path, warn: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that warns only in the first run: for what is true of every run on this machine."""

    def warn_once(message: str) -> None:
        marker = state / "told" / hashlib.sha256(message.encode()).hexdigest()[:16]
        try:
            marker.parent.mkdir(exist_ok=True, mode=_PRIVATE)
            marker.touch(exist_ok=False)
        except FileExistsError:
            return
        except OSError:
            # Warn without a marker: better twice than never.
            warn(message)
        else:
            warn(message)

    return warn_once


def _sweep(current: Path) -> None:
    """Remove the scratch directories of killed runs, and the oldest runs."""
    finished = []
    for directory in current.parent.iterdir():
        if directory == current or not directory.is_dir():
            continue
        # A locked directory belongs to a live run; another run may have removed it meanwhile.
        with suppress(OSError), _locked(directory, wait=False):
            last_used = directory.stat().st_mtime_ns
            remove_tree(directory / SCRATCH)
            if not (directory / KEPT).exists():
                finished.append((last_used, directory))
    for _, directory in sorted(finished)[: -MOST_RUNS + 1]:
        with suppress(OSError), _locked(directory, wait=False):
            remove_tree(directory)


@contextmanager
def _locked(directory: Path, *, wait: bool = True) -> Iterator[None]:
    """Without `wait`, raises OSError if another process holds the lock."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)

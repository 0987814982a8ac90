"""The directories of runs: spec, events and logs stay, the pods' scratch goes with the run or with the next.

A run holds a lock on its directory for as long as it lives, so that whoever finds it free knows that nobody is there.
Of runs that are over the newest stay; those that were told to keep their pods' files stay until somebody removes them.
Nothing in here is for other users to read: logs and specs may hold secrets.

    runs/JOB-UID8/job.json                  the Job as it ran
    runs/JOB-UID8/events.jsonl              what `--json` would have printed, without the log lines
    runs/JOB-UID8/pods/TASK-INDEX/N/        the N-th pod of this name: pod.json, and CONTAINER.M.log of its M-th restart
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.kubelet.container_logs import LogFile
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.model.job import Job, Manifest

SCRATCH: Final = "scratch"
KEPT: Final = "kept"
MOST_RUNS: Final = 20
_PRIVATE: Final = 0o700


def make_private(directory: Path) -> None:
    """Make a directory for its owner alone. Those above it are made as everybody makes them."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(exist_ok=True, mode=_PRIVATE)


def state_error_text(state: Path, error: OSError) -> str:
    """Why nothing can be kept there, and what to do."""
    place = Path(error.filename or state)
    # What is in the way of a directory is a file.
    why = "not a directory" if isinstance(error, FileExistsError) else (error.strerror or str(error)).lower()
    # As after a run by root with this user's home.
    owner = _other_owner(place) if isinstance(error, PermissionError) and os.path.lexists(state) else ""
    first = f"it belongs to {owner}: sudo chown -R {os.getuid()} {state}" if owner else "make room there"
    return (
        f"{place}: {why}, so nothing can be kept in {state}\n"
        f"  hint: {first}, or set XDG_STATE_HOME to a directory of yours"
    )


def _other_owner(path: Path) -> str:
    """Whose it is, or what is above it where it is not there yet; empty if it is ours."""
    there = next((each for each in (path, *path.parents) if os.path.lexists(each)), Path("/"))
    try:
        owner = there.lstat().st_uid
        return "" if owner == os.getuid() else pwd.getpwuid(owner).pw_name
    except KeyError:
        return "another user"
    except OSError:
        return ""


@contextmanager
def locked_run_directory(directory: Path) -> Iterator[None]:
    make_private(directory.parent)
    make_private(directory)
    with _locked(directory):
        _sweep(directory)
        yield


@dataclass(slots=True)
class RunDirectory:
    """What is kept of a run. Where that fails, because the disk is full or not ours, the job goes on."""

    directory: Path
    warn: Callable[[str], None]
    _made: dict[str, int] = field(default_factory=dict)  # how many pods of each name there were
    _events: LogFile | None = None

    def job(self, job: Job) -> None:
        self._write(self.directory / "job.json", job)

    def events(self, lines: str) -> None:
        if self._events is None:
            self._events = LogFile(self.directory / "events.jsonl", self.warn)
        self._events.write(lines.encode())

    def pod(self, short_name: str, manifest: Manifest) -> Path:
        """A pod was made; where what is kept of it lies."""
        self._made[short_name] = self._made.get(short_name, 0) + 1
        place = self.directory / "pods" / short_name / str(self._made[short_name])
        self._write(place / "pod.json", manifest)
        return place

    def log(self, place: Path, container: str, restart: int) -> LogFile:
        return LogFile(place / f"{container}.{restart}.log", self.warn)

    def newest_log(self, short_name: str, container: str) -> Path | None:
        place = self.directory / "pods" / short_name / str(self._made.get(short_name, 0))
        logs = list(place.glob(f"{container}.*.log"))
        return max(logs, key=lambda path: path.stat().st_mtime_ns, default=None)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events = None

    def _write(self, path: Path, value: object) -> None:
        file = LogFile(path, self.warn)
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
        file.close()


def once_per_machine(state: Path, tell: Callable[[str], None]) -> Callable[[str], None]:
    """What holds for every run on this machine is told in the first one."""

    def told(message: str) -> None:
        mark = state / "told" / hashlib.sha256(message.encode()).hexdigest()[:16]
        try:
            mark.parent.mkdir(exist_ok=True, mode=_PRIVATE)
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        except OSError:
            # Better twice than never.
            tell(message)
            return
        tell(message)

    return told


def _sweep(mine: Path) -> None:
    """Remove the scratch directories of runs that were killed, and all of the oldest runs."""
    over = []
    for directory in mine.parent.iterdir():
        if directory == mine or not directory.is_dir():
            continue
        try:
            with _locked(directory, wait=False):
                last_used = directory.stat().st_mtime_ns
                remove_tree(directory / SCRATCH)
                if not (directory / KEPT).exists():
                    over.append((last_used, directory))
        except OSError:
            # Somebody runs there, or has removed it since.
            continue
    for _, directory in sorted(over)[: -MOST_RUNS + 1]:
        _remove(directory)


def _remove(directory: Path) -> None:
    try:
        with _locked(directory, wait=False):
            remove_tree(directory)
    except OSError:
        return


@contextmanager
def _locked(directory: Path, *, wait: bool = True) -> Iterator[None]:
    """Raises OSError if somebody else holds it, unless told to wait."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)

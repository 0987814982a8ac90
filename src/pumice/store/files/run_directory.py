"""The files of one run, besides its journal: the logs and manifests of its pods. They stay; scratch files are removed.

All of it is closed to other users: logs and specs may contain secrets.

    pods/TASK-INDEX/N/    the N-th pod of this name: pod.json, and CONTAINER.M.log of its M-th restart with its index
                          CONTAINER.M.idx; a long log continues in CONTAINER.M.1.log and so on
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from pumice.model.job import Manifest
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.remove_tree import remove_tree
from pumice.store.journal import SequenceNumbers
from pumice.store.logs.log_file import LogFile

SCRATCH: Final = "scratch"
KEPT: Final = "kept"
_PRIVATE: Final = 0o700


class RunDirectory(Struct):
    """Writes the files of a run. A failure, as on a full disk, is a warning; the job goes on."""

    directory: Path
    warn: Callable[[str], None]
    numbers: SequenceNumbers = field(default_factory=SequenceNumbers)  # shared by the journal and the logs
    log_size: int | None = None  # bytes of the log of a container that are kept
    _created: dict[str, int] = field(default_factory=dict)  # number of pods by short name

    def add_pod(self, short_name: str, manifest: Manifest) -> Path:
        """Return the directory of a new pod."""
        if short_name not in self._created:
            # A run that lost its process continues in another one, and the logs of its pods stay.
            stored: list[str] = []
            with suppress(OSError):
                stored = [path.name for path in (self.directory / "pods" / short_name).iterdir()]
            self._created[short_name] = max((int(name) for name in stored if name.isdecimal()), default=0)
        self._created[short_name] += 1
        directory = self._newest_pod(short_name)
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
            content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
            replace_file(directory / "pod.json", content, sync=False)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self.warn(f"logs are shown but no longer written to {directory}: {why}")
        return directory

    def open_log(self, pod_directory: Path, container: str, restart: int) -> LogFile:
        log = LogFile(pod_directory / f"{container}.{restart}.log", self.warn, self.numbers.next, self.log_size)
        # A container that prints nothing has a log, too: verdicts name it.
        log.write(b"")
        return log

    def newest_log(self, short_name: str, container: str) -> Path | None:
        logs = self._newest_pod(short_name).glob(f"{container}.*.log")
        # The newest with text: a container that starts again may not have printed anything yet.
        return max(logs, key=lambda path: (path.stat().st_size > 0, path.stat().st_mtime_ns), default=None)

    def remove_scratch(self) -> None:
        """Raises OSError."""
        remove_tree(self.directory / SCRATCH)

    def _newest_pod(self, short_name: str) -> Path:
        return self.directory / "pods" / short_name / str(self._created.get(short_name, 0))

"""Reports at each start of the pods which files of the code are not as they were when the run was submitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from pumice.diagnosis.code_change import MOST_NAMED, CodeChange
from pumice.model.vocabulary import COMMAND, Phase
from pumice.store.code.run_code import read_code
from pumice.store.events import CodeChanged, PhaseChanged, RunEvent


@dataclass(slots=True)
class CodeWatch:
    """A listener of the run. It looks beside the start of the pods, which do not wait for it."""

    directory: Path  # of the run
    emit: Callable[[RunEvent], None]
    _attempt: int = 0  # 0 before the first phase
    _reported: CodeChange | None = None
    _loaded: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __call__(self, event: RunEvent) -> None:
        if isinstance(event, PhaseChanged):
            begun, self._attempt = self._attempt, event.attempt
            # A restart that a person asked for is no new attempt.
            restarted = event.status.state.phase == Phase.RESTARTING and event.status.state.reason == COMMAND
            if begun and (restarted or begun != event.attempt):
                self.look()
            if event.status.state.phase == Phase.RUNNING and not self._loaded:
                self._loaded = True
                self._spawn(asyncio.to_thread(_load))

    def look(self) -> None:
        self._spawn(self._look())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait for the looks that have begun: the pods may have needed less time."""
        await asyncio.gather(*self._tasks)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _look(self) -> None:
        change = await asyncio.to_thread(_code_change, self.directory)
        if change is not None or self._reported is not None:
            self._reported = change
            self.emit(CodeChanged(change))


def _load() -> None:
    """Load what looks at code: not before the first pods run, and not late, when it may be that of another version."""
    import pumice.store.code.recording  # noqa: F401, PLC0415 - see above


def _code_change(directory: Path) -> CodeChange | None:
    """Return what changed. Of a run that starts at once, nothing is recorded yet, and nothing can have changed."""
    code = read_code(directory)
    if code is None:
        return None
    from pumice.store.code.git_index import GitError  # noqa: PLC0415 - see `_load`
    from pumice.store.code.recording import (  # noqa: PLC0415 - see `_load`
        SCAN_SECONDS,
        SECONDS,
        changed_files,
        deadline,
    )

    try:
        changes = changed_files(code, deadline(SECONDS), deadline(SCAN_SECONDS))
    except (GitError, OSError) as error:
        why = str(error) if isinstance(error, GitError) else (error.strerror or str(error)).lower()
        return CodeChange(files=(f"{code.directory} ({why})",), count=1)
    if not changes.files and changes.is_complete:
        return None
    return CodeChange(files=changes.files[:MOST_NAMED], count=len(changes.files), is_complete=changes.is_complete)

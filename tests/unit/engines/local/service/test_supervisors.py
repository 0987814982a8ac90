"""The processes of runs that the service watches."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pumice.engines.local.service.service_process import Supervisors
from pumice.store.files.owner_lock import OwnerLock
from tests.patience import PATIENCE

# Ends when the file exists.
PROGRAM = 'while [ ! -e "$0" ]; do sleep 0.2; done'


def test_a_run_that_is_resumed_before_its_first_process_has_ended(tmp_path: Path) -> None:
    """The end of the first process neither waits for the second one nor hides it."""
    ends: list[str] = []
    files = iter((tmp_path / "first", tmp_path / "second"))
    run: Any = SimpleNamespace(directory=tmp_path, record=SimpleNamespace(uid="a", gpus=None))

    async def main() -> None:
        ended = asyncio.Event()

        def note_end(uid: str) -> None:
            ends.append(uid)
            ended.set()

        supervisors = Supervisors(os.environ, note_end, lambda _run, _lock: ["sh", "-c", PROGRAM, str(next(files))])
        lock = OwnerLock.take(tmp_path)
        assert lock is not None
        supervisors.start(run, lock)
        first = supervisors._children["a"]
        supervisors.start(run, lock)
        lock.release()
        (tmp_path / "first").touch()
        while first.returncode is None:  # noqa: ASYNC110 - the loop collects it
            await asyncio.sleep(0.01)
        assert (ends, supervisors.watched) == ([], frozenset({"a"}))
        (tmp_path / "second").touch()
        await asyncio.wait_for(ended.wait(), PATIENCE)
        assert (ends, supervisors.watched) == (["a"], frozenset())

    asyncio.run(asyncio.wait_for(main(), PATIENCE))

"""What a process needs to go on with a run that another process began: the job's last status."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.runs.journal import read_journal
from pumice.model.status import JobStatus

# Entries that have a whole status.
_STATUS: Final = ("StatusWritten", "PhaseChanged")


def last_status(directory: Path) -> JobStatus | None:
    """Return the status that was written last; None if the job has none yet."""
    for entry in reversed(read_journal(directory)[0]):
        if entry.kind in _STATUS and isinstance(entry.data, dict):
            return msgspec.convert(entry.data["status"], JobStatus)
    return None

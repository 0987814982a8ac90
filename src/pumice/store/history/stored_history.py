"""The history of a run in files: reads the journal once, and continues where the last reading ended.

A journal may have thousands of entries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from msgspec import field

from pumice.store.history.run_history import RunHistory
from pumice.store.journal import read_journal
from pumice.store.run_errors import StoreError
from pumice.store.run_record import RunRecord
from pumice.store.sample_file import read_samples


class StoredHistory(RunHistory, kw_only=True):
    directory: Path = field(default_factory=Path)
    _offset: int = 0

    def refresh(self) -> bool:
        """Read what is new in the journal. False if there is nothing."""
        before = self.seq, self.damaged
        try:
            part = read_journal(self.directory, self._offset)
        except StoreError:
            # Such as the file of another user.
            self.damaged = max(self.damaged, 1)
            return (self.seq, self.damaged) != before
        self._offset, self.damaged = part.offset, self.damaged + part.damaged
        for entry in part.entries:
            if entry.seq > self.seq:
                self.add(entry)
        return (self.seq, self.damaged) != before

    def measured(self) -> Iterable[dt.datetime]:
        try:
            return [sample.time for sample in read_samples(self.directory)]
        except (OSError, ValueError, OverflowError):
            # A damaged file must not keep the run from being recovered.
            return ()


def read_history(record: RunRecord, directory: Path) -> StoredHistory:
    """Return the history of a run as its journal has it now."""
    history = StoredHistory(record, directory=directory)
    history.refresh()
    return history

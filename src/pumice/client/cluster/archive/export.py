"""Packs a Job of a cluster into the archive that a run of this machine would have: `pumice open` reads both.

It has what the cluster still knows: the record, what happened, and the logs that exist. Values of secret variables and
arguments are left out; programs may have printed secrets.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import aclosing, suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.client.backend import RemoveRun
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import JobFacts
from pumice.client.cluster.journal_entries import JobJournal, record_of
from pumice.client.cluster.pod_logs import JobLogs
from pumice.model import VERSION, keys
from pumice.store.journal import FILE as JOURNAL
from pumice.store.logs.log_index import encode_record
from pumice.store.logs.log_reader import LogSelection
from pumice.store.logs.log_source import LogBatch
from pumice.store.redaction import redacted_line
from pumice.store.run_errors import NoSuchRun
from pumice.store.run_names import run_ref

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend

_NUMBER: Final = 1  # Jobs on a cluster have none, and runs of an archive do


async def archive_and_delete(backend: ClusterBackend, directory: Path) -> None:
    """Write an archive of each Job that was submitted from here, and delete the Job. Raises RunError, and OSError."""
    for run in backend.submitted:
        with suppress(NoSuchRun):
            with (directory / f"{run}-{run.uid[:8]}.tar.gz").open("wb") as out:
                await backend.export(run, out)
            await backend.change(run, RemoveRun(force=True, claims=True))


async def export_job(connection: Connection, facts: JobFacts, out: BinaryIO, *, logs: bool) -> None:
    """Write the archive, a gzipped tar with one directory. Raises RunError, and OSError."""
    job, opened = facts.job, run_ref(facts.job.name, _NUMBER, opened=True)
    record = replace(record_of(facts), number=_NUMBER, host=connection.name, version=VERSION)
    journal = JobJournal(record)
    entries = journal.add(replace(facts, opened=opened))
    with tarfile.open(fileobj=out, mode="w:gz") as archive:

        def add(name: str, content: bytes | Path) -> None:
            with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
                entry = tarfile.TarInfo(f"{job.name}-{_NUMBER}/{name}")
                entry.size, entry.mode, entry.mtime = file.seek(0, os.SEEK_END), 0o600, int(record.created.timestamp())
                file.seek(0)
                archive.addfile(entry, file)

        add("run.json", redacted_line(msgspec.json.encode(record)))
        add(JOURNAL, b"".join(redacted_line(msgspec.json.encode(entry)) for entry in entries))
        add("status.json", redacted_line(msgspec.json.encode(journal.history.status)))
        if not logs or "pods" in facts.unreadable:
            return
        with tempfile.TemporaryDirectory(prefix="pumice-export-") as directory:
            files = _LogFiles(Path(directory), journal.history.seq)
            reader = JobLogs(connection, job, LogSelection(), tails=facts.kept.tails)
            async with aclosing(reader.read(facts.pods)) as parts:
                async for batches in parts:
                    files.add(batches)
            for path in files.written:
                add(f"pods/{path.relative_to(directory)}", path)
            for name, attempt in files.pods.items():
                annotations = {keys.JOB_RETRY_COUNT: str(attempt - 1)}
                add(f"pods/{name}/pod.json", msgspec.json.encode({"metadata": {"annotations": annotations}}))


class _LogFiles(Struct):
    """Writes the log of each execution, and its index, as they are read: there may be more than memory holds."""

    directory: Path
    sequence: int  # of the last entry of the journal
    pods: dict[str, int] = field(default_factory=dict)  # attempt by directory
    _sizes: dict[Path, int] = field(default_factory=dict)

    @property
    def written(self) -> list[Path]:
        return [path for log in self._sizes for path in (log, log.with_suffix(".idx"))]

    def add(self, batches: Sequence[LogBatch]) -> None:
        for execution, group in groupby(batches, key=lambda each: each[1]):
            pod = f"{execution.pod}/{execution.number}"
            path = self.directory / pod / f"{execution.container}.{execution.restart}.log"
            if path not in self._sizes:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._sizes[path], self.pods[pod] = 0, execution.attempt
            with path.open("ab") as log, path.with_suffix(".idx").open("ab") as records:
                for _, _, time, flags, text in group:
                    self._sizes[path] += len(text)
                    self.sequence += 1
                    log.write(text)
                    records.write(encode_record(self.sequence, time, self._sizes[path], text.count(b"\n"), flags))

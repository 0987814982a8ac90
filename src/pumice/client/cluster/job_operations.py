"""The methods of the port that start or change a Job, or reach into its pods. Each loads what only it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pumice.client.backend import Change, Exec, Leftovers, RunRef, silent
from pumice.client.cluster.reads.job_reads import JobReads
from pumice.client.lease import CheckedRun, Lease
from pumice.client.pod_access import LocalPort, PodCommand, PodPath, PodPort, Skipped
from pumice.store.run_errors import InvalidOption

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pumice.client.cluster.submission.last_job import LastJob
    from pumice.store.code.bundles import Bundle
    from pumice.store.run_request import RunRequest
    from pumice.store.settings import Retention


class JobOperations(JobReads):
    # --- start ----------------------------------------------------------------------------------------------------

    @property
    def typed_namespace(self) -> str:
        """That of -n; empty without."""
        return str(self._backend.arguments[1])

    def last_job(self) -> LastJob | None:
        """Return the Job that was submitted last from here to this namespace."""
        from pumice.client.cluster.submission.last_job import last_job

        connection = self.connection
        namespace = connection.namespace or connection.access.namespace or "default"
        return last_job(os.environ, self._backend.name, namespace)

    async def check(self, request: RunRequest) -> CheckedRun:
        from pumice.client.cluster.submission.submit import check

        return await check(self._backend, request)

    async def submit(self, run: CheckedRun) -> RunRef:
        from pumice.client.cluster.submission.submit import Submission, submit

        assert isinstance(run, Submission)  # noqa: S101 - `check` of this backend made it
        return await submit(self._backend, run, self.connection.tell)

    async def repeat(self, run: RunRef) -> RunRef:
        from pumice.client.cluster.submission.repetition import repeat

        return await repeat(self._backend, run)

    async def code(self, run: RunRef) -> Bundle | None:
        from pumice.client.cluster.submission.code_secrets import read_code
        from pumice.model import keys

        sha256 = ((await self._backend.job(run))["metadata"].get("annotations") or {}).get(keys.CODE)
        return None if sha256 is None else await read_code(self.connection, run, str(sha256))

    def start(self, request: RunRequest) -> Lease:
        from pumice.client.cluster.submission.cluster_lease import ClusterLease

        return ClusterLease(self._backend, request)

    @contextmanager
    def prepared_start(self) -> Iterator[Callable[[RunRequest], Lease]]:
        yield self.start

    def location(self, run: RunRef) -> str:
        return f"{self._backend.name}/{run.namespace}"

    async def strangers(self, runs: Sequence[RunRef]) -> Mapping[str, str]:
        from pumice.client.cluster.control.changes import strangers

        return await strangers(self.connection, runs)

    async def check_change(self, run: RunRef, change: Change) -> None:
        from pumice.client.cluster.control.changes import check_change

        await check_change(self.connection, run, change)

    async def change(self, run: RunRef, change: Change, tell: Callable[[str], None] = silent) -> Sequence[str]:
        from pumice.client.cluster.control.changes import make_change

        return await make_change(self.connection, run, change, tell)

    async def delete_submitted(self, archives: Path) -> None:
        from pumice.client.cluster.archive.export import archive_and_delete

        await archive_and_delete(self._backend, archives)

    async def leftovers(self, retention: Retention, *, claims: bool, images: bool) -> Leftovers:
        from pumice.client.cluster.submission.code_secrets import find_unused_code

        del retention
        if claims or images:
            hint = "leave out --claims and --images"
            raise InvalidOption(f"{self._backend.name}: only code that no Job names is removed", hint)
        return await find_unused_code(self.connection)

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        from pumice.client.cluster.pods.pod_commands import run_command

        return await run_command(self.connection, run, command)

    async def enter(self, run: RunRef, command: Exec) -> PodCommand:
        from pumice.client.cluster.pods.pod_commands import enter

        return await enter(self.connection, run, command)

    async def forward(self, run: RunRef, port: PodPort, tell: Callable[[str], None] = silent) -> LocalPort:
        from pumice.client.cluster.pods.port_forwarding import forward

        return await forward(self.connection, run, port, tell)

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
        from pumice.client.cluster.pods.copying import copy_from

        return await copy_from(self.connection, run, source, local)

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
        from pumice.client.cluster.pods.copying import copy_to

        return await copy_to(self.connection, run, local, target)

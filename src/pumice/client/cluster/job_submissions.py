"""The methods of the port that start Jobs on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from pumice.client.backend import RunRef
from pumice.client.cluster.reads.job_reads import JobReads
from pumice.client.lease import CheckedRun, Lease

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.client.cluster.submission.last_job import LastJob
    from pumice.store.code.bundles import Bundle
    from pumice.store.run_request import RunRequest


class JobSubmissions(JobReads):
    """Each loads what only it needs."""

    @property
    def _backend(self) -> ClusterBackend:
        return cast("ClusterBackend", self)

    @property
    def typed_namespace(self) -> str:
        """That of -n; empty without."""
        return str(self._backend.arguments[1])

    def last_job(self) -> LastJob | None:
        """Return the Job that was submitted last from here to this namespace."""
        from pumice.client.cluster.submission.last_job import last_job

        connection = self._backend.connection
        namespace = connection.namespace or connection.access.namespace or "default"
        return last_job(os.environ, self.name, namespace)

    async def check(self, request: RunRequest) -> CheckedRun:
        from pumice.client.cluster.submission.checks import check

        return await check(self._backend, request)

    async def submit(self, run: CheckedRun) -> RunRef:
        from pumice.client.cluster.submission.checks import Submission
        from pumice.client.cluster.submission.submit import submit

        assert isinstance(run, Submission)  # noqa: S101 - `check` of this backend made it
        return await submit(self._backend, run, self.connection.tell)

    async def repeat(self, run: RunRef) -> RunRef:
        from pumice.client.cluster.submission.repetition import repeat

        return await repeat(self._backend, run)

    async def code(self, run: RunRef) -> Bundle | None:
        from pumice.client.cluster.submission.code_secrets import read_code
        from pumice.model import keys

        sha256 = ((await self._backend.job(run))["metadata"].get("annotations") or {}).get(keys.CODE)
        return None if sha256 is None else await read_code(self._backend.connection, run, str(sha256))

    def start(self, request: RunRequest) -> Lease:
        from pumice.client.cluster.submission.cluster_lease import ClusterLease

        return ClusterLease(self._backend, request)

    @contextmanager
    def prepared_start(self) -> Iterator[Callable[[RunRequest], Lease]]:
        yield self.start

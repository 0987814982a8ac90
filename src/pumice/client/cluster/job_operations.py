"""The methods of the port that read, start or change one Job, or reach into its pods. Each loads what only it needs.

The backend itself knows how Jobs are found, listed and watched.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec.structs import replace

from pumice.client.backend import (
    Change,
    Exec,
    Feature,
    Findings,
    Leftovers,
    NodeListing,
    OpenedRun,
    RunRef,
    Usage,
    no_prefix,
    silent,
)
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live_objects import patiently
from pumice.client.cluster.summary import summary
from pumice.client.lease import CheckedRun, Lease
from pumice.client.pod_access import LocalPort, PodCommand, PodPath, PodPort, Skipped
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.store.run_errors import InvalidOption, Unsupported

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pumice.admission.admit import Admitted
    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.client.cluster.submission.last_job import LastJob
    from pumice.diagnosis.why import Why
    from pumice.store.code.bundles import Bundle
    from pumice.store.logs.log_reader import LogSelection
    from pumice.store.logs.log_source import Execution, LogBatch
    from pumice.store.run_request import RunRequest
    from pumice.store.settings import Retention


class JobOperations:
    connection: Connection

    @property
    def _backend(self) -> ClusterBackend:
        return cast("ClusterBackend", self)

    # --- show -----------------------------------------------------------------------------------------------------

    def supports(self, feature: Feature) -> Problem | None:
        return self._no_archives if feature is Feature.OPEN else None

    @property
    def _no_archives(self) -> Problem:
        return Problem(f"{self._backend.name}: archives are opened on this machine", "leave out --on")

    async def open(self, archive: BinaryIO, name: str) -> OpenedRun:
        del archive, name
        raise Unsupported(self._no_archives.message, self._no_archives.hint)

    async def wake(self) -> None:
        """A controller keeps Jobs going."""

    async def logs(
        self,
        run: RunRef,
        selection: LogSelection,
        *,
        follow: bool = False,
        prefix: Callable[[Execution], bytes] = no_prefix,
    ) -> AsyncGenerator[Sequence[LogBatch], None]:
        from pumice.client.cluster.pod_logs import JobLogs, check_selection

        facts = await (
            patiently(self.connection, lambda: self._backend.facts(run)) if follow else self._backend.facts(run)
        )
        check_selection(facts, selection, follow=follow)
        logs = JobLogs(self.connection, facts.job, selection, prefix, tails=facts.kept.tails)
        batches = logs.follow(facts.pods) if follow else logs.read(facts.pods)
        async with aclosing(batches):
            async for each in batches:
                yield each

    async def why(self, run: RunRef, pod: str = "") -> Why:
        from pumice.client.cluster.archive.kept_logs import evidence_of_attempts
        from pumice.client.cluster.reasons import explain, explain_pod

        facts = await self._backend.facts(run, details=True)
        status, now = summary(facts, self._backend.name), self._backend.now()
        if pod:
            return await explain_pod(self.connection, facts, status, pod, now)
        why = await explain(self.connection, facts, status, now)
        if "pods" in facts.unreadable:
            return why
        earlier = evidence_of_attempts(facts.job, [each.observed for each in facts.pods], facts.kept)
        return replace(why, evidence=(*why.evidence, *earlier))

    async def validate(self, job: Admitted, documents: Sequence[Manifest], namespace: str) -> Findings:
        from pumice.client.cluster.validation import validate

        return await validate(self.connection, job, documents, namespace)

    async def usage(self, run: RunRef) -> Usage:
        from pumice.client.cluster.reads.usage import usage_of

        facts = await self._backend.facts(run)
        return await usage_of(self.connection, facts, live=not summary(facts, self._backend.name).is_over)

    async def export(self, run: RunRef, out: BinaryIO, *, logs: bool = True) -> None:
        from pumice.client.cluster.archive.export import export_job

        await export_job(self.connection, await self._backend.facts(run), out, logs=logs)

    async def nodes(self) -> NodeListing:
        from pumice.client.cluster.reads.nodes import nodes

        return await nodes(self.connection)

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
        return None if sha256 is None else await read_code(self.connection, run, str(sha256))

    def start(self, request: RunRequest) -> Lease:
        from pumice.client.cluster.submission.cluster_lease import ClusterLease

        return ClusterLease(self._backend, request)

    @contextmanager
    def prepared_start(self) -> Iterator[Callable[[RunRequest], Lease]]:
        yield self.start

    # --- change ---------------------------------------------------------------------------------------------------

    def location(self, run: RunRef) -> str:
        return f"{self._backend.name}/{run.namespace}"

    async def strangers(self, runs: Sequence[RunRef]) -> Mapping[str, str]:
        from pumice.client.cluster.control.people import strangers

        return await strangers(self.connection, runs)

    async def check_change(self, run: RunRef, change: Change) -> None:
        from pumice.client.cluster.control.changes import check_change

        await check_change(self._backend, run, change)

    async def change(self, run: RunRef, change: Change, tell: Callable[[str], None] = silent) -> Sequence[str]:
        from pumice.client.cluster.control.changes import make_change

        return await make_change(self._backend, run, change, tell)

    async def delete_submitted(self, archives: Path) -> None:
        from pumice.client.cluster.archive.export import archive_and_delete

        await archive_and_delete(self._backend, archives)

    async def leftovers(self, retention: Retention, *, claims: bool, images: bool) -> Leftovers:
        from pumice.client.cluster.control.unused_code import find_unused_code

        del retention
        if claims or images:
            hint = "leave out --claims and --images"
            raise InvalidOption(f"{self._backend.name}: only code that no Job names is removed", hint)
        return await find_unused_code(self.connection)

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        from pumice.client.cluster.pods.pod_commands import run_command

        return await run_command(self._backend, run, command)

    async def enter(self, run: RunRef, command: Exec) -> PodCommand:
        from pumice.client.cluster.pods.pod_commands import enter

        return await enter(self._backend, run, command)

    async def forward(self, run: RunRef, port: PodPort, tell: Callable[[str], None] = silent) -> LocalPort:
        from pumice.client.cluster.pods.port_forwarding import forward

        return await forward(self._backend, run, port, tell)

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
        from pumice.client.cluster.pods.copying import copy_from

        return await copy_from(self._backend, run, source, local)

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
        from pumice.client.cluster.pods.copying import copy_to

        return await copy_to(self._backend, run, local, target)
